"""Cluster-wide rules of ours: what members may do, and what nobody may do in a workspace's namespace.

Policies are bound by the namespace's name, which cannot change: one bound by a label of ours would be switched off by
the very update that removes the label. Subresources are listed one by one, a rule for `pods` covers none of them.
"""

from gpuaas.providers.kubernetes import names
from gpuaas.providers.kubernetes.client import Object

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

PODS = "gpuaas-pods"
OBJECTS = "gpuaas-objects"
NAMESPACES = "gpuaas-namespaces"
SERVICES = "gpuaas-services"

_IN_WORKSPACE = f"request.namespace.matches('{names.NAMESPACE_PATTERN}')"
_NAMED_AS_WORKSPACE = f"request.name.matches('{names.NAMESPACE_PATTERN}')"
# Kubernetes' own parts, and people with every right; whoever else it is goes through the portal
_OUTSIDERS = (
    "!('system:masters' in request.userInfo.groups) && "
    "!('system:serviceaccounts:kube-system' in request.userInfo.groups) && "
    "!('system:nodes' in request.userInfo.groups) && "
    "!(request.userInfo.username in ['system:kube-controller-manager', 'system:kube-scheduler', "
    "'system:apiserver'])"
)

# every container of a pod, whatever its kind
_CONTAINERS = (
    "object.spec.containers + object.spec.?initContainers.orValue([]) + "
    "object.spec.?ephemeralContainers.orValue([])"
)
_PINS = f"namespaceObject.metadata.?annotations[?'{names.PINS}'].orValue('').split(';')"
# names with a slash are extended resources; limits and requests of those are equal by validation
_ASKED = (
    "variables.containers.map(c, c.?resources.?limits.orValue({}).map(name, name.contains('/'), name))"
    ".filter(list, size(list) > 0)"
)
_ALL_PINNED = (
    "variables.asked.all(list, list.all(name, variables.pins.filter(p, p.split('@')[0] == name).all(p, "
    "p.split('@')[1].split(',').all(pair, pair == '' || "
    "object.spec.?nodeSelector[?pair.split('=')[0]].orValue('') == pair.split('=')[1]))))"
)
_NEEDS_SELECTOR = "a pod that asks for a GPU needs the nodeSelector of its pool"
# tenants cannot read the namespace's annotations, so the sentence tells them
_WITH_SELECTOR = f"'{_NEEDS_SELECTOR}; GPU@selector: ' + variables.pins.join('; ')"
_NO_FOREIGN_AFFINITY = (
    "[object.spec.?affinity.?podAffinity, object.spec.?affinity.?podAntiAffinity].all(a, "
    "(a.?requiredDuringSchedulingIgnoredDuringExecution.orValue([]) + "
    "a.?preferredDuringSchedulingIgnoredDuringExecution.orValue([]).map(w, w.podAffinityTerm)).all(t, "
    "!has(t.namespaceSelector) && t.?namespaces.orValue([]).all(n, n == request.namespace)))"
)
_KNOWN_TOLERATIONS = (
    "object.spec.?tolerations.orValue([]).all(t, t.?key.orValue('') != '' && "
    f"(t.key in ['{names.GPU_TAINT}', 'node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable', "
    "'node.kubernetes.io/memory-pressure'] || variables.pins.exists(p, p.split('@')[0] == t.key)))"
)
# (expression, sentence for the tenant)
_POD_RULES = (
    (
        "request.operation != 'CREATE' || !has(object.spec.nodeName)",
        "a pod may not choose its node by spec.nodeName: use nodeSelector or affinity",
    ),
    (
        "object.spec.?schedulerName.orValue('default-scheduler') == 'default-scheduler'",
        "another scheduler than the default one may not be used",
    ),
    (
        "!object.spec.?priorityClassName.orValue('').startsWith('system-')",
        "system priority classes would evict other tenants' pods",
    ),
    (
        "variables.asked.all(list, list.all(name, variables.pins.exists(p, p.split('@')[0] == name)))",
        "this workspace did not buy a GPU or device that the pod asks for",
    ),
    (_ALL_PINNED, _NEEDS_SELECTOR),
    (
        "variables.containers.all(c, c.?env.orValue([]).all(e, e.name != 'NVIDIA_VISIBLE_DEVICES'))",
        "NVIDIA_VISIBLE_DEVICES may not be set: ask for GPUs by resources.limits",
    ),
    (
        "!object.spec.?runtimeClassName.orValue('').startsWith('nvidia') || size(variables.asked) > 0",
        "an NVIDIA runtime class needs a GPU in resources.limits",
    ),
    (_KNOWN_TOLERATIONS, "only GPU taints may be tolerated"),
    (_NO_FOREIGN_AFFINITY, "affinity to pods of other namespaces may not be used"),
)
_SERVICE_RULES = (
    ("size(object.spec.?externalIPs.orValue([])) == 0", "external IPs would draw other tenants' traffic"),
)


def policies(portal_user: str) -> list[Object]:
    """`portal_user` is who we are to the site: the one account that may touch what the guards protect."""
    outsiders = f"({_OUTSIDERS}) && request.userInfo.username != '{_quoted(portal_user)}'"
    return [
        _policy(
            OBJECTS,
            [
                _rule("", ["resourcequotas", "resourcequotas/status", "limitranges"]),
                _rule("", ["serviceaccounts", "serviceaccounts/token"]),
                _rule("networking.k8s.io", ["networkpolicies"]),
                _rule("rbac.authorization.k8s.io", ["roles", "rolebindings"]),
            ],
            conditions={"in-a-workspace": _IN_WORKSPACE, "by-others": outsiders},
            rules=(("false", "this object belongs to the portal: change the workspace there"),),
        ),
        _policy(
            NAMESPACES,
            [_rule("", ["namespaces", "namespaces/status", "namespaces/finalize"], scope="Cluster")],
            conditions={"a-workspace": _NAMED_AS_WORKSPACE, "by-others": outsiders},
            rules=(("false", "this namespace belongs to the portal: change or delete the workspace there"),),
        ),
        _policy(
            PODS,
            [_rule("", ["pods", "pods/ephemeralcontainers", "pods/resize"], ["CREATE", "UPDATE"])],
            # Controllers make pods for tenants, so CREATE spares nobody; when they update one (to take off a
            # finalizer), a namespace that was made smaller since must not stop them.
            conditions={
                "in-a-workspace": _IN_WORKSPACE,
                "made-or-by-others": f"request.operation == 'CREATE' || ({outsiders})",
            },
            variables={"containers": _CONTAINERS, "pins": _PINS, "asked": _ASKED},
            rules=_POD_RULES,
        ),
        _policy(
            SERVICES,
            [_rule("", ["services"], ["CREATE", "UPDATE"])],
            conditions={"in-a-workspace": _IN_WORKSPACE, "by-others": outsiders},
            rules=_SERVICE_RULES,
        ),
    ]


def binding(policy: Object) -> Object:
    name = policy["metadata"]["name"]
    spec = {"policyName": name, "validationActions": ["Deny"]}
    return _object("ValidatingAdmissionPolicyBinding", name, {"spec": spec})


def forbidden_pod(namespace: str) -> Object:
    """Refused once the policy for pods acts; sent as a dry run, it never becomes a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "gpuaas-guard-", "namespace": namespace},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "none", "image": "none"}]},
    }


def cluster_roles() -> list[Object]:
    """Of our own. Kubernetes' `admin` may impersonate accounts, make tokens for years and bind roles."""
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": names.CLUSTER_ROLE.format(role=role), "labels": _labels()},
            "rules": rules,
        }
        for role, rules in (("view", _VIEW), ("edit", _EDIT), ("admin", _ADMIN))
    ]


def _grant(group: str, resources: str, verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs}


_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "update", "patch", "delete", "deletecollection"]
_VIEW = [
    _grant(
        "",
        "pods pods/log pods/status services endpoints configmaps persistentvolumeclaims events "
        "resourcequotas limitranges replicationcontrollers",
        _READ,
    ),
    _grant("apps", "deployments deployments/scale replicasets statefulsets statefulsets/scale", _READ),
    _grant("batch", "jobs cronjobs", _READ),
    _grant("autoscaling", "horizontalpodautoscalers", _READ),
    _grant("networking.k8s.io", "networkpolicies", _READ),
    _grant("policy", "poddisruptionbudgets", _READ),
    _grant("events.k8s.io", "events", _READ),
    _grant("discovery.k8s.io", "endpointslices", _READ),
]
_EDIT = [
    *_VIEW,
    _grant("", "pods services configmaps secrets persistentvolumeclaims", _WRITE),
    _grant("", "pods/attach pods/exec pods/portforward", ["get", "create"]),
    _grant("", "pods/eviction", ["create"]),
    _grant("", "pods/ephemeralcontainers pods/resize", ["get", "update", "patch"]),
    _grant("apps", "deployments deployments/scale statefulsets statefulsets/scale", _WRITE),
    _grant("batch", "jobs cronjobs", _WRITE),
    _grant("autoscaling", "horizontalpodautoscalers", _WRITE),
    _grant("policy", "poddisruptionbudgets", _WRITE),
]
_ADMIN = [
    *_EDIT,
    _grant("rbac.authorization.k8s.io", "roles rolebindings", _READ),
    _grant("", "serviceaccounts", _READ),
]


def _rule(
    group: str, resources: list[str], operations: list[str] | None = None, *, scope: str = "*"
) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": operations or ["CREATE", "UPDATE", "DELETE"],
        "resources": resources,
        "scope": scope,
    }


def _policy(
    name: str,
    resources: list[Object],
    *,
    conditions: dict[str, str],
    rules: tuple[tuple[str, str], ...],
    variables: dict[str, str] | None = None,
) -> Object:
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": resources},
        "matchConditions": [{"name": key, "expression": text} for key, text in conditions.items()],
        "validations": [
            {
                "expression": text,
                "message": message,
                "reason": "Forbidden",
                **({"messageExpression": _WITH_SELECTOR} if text == _ALL_PINNED else {}),
            }
            for text, message in rules
        ],
    }
    if variables:
        spec["variables"] = [{"name": key, "expression": text} for key, text in variables.items()]
    return _object("ValidatingAdmissionPolicy", name, {"spec": spec})


def _object(kind: str, name: str, body: Object) -> Object:
    api = "admissionregistration.k8s.io/v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": _labels()}, **body}


def _labels() -> dict[str, str]:
    return {names.MANAGED_BY: names.MANAGER}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
