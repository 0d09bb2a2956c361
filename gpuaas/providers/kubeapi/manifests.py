"""The objects of a namespace, from its WorkspaceSpec. Pure."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import GpuAmount, Member, Placement, WorkspaceSpec
from gpuaas.providers.kubeapi import bounds, names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.guards.security import SAFE_SYSCTLS

# requests of a container that states none; without them the quota would refuse the pod
DEFAULT_REQUEST = {"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "0"}
# what a container may write to its node's disk: by default, and at most
DISK_LIMIT, DISK_MAX = "100Gi", "500Gi"
# what else is bounded, besides the objects of bounds.py
CLOSED = {
    "services.loadbalancers": "0",
    "services.nodeports": "0",
    "requests.ephemeral-storage": "2Ti",
}
DRA_COUNTS = {
    "count/resourceclaims.resource.k8s.io": "500",
    "count/resourceclaimtemplates.resource.k8s.io": "200",
}
HUGEPAGES = ("1Gi", "2Mi")
# keys of the quota that are 0 while a workspace is suspended, besides its GPUs
ZERO_WHEN_SUSPENDED = ("requests.cpu", "requests.memory", "pods")
# topology keys in whose domains pods are placed together, as far as there is room
NEAR: Mapping[Placement, tuple[str, ...]] = {
    Placement.ANYWHERE: (),
    Placement.NODE: ("kubernetes.io/hostname",),
    Placement.RACK: names.RACK_LABELS,
    Placement.NVLINK_DOMAIN: names.NVLINK_LABELS,
}
POD_SECURITY = "pod-security.kubernetes.io"
RBAC = "rbac.authorization.k8s.io"
MANIFESTS_MAX = 200_000  # characters that an operator may add to a cluster


def namespace(spec: WorkspaceSpec) -> Object:
    """Pinned to its node pool and under Pod Security from the start.

    Pod Security has no list of allowed sysctls: if more than the safe ones were bought its level is lifted, and the
    guards, which repeat all of `baseline`, allow only these.
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
                # OpenShift would otherwise reset them from the rights of the namespace's accounts
                "security.openshift.io/scc.podSecurityLabelSync": "false",
                **spec.labels,
            },
            "annotations": {
                **spec.annotations,
                **scheduling(spec),
                names.SYSCTLS: ",".join(further_sysctls(spec)),
                names.SUSPENDED: "true" if spec.suspended else "false",
                **({names.NOTICE: str(spec.notice_seconds)} if spec.notice_seconds else {}),
                **_storage_classes(spec),
            },
        },
    }


def _storage_classes(spec: WorkspaceSpec) -> dict[str, str]:
    """A class that the site gets later is closed by not being among these, before the quota names it."""
    bought = sorted(name for name, gib in spec.storage_classes.items() if gib)
    return {names.STORAGE: ",".join(bought)} if spec.storage_limits else {}


def further_sysctls(spec: WorkspaceSpec) -> tuple[str, ...]:
    return tuple(sorted(set(spec.tuning.sysctls) - set(SAFE_SYSCTLS)))


def scheduling(spec: WorkspaceSpec) -> dict[str, str]:
    """Annotations that keep pods on the nodes of what was bought: `nvidia.com/gpu` alone does not name the model.

    The guards apply them to pods and check them; if the site serves no mutations, the admission plugins
    PodNodeSelector and PodTolerationRestriction use theirs. Raises Permanent if one name would have to mean two
    pools.
    """
    profile = {names.PROFILE_LABEL: spec.tuning.profile} if spec.tuning.profile else {}
    pins = {name: {**pin, **profile} for name, pin in _pins(spec.gpus).items()}
    pairs = sorted({f"{key}={value}" for pin in pins.values() for key, value in pin.items()})
    common = names.shared_selector(pins.values())
    if common is None:
        # each pod has to name its pool's nodes, unless the GPU's name is exclusive to the pool
        pins |= {gpu.resource_name: profile for gpu in spec.gpus if gpu.exclusive}
    found = {
        names.PINS: ";".join(f"{name}@{names.selector_text(pin)}" for name, pin in sorted(pins.items())),
        names.CLASSES: names.selector_text(
            {_class(gpu): gpu.resource_name for gpu in spec.gpus if _class(gpu)}
        ),
        names.POOLS: ",".join(pairs),
        names.NEAR: ",".join(NEAR[spec.placement]),
        names.PLUGIN_TOLERATIONS: json.dumps(
            [*map(_tolerated, [names.GPU_TAINT]), *map(_pool_tolerated, pairs)]
        ),
        # empty: the guards check tolerations; the plugin would answer 500 without saying what to do
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


def quota(
    spec: WorkspaceSpec, device_classes: Mapping[str, str], objects: Mapping[str, str] | None = None
) -> Object:
    """One object for everything: two in a namespace let racing pods through. `device_classes`: class → its resource's
    name, as the site has them now. `objects`: how many objects there may be, by key; None = as usual.

    A key that is not listed is unlimited, so every GPU name of the site is listed, with "0" for what was not bought.
    A suspended workspace admits no pods at all.
    """
    counts = _counts(spec, device_classes)
    hard = {key: str(count) for key, count in sorted(counts.items())}
    hard |= {
        "requests.cpu": str(spec.vcpus),
        "requests.memory": f"{spec.memory_gib}Gi",
        "requests.storage": f"{spec.storage_gib}Gi",
        **{
            names.storage_quota_key(name): f"{gib}Gi" if gib else "0"
            for name, gib in sorted(spec.storage_limits.items())
        },
        **{
            f"requests.hugepages-{size}": f"{count}Gi"
            if (count := spec.tuning.hugepages.get(size, 0))
            else "0"
            for size in sorted({*HUGEPAGES, *spec.tuning.hugepages})
        },
        **CLOSED,
        **(objects or bounds.usual()),
        **(DRA_COUNTS if device_classes else {}),
    }
    if spec.suspended:
        hard |= dict.fromkeys((*ZERO_WHEN_SUSPENDED, *counts), "0")
    return _object(spec, "v1", "ResourceQuota", names.QUOTA, {"spec": {"hard": hard}})


def _counts(spec: WorkspaceSpec, device_classes: Mapping[str, str]) -> dict[str, int]:
    """By key of the quota. Keys of what was bought and closed stay, even if a class disappears from the site."""
    closed = [names.quota_keys(name) for name in spec.closed]
    closed += [names.quota_keys(name, each) for each, name in device_classes.items()]
    counts = {key: 0 for keys in closed for key in keys}
    for gpu in spec.gpus:
        for key in charged(gpu):
            counts[key] = counts.get(key, 0) + _whole(gpu)
    return counts


def charged(gpu: GpuAmount) -> set[str]:
    """The keys of the quota to which the site charges it."""
    found = [names.quota_keys(gpu.resource_name, _class(gpu)), *map(names.quota_keys, gpu.also)]
    return {key for keys in found for key in keys}


def _class(gpu: GpuAmount) -> str:
    return gpu.device_class or names.class_of(gpu.resource_name)


def _whole(gpu: GpuAmount) -> int:
    """Refuses fractions, which the site would silently accept (`500m` of a GPU)."""
    if type(gpu.count) is not int or gpu.count < 0:
        raise Permanent(f"{gpu.count!r} × {gpu.resource_name} is not a whole number of GPUs")
    return gpu.count


def limit_range(spec: WorkspaceSpec) -> Object:
    """A container without a limit may use all that was bought; none may exceed that.

    No smaller default: a limit below the request of a Helm chart would refuse its pods.
    """
    most = {"ephemeral-storage": DISK_MAX}
    if spec.vcpus and spec.memory_gib and not spec.suspended:
        most |= {"cpu": str(spec.vcpus), "memory": f"{spec.memory_gib}Gi"}
    default = {**most, "ephemeral-storage": DISK_LIMIT}
    limits = [{"type": "Container", "defaultRequest": DEFAULT_REQUEST, "default": default, "max": most}]
    return _object(spec, "v1", "LimitRange", names.LIMITS, {"spec": {"limits": limits}})


@dataclass(frozen=True)
class Openings:
    """What the site's operator sets for all its workspaces: exceptions to the network isolation, and bounds of objects (by key of
    the quota; none = as usual). routers: labels of namespaces that route into workspaces. schedulers: that pods may name besides
    the default one; None: not said here.
    """

    egress_cidrs: tuple[str, ...] = ()
    routers: tuple[tuple[str, str], ...] = ()
    objects: Mapping[str, str] = field(default_factory=dict)
    schedulers: tuple[str, ...] | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> "Openings":
        cidrs = options.get("egress_cidrs") or ()
        return cls(egress_cidrs=tuple(map(str, cidrs)), objects=bounds.hard(options))

    def without(self, keys: Collection[str]) -> "Openings":
        """Without the bounds of these keys."""
        return replace(self, objects={key: value for key, value in self.objects.items() if key not in keys})


NOTHING_OPEN = Openings()


def network_policies(spec: WorkspaceSpec, openings: Openings = NOTHING_OPEN) -> list[Object]:
    """Deny all traffic except within the namespace, to the site's DNS, and to what the site's operator opens. Environments
    have a policy of their own (kubernetes/environments.py), which no rule for all pods may widen."""
    same: Object = {"podSelector": {}}
    others: Object = {"matchExpressions": [{"key": names.ENVIRONMENT, "operator": "DoesNotExist"}]}
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
            "podSelector": others,
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
            "podSelector": others,
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
    """The name contains the role: roleRef cannot be changed, so another role is another object.

    A member with an identity in the site's own sign-in may use that as well.
    """
    subjects = [{"kind": "ServiceAccount", "name": member.subject, "namespace": spec.external_name}]
    if member.identity:
        subjects.append({"apiGroup": RBAC, "kind": "User", "name": _person(member.identity)})
    return _binding(spec, member, subjects)


def group_bindings(spec: WorkspaceSpec) -> list[Object]:
    """Bindings of the site's own groups, if its operator maps them to projects."""
    return [
        _binding(
            spec,
            Member(subject="group", name=group, role=role),
            [{"apiGroup": RBAC, "kind": "Group", "name": _person(group)}],
        )
        for role, group in sorted(spec.groups.items())
    ]


def _binding(spec: WorkspaceSpec, member: Member, subjects: list[dict[str, str]]) -> Object:
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": cluster_role(member.role)}
    body = {"roleRef": role, "subjects": subjects}
    return _object(spec, f"{RBAC}/v1", "RoleBinding", binding_name(member), body, member)


def _person(name: str) -> str:
    """Refuses names reserved for Kubernetes, whatever an identity provider says."""
    if name.startswith("system:"):
        raise Permanent(f"{name!r} is reserved for Kubernetes and cannot be a person's name")
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
