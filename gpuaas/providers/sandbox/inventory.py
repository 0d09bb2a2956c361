"""The inventory of a simulated site."""

import uuid
from collections.abc import Sequence

from django.db.models import Q, Sum

from gpuaas.providers import base
from gpuaas.providers.contracts import kinds_apart
from gpuaas.providers.sandbox import fitness
from gpuaas.providers.sandbox.models import (
    NOTICE,
    SandboxClusterObject,
    SandboxNamespace,
    SandboxNode,
    SandboxSite,
)

PRODUCT = "nvidia.com/gpu.product"
_LIVE = Q(pods__finished_at=None)
_FOREIGN = Q(pods__namespace__owner=None) & ~Q(pods__namespace__name__startswith=fitness.CHECKS)
HELD = Sum("pods__gpus", filter=_LIVE, default=0)
STORAGE_CLASSES = (
    base.ObservedStorageClass("fast", "sandbox/flash"),
    base.ObservedStorageClass("standard", "sandbox/disk", default=True),
)
RUNTIMES = (
    base.ObservedRuntime("jax-distributed", "jax"),
    base.ObservedRuntime("torch-distributed", "torch"),
)
LENT = Sum("pods__gpus", filter=_LIVE & Q(pods__namespace__labels__has_key=NOTICE), default=0)
OTHERS = Sum("pods__gpus", filter=_LIVE & _FOREIGN, default=0)


def inventory(site: SandboxSite, sold: Sequence[base.SoldPool] = ()) -> base.Inventory:
    """`sold`: as in Connection; nodes that its selector does not match take no work."""
    nodes = list(SandboxNode.objects.filter(site=site).annotate(held=HELD, others=OTHERS, lent=LENT))
    kinds = kinds_apart({_pair(node): base.DeviceKind(**node.kind) for node in nodes if node.kind}, sold)
    contracts = {each.kind_slug: each for each in sold}
    pools: dict[str, base.ObservedPool] = {}
    for node in nodes:
        if node.kind:
            contract = contracts.get((kind := kinds[_pair(node)]).slug)
            selector = (contract.selector if contract else None) or _selector(node)
            arch = node.traits.get("arch", "")
            pools.setdefault(kind.slug, base.ObservedPool(kind, node.resource_name, selector, arch=arch))
    return base.Inventory(
        server_version="sandbox 1",
        pools=tuple(pools.values()),
        storage_classes=STORAGE_CLASSES,
        runtimes=RUNTIMES,
        marked=_marked(site),
        names=tuple(sorted({node.resource_name for node in nodes if node.resource_name})),
        nodes=tuple(
            base.ObservedNode(
                name=node.name,
                kind_slug=kinds[_pair(node)].slug if node.kind else "",
                capacity=node.capacity,
                allocated=node.held,
                vcpus=node.vcpus,
                memory_gib=node.memory_gib,
                ready=node.ready,
                cordoned=node.cordoned,
                reason=node.reason or closed,
                unhealthy=node.capacity if closed else node.unhealthy,
                traits=base.NodeTraits(**node.traits),
                others=node.others,
                lent=node.lent,
                checks=fitness.node_checks(node, site.faults.get("nodes", {})),
            )
            for node in nodes
            for closed in [_out_of_reach(node, contracts.get(kinds[_pair(node)].slug)) if node.kind else ""]
        ),
    )


def _marked(site: SandboxSite) -> dict[str, uuid.UUID]:
    spaces = SandboxNamespace.objects.filter(site=site, owner__isnull=False).order_by()
    parts = SandboxClusterObject.objects.filter(site=site, tag__isnull=False).order_by()
    rows = spaces.values_list("name", "owner").union(parts.values_list("name", "tag"), all=True)
    return {name: holder for name, holder in rows if holder is not None}


def _pair(node: SandboxNode) -> tuple[str, str]:
    return str(node.kind.get("slug", "")), node.resource_name


def _selector(node: SandboxNode) -> dict[str, str]:
    return {PRODUCT: node.labels.get(PRODUCT, node.kind["product"])}


def _out_of_reach(node: SandboxNode, contract: base.SoldPool | None) -> str:
    labels = {**_selector(node), **node.labels}
    if contract is None or contract.selector.items() <= labels.items():
        return ""
    pins = ", ".join(f"{key}={value}" for key, value in sorted(contract.selector.items()))
    return f"the node lacks the label {pins}, to which sold workspaces are pinned"
