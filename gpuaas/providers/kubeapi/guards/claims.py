"""Rules for DRA: claims only of what was bought, with a count, and none that pretends to be the scheduler's."""

from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.guards.devices import CLASSES
from gpuaas.providers.kubeapi.guards.kinds import Rule, validating
from gpuaas.providers.kubeapi.guards.site import Site

CLAIMS, EARLIER_CLAIMS = "gpuaas-claims", "gpuaas-earlier-claims"
EARLIER = ["v1alpha3", "v1beta1", "v1beta2"]

_MOST = 32  # of one claim, in Kubernetes; who adds up larger counts may overflow
_OURS_TO_SET = "resource.kubernetes.io/"
_NO_MARKS = f"annotations.orValue({{}}).all(key, !key.startsWith('{_OURS_TO_SET}')"


def policies(site: Site) -> list[Object]:
    # matched as v1: by another version of the API they come converted, so that the rules know their shape
    matched = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["resourceclaims", "resourceclaimtemplates"],
        "scope": "*",
    }
    earlier = {**matched, "apiVersions": EARLIER}
    return [
        validating(
            CLAIMS,
            [matched],
            # the scheduler and the controller of templates make claims too; what they make from has passed here
            conditions={"in-a-workspace": site.in_workspace, "by-others": site.outsiders},
            variables={
                "classes": CLASSES,
                "spec": "request.kind.kind == 'ResourceClaimTemplate' ? object.spec.spec : object.spec",
                # a claim without devices comes with null
                "requests": "variables.spec.?devices.?requests.orValue(null) == null ? [] : variables.spec.devices.requests",
                # each as it stands, or all the alternatives that it names
                "asked": "variables.requests.map(r, has(r.exactly) ? [r.exactly] : r.?firstAvailable.orValue([]))",
            },
            rules=_RULES,
        ),
        # where v1 is not served nothing is converted to it, and neither quota nor meter counts these claims
        validating(
            EARLIER_CLAIMS,
            [earlier],
            conditions={"in-a-workspace": site.in_workspace, "by-others": site.outsiders},
            rules=(
                Rule(
                    "false",
                    "claims of earlier versions are not counted by the portal: use resource.k8s.io/v1",
                ),
            ),
            exact=True,
        ),
    ]


def _each(holds: str) -> str:
    return f"variables.asked.all(list, list.all(r, {holds}))"


_RULES: tuple[Rule, ...] = (
    Rule(
        "size(variables.requests) > 0",
        "a claim asks for at least one device: an empty one would make a pod without GPUs look like one that has them",
    ),
    Rule(
        _each("r.deviceClassName in variables.classes"),
        "this workspace did not buy devices of a class that is claimed: claim one that it has, "
        "or add it to the workspace in the portal",
    ),
    Rule(
        _each("r.?allocationMode.orValue('ExactCount') == 'ExactCount'"),
        "a claim must say how many devices it needs: use allocationMode ExactCount with a count",
    ),
    Rule(
        _each(f"r.?count.orValue(1) <= {_MOST}"),
        f"a claim gets at most {_MOST} devices: ask for fewer, in several claims",
    ),
    Rule(
        _each("!r.?adminAccess.orValue(false)"),
        "admin access reaches devices that others use: take adminAccess out",
    ),
    Rule(
        _each("size(r.?tolerations.orValue([])) == 0"),
        "a tainted device is kept from tenants by the site: take the tolerations out",
    ),
    Rule(
        f"object.metadata.?{_NO_MARKS} || (request.operation == 'UPDATE' && "
        "oldObject.metadata.?annotations[?key].orValue('') == object.metadata.annotations[key])) && "
        f"(request.kind.kind != 'ResourceClaimTemplate' || dyn(object.spec).?metadata.?{_NO_MARKS}))",
        f"annotations of {_OURS_TO_SET} are set by Kubernetes alone: take them out",
    ),
    Rule(
        "(object.metadata.?ownerReferences.orValue([]) == (request.operation == 'UPDATE' ? "
        "oldObject.metadata.?ownerReferences.orValue([]) : [])) && (request.kind.kind != 'ResourceClaimTemplate' || "
        "size(dyn(object.spec).?metadata.?ownerReferences.orValue([])) == 0)",
        "owners of claims are set by Kubernetes alone: take ownerReferences out",
    ),
)
