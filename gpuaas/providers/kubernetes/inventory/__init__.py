"""What a site has: from the nodes' labels (NFD, GFD and their like), its ResourceSlices (DRA), and the pods on them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuaas.providers.base import Check, Inventory
from gpuaas.providers.kubernetes import health
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.kubernetes.inventory import dra, nodes, plugin
from gpuaas.providers.kubernetes.inventory.pools import pools_of

__all__ = ["take"]


def take(api: Api, *, pool_label: str, gpu_resources: Iterable[str] = ()) -> Inventory:
    """`gpu_resources`: names that the site counts GPUs by and that do not say so themselves."""
    version = str(api.get("/version")["gitVersion"])
    rows = api.items("/api/v1/nodes")
    labels = {row["metadata"]["name"]: _labels(row) for row in rows}
    all_pods = api.items("/api/v1/pods")
    published = api.items_if_known(f"{dra.DRA}/resourceslices")
    counted = plugin.devices(rows, all_pods, also=frozenset(gpu_resources))
    claimed = dra.devices(api, labels, published)
    found = [*counted, *claimed.found]
    pools = pools_of(found, pool_label)
    selectors = {row.kind.slug: row.selector for row in pools.rows}
    checks = _checks(rows, all_pods, published)
    observed = nodes.observed(rows, pools.found, claimed.unnamed, selectors)
    return Inventory(
        server_version=version,
        pools=tuple(pools.rows),
        nodes=tuple(replace(each, checks=checks.get(each.name, ())) for each in observed),
        names=tuple(sorted({*plugin.names(rows, frozenset(gpu_resources)), *claimed.names})),
    )


def _checks(
    rows: Sequence[Object], all_pods: Iterable[Object], published: Iterable[Object]
) -> dict[str, tuple[Check, ...]]:
    """By node. Of its pods only those that the checks know are handed on: a large site has very many."""
    exporters: dict[str, list[Object]] = {}
    for pod in filter(health.is_exporter, all_pods):
        exporters.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
    slices: dict[str, list[Object]] = {}
    for each in published:
        slices.setdefault(each["spec"].get("nodeName", ""), []).append(each)
    names = [row["metadata"]["name"] for row in rows]
    return {
        name: health.node_checks(row, exporters.get(name, ()), slices.get(name, ()))
        for name, row in zip(names, rows, strict=True)
    }


def _labels(row: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = row["metadata"].get("labels") or {}
    return found
