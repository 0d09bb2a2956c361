"""Our objects in a workspace's namespace, by collection: for the steps that write them and for drift."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuaas.providers.base import WorkspaceSpec
from gpuaas.providers.kubeapi import manifests, names, namespaces
from gpuaas.providers.kubeapi.client import Object

NETWORK = "/apis/networking.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class ManagedObjects:
    """The objects of one collection that a step of `ensure` writes; sole: the collection may hold nothing else."""

    step: str
    collection: str
    kind: str
    objects: tuple[Object, ...]
    workspace: str
    sole: bool = False

    @property
    def names(self) -> frozenset[str]:
        return frozenset(body["metadata"]["name"] for body in self.objects)

    def surplus(self, present: Iterable[Object]) -> list[str]:
        """Names of objects to delete: our former ones, or with `sole` any other."""
        found = [item["metadata"] for item in present]
        return sorted(
            each["name"]
            for each in found
            if each["name"] not in self.names
            and (self.sole or (each.get("labels") or {}).get(names.WORKSPACE) == self.workspace)
        )


def quotas(
    spec: WorkspaceSpec, device_classes: Mapping[str, str], openings: manifests.Openings
) -> ManagedObjects:
    made = manifests.quota(spec, device_classes, openings.objects)
    return _kept(spec, "quota", "resourcequotas", "ResourceQuota", [made], sole=True)


def limits(spec: WorkspaceSpec) -> ManagedObjects:
    return _kept(spec, "limits", "limitranges", "LimitRange", [manifests.limit_range(spec)])


def network(spec: WorkspaceSpec, openings: manifests.Openings) -> ManagedObjects:
    policies = manifests.network_policies(spec, openings)
    return _kept(spec, "network", "networkpolicies", "NetworkPolicy", policies, group=NETWORK)


def members(spec: WorkspaceSpec) -> tuple[ManagedObjects, ManagedObjects]:
    """Accounts, then bindings; removal goes in reverse."""
    accounts = [manifests.service_account(spec, member) for member in spec.members]
    bindings = [manifests.role_binding(spec, member) for member in spec.members]
    bindings += manifests.group_bindings(spec)
    return (
        _kept(spec, "access", "serviceaccounts", "ServiceAccount", accounts),
        _kept(spec, "access", "rolebindings", "RoleBinding", bindings, group=RBAC),
    )


def everything(
    spec: WorkspaceSpec, device_classes: Mapping[str, str], openings: manifests.Openings
) -> tuple[ManagedObjects, ...]:
    """In the order of the steps; without the namespace itself."""
    return (
        quotas(spec, device_classes, openings),
        limits(spec),
        network(spec, openings),
        *members(spec),
    )


def _kept(
    spec: WorkspaceSpec,
    step: str,
    plural: str,
    kind: str,
    objects: Iterable[Object],
    *,
    group: str = "/api/v1",
    sole: bool = False,
) -> ManagedObjects:
    space = f"{group}{namespaces.path(spec.external_name).removeprefix('/api/v1')}"
    return ManagedObjects(step, f"{space}/{plural}", kind, tuple(objects), str(spec.id), sole)
