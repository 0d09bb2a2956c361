"""From a WorkspaceSpec to the objects of its namespace: pure functions, no calls."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import GpuAmount, Member, Placement, WorkspaceSpec
from gpuaas.providers.kubernetes import names
from gpuaas.providers.kubernetes.client import Object
from gpuaas.providers.kubernetes.guards.security import SAFE_SYSCTLS

# what one container gets that asks for nothing; without it the quota would refuse the pod
DEFAULT_REQUEST = {"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "0"}
# what one container may write to its node's disk that names no limit, and at most
DISK_LIMIT, DISK_MAX = "100Gi", "500Gi"
# so that one tenant cannot fill the site's store
COUNTS = {
    "pods": "250",
    "services": "50",
    "services.loadbalancers": "0",
    "services.nodeports": "0",
    "persistentvolumeclaims": "50",
    "count/secrets": "200",
    "count/configmaps": "200",
    "count/jobs.batch": "500",
    "count/deployments.apps": "200",
    "count/statefulsets.apps": "100",
    "count/replicasets.apps": "2500",
    "count/cronjobs.batch": "100",
    "count/serviceaccounts": "500",
    "count/leases.coordination.k8s.io": "100",
    "count/horizontalpodautoscalers.autoscaling": "100",
    "count/poddisruptionbudgets.policy": "100",
    # ended pods too
    "count/pods": "1500",
    "requests.ephemeral-storage": "2Ti",
}
DRA_COUNTS = {
    "count/resourceclaims.resource.k8s.io": "500",
    "count/resourceclaimtemplates.resource.k8s.io": "200",
}
HUGEPAGES = ("1Gi", "2Mi")
# keys of the quota that are 0 while a workspace sleeps, beside its GPUs
ASLEEP = ("requests.cpu", "requests.memory", "pods")
# topology keys in whose domains pods are put together, as far as there is room
NEAR: Mapping[Placement, tuple[str, ...]] = {
    Placement.ANYWHERE: (),
    Placement.NODE: ("kubernetes.io/hostname",),
    Placement.RACK: names.RACK_LABELS,
    Placement.NVLINK_DOMAIN: names.NVLINK_LABELS,
}
POD_SECURITY = "pod-security.kubernetes.io"
_RBAC = "rbac.authorization.k8s.io"


def namespace(spec: WorkspaceSpec) -> Object:
    """Pinned to its node pool and under Pod Security from its first moment on.

    Pod Security knows no list of sysctls: where more than the safe ones were bought its level is lifted, and the
    guards, which say all of `baseline` again, let just these through.
    """
    level = "privileged" if further_sysctls(spec) else "baseline"
    adopted = {} if names.is_workspace_namespace(spec.external_name) else {names.ADOPTED: "true"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": spec.external_name,
            "labels": {
                **_labels(spec),
                **adopted,
                names.PROJECT: spec.project_slug,
                names.ORGANIZATION: spec.organization_slug,
                f"{POD_SECURITY}/enforce": level,
                f"{POD_SECURITY}/audit": "restricted",
                # OpenShift would set them anew after the rights of the namespace's accounts
                "security.openshift.io/scc.podSecurityLabelSync": "false",
                **spec.labels,
            },
            "annotations": {
                **spec.annotations,
                **scheduling(spec),
                names.SYSCTLS: ",".join(further_sysctls(spec)),
                names.SUSPENDED: "true" if spec.suspended else "false",
            },
        },
    }


def further_sysctls(spec: WorkspaceSpec) -> tuple[str, ...]:
    return tuple(sorted(set(spec.tuning.sysctls) - set(SAFE_SYSCTLS)))


def scheduling(spec: WorkspaceSpec) -> dict[str, str]:
    """Annotations that keep pods on the nodes of what was bought: `nvidia.com/gpu` alone does not say which model.

    The guards add what they say to pods, and check it; where the site serves no mutations, the admission plugins
    PodNodeSelector and PodTolerationRestriction act on theirs. Raises Permanent where one name would have to mean two
    pools.
    """
    profile = {names.PROFILE_LABEL: spec.tuning.profile} if spec.tuning.profile else {}
    pins = {name: {**pin, **profile} for name, pin in _pins(spec.gpus).items()}
    pairs = sorted({f"{key}={value}" for pin in pins.values() for key, value in pin.items()})
    common = names.shared_selector(pins.values())
    if common is None:
        # each pod would have to name its pool's nodes; where the GPU's name says it already, it need not
        pins |= {gpu.resource_name: profile for gpu in spec.gpus if gpu.exclusive}
    found = {
        names.PINS: ";".join(f"{name}@{names.selector_text(pin)}" for name, pin in sorted(pins.items())),
        names.POOLS: ",".join(pairs),
        names.NEAR: ",".join(NEAR[spec.placement]),
        names.PLUGIN_TOLERATIONS: json.dumps(
            [*map(_tolerated, [names.GPU_TAINT]), *map(_pool_tolerated, pairs)]
        ),
        # empty: the guards know which may be; the plugin would answer 500 without saying what to do
        names.PLUGIN_WHITELIST: "",
    }
    if common:
        found[names.PLUGIN_NODE_SELECTOR] = names.selector_text(common)
    return found


def _pool_tolerated(pair: str) -> Object:
    """The taint of one pool, never that of another."""
    key, _, value = pair.partition("=")
    return {"key": key, "operator": "Equal", "value": value}


def _tolerated(key: str) -> Object:
    return {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def _pins(gpus: Iterable[GpuAmount]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for gpu in gpus:
        before = found.setdefault(gpu.resource_name, dict(gpu.selector))
        if before != dict(gpu.selector):
            raise Permanent(
                f"a namespace cannot hold GPUs of two node pools that this site both counts as "
                f"{gpu.resource_name} ({names.selector_text(before)} and {names.selector_text(gpu.selector)}); "
                f"request a workspace for each"
            )
    return found


def quota(spec: WorkspaceSpec, device_classes: Mapping[str, str]) -> Object:
    """One object for everything: two in a namespace let racing pods through. `device_classes`: resource name → class.

    A key that is not listed is unlimited, so every GPU name of the site is listed, with "0" for what was not bought.
    Asleep there is room for no pod at all.
    """
    counts = dict.fromkeys([*device_classes, *spec.closed], 0)
    for gpu in spec.gpus:
        counts[gpu.resource_name] = counts.get(gpu.resource_name, 0) + _whole(gpu)
    hard = {key: str(count) for name, count in sorted(counts.items()) for key in _keys(name, device_classes)}
    hard |= {
        "requests.cpu": str(spec.vcpus),
        "requests.memory": f"{spec.memory_gib}Gi",
        "requests.storage": f"{spec.storage_gib}Gi",
        **{
            f"requests.hugepages-{size}": f"{count}Gi"
            if (count := spec.tuning.hugepages.get(size, 0))
            else "0"
            for size in sorted({*HUGEPAGES, *spec.tuning.hugepages})
        },
        **COUNTS,
        **(DRA_COUNTS if device_classes else {}),
    }
    if spec.suspended:
        hard |= dict.fromkeys(
            (*ASLEEP, *(key for name in counts for key in _keys(name, device_classes))), "0"
        )
    return _object(spec, "v1", "ResourceQuota", names.QUOTA, {"spec": {"hard": hard}})


def _keys(name: str, device_classes: Mapping[str, str]) -> tuple[str, ...]:
    return names.quota_keys(name, device_classes.get(name, ""))


def _whole(gpu: GpuAmount) -> int:
    """The site would take `500m` of a GPU without a word."""
    if type(gpu.count) is not int or gpu.count < 0:
        raise Permanent(f"{gpu.count!r} × {gpu.resource_name} is no whole number of GPUs")
    return gpu.count


def limit_range(spec: WorkspaceSpec) -> Object:
    """A container that names no limit may use all that was bought, none may name more.

    No smaller default: a limit below the request that a chart sets would refuse its pods.
    """
    most = {"ephemeral-storage": DISK_MAX}
    if spec.vcpus and spec.memory_gib and not spec.suspended:
        most |= {"cpu": str(spec.vcpus), "memory": f"{spec.memory_gib}Gi"}
    default = {**most, "ephemeral-storage": DISK_LIMIT}
    limits = [{"type": "Container", "defaultRequest": DEFAULT_REQUEST, "default": default, "max": most}]
    return _object(spec, "v1", "LimitRange", names.LIMITS, {"spec": {"limits": limits}})


@dataclass(frozen=True)
class Openings:
    """What the site's operator opens of the workspaces' network. routers: labels of the namespaces that route into them."""

    egress_cidrs: tuple[str, ...] = ()
    routers: tuple[tuple[str, str], ...] = ()


NOTHING_OPEN = Openings()


def network_policies(spec: WorkspaceSpec, openings: Openings = NOTHING_OPEN) -> list[Object]:
    """Nothing in and nothing out but within the namespace, to the site's DNS, and to what the site's operator opens."""
    same: Object = {"podSelector": {}}
    dns = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}}}
        for space in ("kube-system", "openshift-dns")
    ]
    ports = [{"protocol": protocol, "port": port} for protocol in ("UDP", "TCP") for port in (53, 5353)]
    open_cidrs = [{"ipBlock": {"cidr": cidr}} for cidr in openings.egress_cidrs]
    routers = [{"namespaceSelector": {"matchLabels": {key: value}}} for key, value in openings.routers]
    specs: dict[str, Object] = {
        "gpuaas-default-deny": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        "gpuaas-same-namespace": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [same]}],
            "egress": [{"to": [same]}],
        },
        "gpuaas-dns": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": dns, "ports": ports}]},
    }
    if open_cidrs:
        specs["gpuaas-egress"] = {
            "podSelector": {},
            "policyTypes": ["Egress"],
            "egress": [{"to": open_cidrs}],
        }
    if routers:
        specs["gpuaas-routers"] = {
            "podSelector": {},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": routers}],
        }
    return [
        _object(spec, "networking.k8s.io/v1", "NetworkPolicy", name, {"spec": body})
        for name, body in specs.items()
    ]


def service_account(spec: WorkspaceSpec, member: Member) -> Object:
    return _object(
        spec, "v1", "ServiceAccount", member.subject, {"automountServiceAccountToken": False}, member
    )


def role_binding(spec: WorkspaceSpec, member: Member) -> Object:
    """Named after its role too: roleRef cannot be changed, so another role is another object.

    Somebody whom the site knows by its own sign-in may enter by that as well.
    """
    subjects = [{"kind": "ServiceAccount", "name": member.subject, "namespace": spec.external_name}]
    if member.identity:
        subjects.append({"apiGroup": _RBAC, "kind": "User", "name": _person(member.identity)})
    return _binding(spec, member, subjects)


def group_bindings(spec: WorkspaceSpec) -> list[Object]:
    """Of the site's own groups, where its operator has them made for projects."""
    return [
        _binding(
            spec,
            Member(subject="group", name=group, role=role),
            [{"apiGroup": _RBAC, "kind": "Group", "name": _person(group)}],
        )
        for role, group in sorted(spec.groups.items())
    ]


def _binding(spec: WorkspaceSpec, member: Member, subjects: list[dict[str, str]]) -> Object:
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": cluster_role(member.role)}
    body = {"roleRef": role, "subjects": subjects}
    return _object(spec, f"{_RBAC}/v1", "RoleBinding", binding_name(member), body, member)


def _person(name: str) -> str:
    """Whatever an identity provider says: nobody becomes one of Kubernetes' own."""
    if name.startswith("system:"):
        raise Permanent(f"{name!r} is a name of Kubernetes' own and no person's")
    return name


def binding_name(member: Member) -> str:
    return f"{member.subject}-{member.role}"


def cluster_role(role: str) -> str:
    if role not in names.ROLES:
        raise Permanent(f"there is no role {role!r}; known: {', '.join(names.ROLES)}")
    return names.CLUSTER_ROLE.format(role=role)


def _labels(spec: WorkspaceSpec) -> dict[str, str]:
    return {names.MANAGED_BY: names.MANAGER, names.WORKSPACE: str(spec.id)}


def _object(
    spec: WorkspaceSpec,
    api: str,
    kind: str,
    name: str,
    body: Mapping[str, Any],
    member: Member | None = None,
) -> Object:
    metadata: Object = {"name": name, "namespace": spec.external_name, "labels": _labels(spec)}
    if member:
        metadata["labels"] |= {names.MEMBER: member.subject, names.ROLE: member.role}
        metadata["annotations"] = {f"{names.DOMAIN}/member-name": member.name}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}
