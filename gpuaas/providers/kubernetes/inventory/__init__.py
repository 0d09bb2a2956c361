"""Takes a site's inventory from its nodes' labels (NFD, GFD and others), its ResourceSlices (DRA), and its pods."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuaas.core.errors import Unauthorized
from gpuaas.providers.base import Check, Inventory, ObservedRuntime, SoldPool
from gpuaas.providers.kubeapi import namespaces, training
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes import health
from gpuaas.providers.kubernetes.inventory import dra, nodes, plugin, storage
from gpuaas.providers.kubernetes.inventory.owners import Holders, lent, marked, spaces_ours
from gpuaas.providers.kubernetes.inventory.pools import pools_of

__all__ = ["take"]


def take(
    api: Api,
    *,
    pool_label: str,
    gpu_resources: Iterable[str] = (),
    sold: Sequence[SoldPool] = (),
    holders: Holders | None = None,
) -> Inventory:
    """`gpu_resources`: further resource names that are GPUs, from the site's options. `sold`, `holders`: as in Connection."""
    also = frozenset(gpu_resources)
    version = str(api.get("/version")["gitVersion"])
    rows = api.items("/api/v1/nodes")
    labels = {row["metadata"]["name"]: _labels(row) for row in rows}
    all_pods = api.items("/api/v1/pods")
    published = api.items_if_known(f"{dra.DRA}/resourceslices")
    claims = api.items_if_known(f"{dra.DRA}/resourceclaims") if published else []
    spaces = api.items(namespaces.COLLECTION)
    ours = spaces_ours(spaces, holders)
    counted = plugin.devices(rows, all_pods, ours, also, sold, lent(spaces))
    claimed = dra.devices(api, labels, published, claims, ours, sold)
    found = [*counted.found, *claimed.found]
    pools = pools_of(found, pool_label, sold)
    selectors = {row.kind.slug: row.selector for row in pools.rows}
    checks = _checks(rows, all_pods, published)
    observed = nodes.observed(rows, pools.found, claimed.unnamed, selectors)
    return Inventory(
        server_version=version,
        pools=tuple(pools.rows),
        nodes=tuple(replace(each, checks=checks.get(each.name, ())) for each in observed),
        names=tuple(sorted({*plugin.names(rows, also), *claimed.names})),
        seconds=(*claimed.seconds, *pools.seconds),
        unknown=(*counted.unknown, *claimed.unknown),
        marked=marked(spaces),
        storage_classes=storage.classes_of(api.items_if_known(storage.CLASSES)),
        runtimes=_runtimes(api),
    )


def _runtimes(api: Api) -> tuple[ObservedRuntime, ...]:
    """None to an account of before, which may not read them: the rest of the inventory does not depend on it."""
    try:
        return training.runtimes_of(api.items_if_known(f"{training.TRAINER}/clustertrainingruntimes"))
    except Unauthorized:
        return ()


def _checks(
    rows: Sequence[Object], all_pods: Iterable[Object], published: Iterable[Object]
) -> dict[str, tuple[Check, ...]]:
    """By node. Only exporter pods are passed on: a large site has very many pods."""
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
