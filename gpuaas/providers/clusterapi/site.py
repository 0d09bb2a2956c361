"""Reads one cluster's objects at the management cluster, and whose they are."""

import base64
import uuid
from dataclasses import dataclass

from gpuaas.core.errors import NotFound
from gpuaas.core.ids import uuid_read
from gpuaas.providers.base import ClusterRef
from gpuaas.providers.base.steps import object_not_ours
from gpuaas.providers.clusterapi import names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.names import NAMESPACES


@dataclass(frozen=True)
class Seen:
    """`machines` include those that are being deleted."""

    cluster: Object
    control_planes: tuple[Object, ...]
    pools: tuple[Object, ...]
    machines: tuple[Object, ...]

    @property
    def control_machines(self) -> list[Object]:
        return [one for one in self.machines if names.IS_CONTROL in _labels(one)]

    def pool(self, name: str) -> Object | None:
        return next((one for one in self.pools if _labels(one).get(names.OF_POOL) == name), None)

    def machines_of(self, pool: str) -> list[Object]:
        return [one for one in self.machines if _labels(one).get(names.OF_POOL) == pool]


def infrastructure(api: Api, cluster: Object) -> Object | None:
    """The provider's infrastructure object of the cluster, for any provider and version."""
    ref = cluster["spec"].get("infrastructureRef") or {}
    group = api.find(f"/apis/{ref['apiGroup']}") if ref.get("name") else None
    for version in (group or {}).get("versions", []):
        path = f"/apis/{version['groupVersion']}"
        for one in api.get(path)["resources"]:
            if one["kind"] == ref["kind"] and "/" not in one["name"]:
                space = cluster["metadata"]["namespace"]
                found = api.find(f"{path}/namespaces/{space}/{one['name']}/{ref['name']}")
                return {**found, "kind": ref["kind"]} if found is not None else None
    return None


def pool_of(machine: Object) -> str:
    """ "" for machines of the control plane."""
    labels = _labels(machine)
    return "" if names.IS_CONTROL in labels else str(labels.get(names.OF_POOL, "?"))


def space_find(api: Api, ref: ClusterRef) -> Object | None:
    """The cluster's namespace; None if there is none, or if it is not ours."""
    found = api.find(f"{NAMESPACES}/{ref.external_name}")
    return found if found is not None and owner_of(found) == ref.id else None


def space_own(api: Api, ref: ClusterRef) -> Object | None:
    """The same, but raises Permanent for one that is not ours, which is left alone."""
    found = api.find(f"{NAMESPACES}/{ref.external_name}")
    if found is None or owner_of(found) == ref.id:
        return found
    raise object_not_ours("Namespace", ref.external_name, _labels(found).get(names.TAG, ""))


def owner_of(namespace: Object) -> uuid.UUID | None:
    return uuid_read(_labels(namespace).get(names.TAG))


def is_going(one: Object) -> bool:
    return "deletionTimestamp" in one["metadata"]


def cluster_find(api: Api, ref: ClusterRef) -> Object | None:
    if space_find(api, ref) is None:
        return None
    return api.find(f"{names.clusters(ref.external_name)}/{ref.external_name}")


def look(api: Api, ref: ClusterRef) -> Seen:
    """Raises NotFound if the cluster does not exist, or is being deleted."""
    found = cluster_find(api, ref)
    if found is None or is_going(found):
        raise NotFound("the cluster is not at the management cluster; it must be ordered again")
    return seen_of(api, ref, found)


def seen_of(api: Api, ref: ClusterRef, cluster: Object) -> Seen:
    space = f"namespaces/{ref.external_name}"
    return Seen(
        cluster={**cluster, "kind": "Cluster"},
        control_planes=tuple(_control_planes(api, space, cluster)),
        pools=tuple(_items(api, f"{names.CORE}/{space}/machinedeployments", "MachineDeployment")),
        machines=tuple(_items(api, f"{names.CORE}/{space}/machines", "Machine")),
    )


def _control_planes(api: Api, space: str, cluster: Object) -> list[Object]:
    """Kubeadm's only; for other control-plane providers the Cluster repeats the conditions."""
    kind = str((cluster["spec"].get("controlPlaneRef") or {}).get("kind", ""))
    if kind != "KubeadmControlPlane":
        return []
    return _items(api, f"/apis/controlplane.{names.GROUP}/v1beta2/{space}/kubeadmcontrolplanes", kind)


def _items(api: Api, path: str, kind: str) -> list[Object]:
    return [{**one, "kind": kind} for one in api.items_if_known(path)]


def _labels(one: Object) -> dict[str, str]:
    return one["metadata"].get("labels") or {}


def admin_kubeconfig(api: Api, ref: ClusterRef) -> str:
    """The one that Cluster API keeps in a Secret, for the portal only. Raises NotFound if there is none yet."""
    found = api.find(names.kubeconfig_secret(ref.external_name))
    if found is None or "value" not in (found.get("data") or {}):
        raise NotFound("the cluster's API does not answer yet")
    return base64.b64decode(found["data"]["value"]).decode()
