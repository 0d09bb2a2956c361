"""What a site can sell, by its last probe, as resource keys of limits."""

from django.db.models import Exists, F, Max, OuterRef, Sum

from gpuaas.catalog.models import Flavor, GpuPool, Node, Site
from gpuaas.catalog.states import OfferState
from quotas.resources import MEMORY, VCPU, gpu_resource, spot_resource


def capacity_observed(*, site: Site) -> dict[str, int]:
    """Healthy devices by GPU type without those in other hands, and vCPU and memory (GiB) of nodes that take work; 3 queries. Of
    types that are lent the same devices once more. None of a type that is not sold while another one cut from the same devices is.

    A node with devices of two pools has a row for each and is counted once. Storage is not observed.
    """
    active = Exists(Flavor.objects.filter(pool=OuterRef("pk"), state=OfferState.ACTIVE))
    columns = ("gpu_type__slug", "shares_with", F("healthy") - F("others"), active)
    pools = list(GpuPool.objects.filter(site=site).values_list(*columns))
    sold = {slug for slug, _, _, is_sold in pools if is_sold}
    capacity = {
        gpu_resource(slug): 0 if not is_sold and sold.intersection(shares_with) else ours
        for slug, shares_with, ours, is_sold in pools
    }
    lent = Flavor.objects.filter(pool__site=site, notice_seconds__gt=0).exclude(state=OfferState.DRAFT)
    for slug in lent.order_by().values_list("pool__gpu_type__slug", flat=True).distinct():
        capacity[spot_resource(slug)] = capacity[gpu_resource(slug)]
    nodes = Node.objects.filter(site=site, ready=True, cordoned=False).order_by().values("name")
    each = nodes.annotate(node_cores=Max("vcpus"), node_gib=Max("memory_gib"))
    sums = each.aggregate(cores=Sum("node_cores"), gib=Sum("node_gib"))
    return {**capacity, VCPU: sums["cores"] or 0, MEMORY: sums["gib"] or 0}
