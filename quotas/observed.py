"""What a site can sell, by its last probe, as resource keys of limits."""

from django.db.models import F, Max, Sum

from gpuaas.catalog.models import GpuPool, Node, Site
from quotas.resources import MEMORY, VCPU, gpu_resource


def capacity_observed(*, site: Site) -> dict[str, int]:
    """Healthy devices by GPU type without those in other hands, and vCPU and memory (GiB) of nodes that take work; 2 queries.

    A node with devices of two pools has a row for each and is counted once. Storage is not observed.
    """
    capacity = {
        gpu_resource(slug): ours
        for slug, ours in GpuPool.objects.filter(site=site).values_list(
            "gpu_type__slug", F("healthy") - F("others")
        )
    }
    nodes = Node.objects.filter(site=site, ready=True, cordoned=False).order_by().values("name")
    each = nodes.annotate(node_cores=Max("vcpus"), node_gib=Max("memory_gib"))
    sums = each.aggregate(cores=Sum("node_cores"), gib=Sum("node_gib"))
    return {**capacity, VCPU: sums["cores"] or 0, MEMORY: sums["gib"] or 0}
