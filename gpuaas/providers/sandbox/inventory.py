"""What a simulated site has, as its driver tells it."""

from django.db.models import Q, Sum

from gpuaas.providers.base import DeviceKind, Inventory, NodeTraits, ObservedNode, ObservedPool
from gpuaas.providers.sandbox import fitness
from gpuaas.providers.sandbox.models import SandboxNode, SandboxSite


def inventory(site: SandboxSite) -> Inventory:
    held = Sum("pods__gpus", filter=Q(pods__finished_at=None), default=0)
    nodes = list(SandboxNode.objects.filter(site=site).annotate(held=held))
    pools: dict[str, ObservedPool] = {}
    for node in nodes:
        if node.kind:
            kind = DeviceKind(**node.kind)
            selector = {"nvidia.com/gpu.product": node.labels.get("nvidia.com/gpu.product", kind.product)}
            pools.setdefault(kind.slug, ObservedPool(kind, node.resource_name, selector))
    return Inventory(
        server_version="sandbox 1",
        pools=tuple(pools.values()),
        names=tuple(sorted({node.resource_name for node in nodes if node.resource_name})),
        nodes=tuple(
            ObservedNode(
                name=node.name,
                kind_slug=str(node.kind.get("slug", "")),
                capacity=node.capacity,
                allocated=node.held,
                vcpus=node.vcpus,
                memory_gib=node.memory_gib,
                ready=node.ready,
                cordoned=node.cordoned,
                reason=node.reason,
                unhealthy=node.unhealthy,
                traits=NodeTraits(**node.traits),
                checks=fitness.node_checks(node, site.faults.get("nodes", {})),
            )
            for node in nodes
        ),
    )
