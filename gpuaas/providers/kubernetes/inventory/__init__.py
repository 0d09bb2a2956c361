"""What a site has: from the nodes' labels (NFD, GFD and their like), its ResourceSlices (DRA), and the pods on them."""

from collections.abc import Iterable, Mapping

from gpuaas.providers.base import Inventory
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.kubernetes.inventory import dra, nodes, plugin
from gpuaas.providers.kubernetes.inventory.pools import pools_of

__all__ = ["take"]


def take(api: Api, *, pool_label: str, gpu_resources: Iterable[str] = ()) -> Inventory:
    """`gpu_resources`: names that the site counts GPUs by and that do not say so themselves."""
    version = str(api.get("/version")["gitVersion"])
    rows = api.items("/api/v1/nodes")
    labels = {row["metadata"]["name"]: _labels(row) for row in rows}
    counted = plugin.devices(rows, api.items("/api/v1/pods"), also=frozenset(gpu_resources))
    claimed = dra.devices(api, labels)
    found = [*counted, *claimed.found]
    pools = pools_of(found, pool_label)
    return Inventory(
        server_version=version,
        pools=tuple(pools.rows),
        nodes=tuple(nodes.observed(rows, pools.found, claimed.unnamed)),
        names=tuple(sorted({*plugin.names(rows, frozenset(gpu_resources)), *claimed.names})),
    )


def _labels(row: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = row["metadata"].get("labels") or {}
    return found
