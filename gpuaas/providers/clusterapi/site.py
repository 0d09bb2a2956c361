"""What the management cluster has of one cluster, read at once; and whose it is."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpuaas.core.errors import GpuaasError, NotFound, Permanent
from gpuaas.providers.base import ClusterRef
from gpuaas.providers.clusterapi import names
from gpuaas.providers.kubernetes.client import Api, Object


@dataclass(frozen=True)
class Seen:
    """`machines` include those that are going."""

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
    """What the cluster's provider makes its network by, of whichever provider and version."""
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
    """ "" for the control plane's."""
    labels = _labels(machine)
    return "" if names.IS_CONTROL in labels else str(labels.get(names.OF_POOL, "?"))


def space_find(api: Api, ref: ClusterRef) -> Object | None:
    """The cluster's namespace; None where there is none, or somebody else's."""
    found = api.find(f"{names.NAMESPACES}/{ref.external_name}")
    return found if found is not None and owner_of(found) == ref.id else None


def space_own(api: Api, ref: ClusterRef) -> Object | None:
    """The same; raises Permanent for somebody else's, which is not touched."""
    found = api.find(f"{names.NAMESPACES}/{ref.external_name}")
    if found is None or owner_of(found) == ref.id:
        return found
    label = _labels(found).get(names.TAG, "")
    raise Permanent(
        f"a namespace {ref.external_name} is at the site already and is not this cluster's; it is left alone",
        detail={
            "evidence": [f"Namespace/{ref.external_name} carries the tag {label or 'of nobody'}"],
            "next": "Delete this cluster and order it under another name.",
        },
    )


def owner_of(namespace: Object) -> uuid.UUID | None:
    try:
        return uuid.UUID(_labels(namespace).get(names.TAG, ""))
    except ValueError:
        return None


def is_going(one: Object) -> bool:
    return "deletionTimestamp" in one["metadata"]


def cluster_find(api: Api, ref: ClusterRef) -> Object | None:
    if space_find(api, ref) is None:
        return None
    return api.find(f"{names.clusters(ref.external_name)}/{ref.external_name}")


def look(api: Api, ref: ClusterRef) -> Seen:
    """Raises NotFound where the cluster is not there, or is being taken away."""
    found = cluster_find(api, ref)
    if found is None or is_going(found):
        raise NotFound("the cluster is not at the management cluster; it has to be ordered again")
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
    """Kubeadm's; what other providers of control planes say is repeated by the Cluster."""
    kind = str((cluster["spec"].get("controlPlaneRef") or {}).get("kind", ""))
    if kind != "KubeadmControlPlane":
        return []
    return _items(api, f"/apis/controlplane.{names.GROUP}/v1beta2/{space}/kubeadmcontrolplanes", kind)


def _items(api: Api, path: str, kind: str) -> list[Object]:
    return [{**one, "kind": kind} for one in api.items_if_known(path)]


def _labels(one: Object) -> dict[str, str]:
    return one["metadata"].get("labels") or {}


@contextmanager
def evident(site: str, verb: str) -> Iterator[None]:
    """A refusal of the site says what it was asked."""
    try:
        yield
    except GpuaasError as error:
        error.detail.setdefault("evidence", [f"{site} {verb}: {error.message}"])
        raise
