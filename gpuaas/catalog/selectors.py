"""What is offered, what is free of it, and how the sites are."""

import uuid
from dataclasses import dataclass
from typing import Unpack

from django.db.models import F, Prefetch, Q, QuerySet
from django.db.models.functions import Greatest

from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Node, NodeCheck, Site
from gpuaas.catalog.offers import Attributes, Wanted, matching, with_traits
from gpuaas.catalog.states import OfferState
from gpuaas.core.conditions import Condition, Status, conditions_read
from gpuaas.core.errors import NotFound
from gpuaas.providers.registry import CLUSTERS_ONLY
from tenants.actors import Actor
from tenants.selectors import platform_require

# of flavors: their site takes new work; the same as `Site.takes_new`
SELLING = Q(pool__site__enabled=True) & (Q(pool__site__fit=True) | Q(pool__site__sell_unfit=True))


def sites_for(*, actor: Actor) -> QuerySet[Site]:
    """For operators and auditors; credentials are not loaded."""
    platform_require(actor=actor)
    return Site.objects.defer("credentials").order_by("slug")


def site_get_for(*, actor: Actor, slug: str) -> Site:
    site = sites_for(actor=actor).filter(slug=slug).first()
    if site is None:
        raise NotFound("there is no such site")
    return site


def gpu_types_for(*, actor: Actor) -> QuerySet[GpuType]:
    """What tenants see: active ones; operators and auditors see drafts and retired ones too."""
    rows = GpuType.objects.order_by("slug")
    return rows if actor.sees_all else rows.filter(state=OfferState.ACTIVE)


def flavors_for(
    *,
    actor: Actor,
    site: str = "",
    price_class: str = "",
    drafts: bool = False,
    **wanted: Unpack[Wanted],
) -> QuerySet[Flavor]:
    """What workspaces may be asked for, by attributes (`Attributes`), with `free` and the traits of its nodes annotated.

    `drafts` adds what is not sold (yet, or any more), for operators and auditors.
    """
    rows = Flavor.objects.select_related("pool__gpu_type", "pool__site").annotate(
        free=Greatest(F("pool__healthy") - F("pool__allocated"), 0)
    )
    if drafts:
        platform_require(actor=actor)
    else:
        rows = rows.filter(
            SELLING,
            state=OfferState.ACTIVE,
            pool__gpu_type__state=OfferState.ACTIVE,
            pool__trouble="",
        ).exclude(pool__site__driver__in=CLUSTERS_ONLY)
    places = {"pool__site__slug": site, "price_class": price_class}
    found = matching(with_traits(rows), Attributes(**wanted))
    found = found.filter(**{key: value for key, value in places.items() if value})
    return found.order_by("-pool__gpu_type__memory_gib", "slug")


def flavor_get_for(*, actor: Actor, slug: str) -> Flavor:
    flavor = flavors_for(actor=actor, drafts=actor.sees_all).filter(slug=slug).first()
    if flavor is None:
        raise NotFound("there is no such flavor")
    return flavor


# -- the capacity map -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PoolMap:
    """One pool with its nodes. What tenants hold of it is quotas' to tell, by the resource `gpu:<slug>`."""

    pool: GpuPool
    site: Site
    gpu_type: GpuType
    nodes: tuple[Node, ...]

    @property
    def capacity(self) -> int:
        return self.pool.capacity

    @property
    def allocated(self) -> int:
        """In use, also on nodes that take nothing new."""
        return sum(node.allocated for node in self.nodes)

    @property
    def free(self) -> int:
        return self.pool.free

    @property
    def unhealthy(self) -> int:
        """Devices of nodes that do not answer, and sick ones of nodes that do."""
        return sum(node.unhealthy if node.ready else node.capacity for node in self.nodes)

    @property
    def cordoned(self) -> int:
        return sum(node.capacity - node.unhealthy for node in self.nodes if node.ready and node.cordoned)

    @property
    def largest_block(self) -> int:
        return self.pool.largest_block


def capacity_map(*, actor: Actor, site: Site | None = None) -> list[PoolMap]:
    """Every pool with its nodes, of one site or of all, in two queries."""
    platform_require(actor=actor)
    pools = GpuPool.objects.select_related("site", "gpu_type").order_by("site__slug", "gpu_type__slug")
    if site is not None:
        pools = pools.filter(site=site)
    nodes = Prefetch("nodes", queryset=Node.objects.order_by("name"))
    return [
        PoolMap(pool=pool, site=pool.site, gpu_type=pool.gpu_type, nodes=tuple(pool.nodes.all()))
        for pool in pools.prefetch_related(nodes)
    ]


# -- whether a site is fit to be sold -----------------------------------------------------------------------------


def site_checks(*, site: Site) -> list[Condition]:
    """What was found last, with what to do about it; what is not as it should be first."""
    order = [Status.FALSE, Status.UNKNOWN, Status.TRUE]
    return sorted(conditions_read(site.checks), key=lambda row: (order.index(row.status), row.type))


def node_checks_of(*, site: Site) -> QuerySet[NodeCheck]:
    """The latest first; for whoever may see the site."""
    return NodeCheck.objects.filter(site=site).select_related("site").order_by("-pk")


def node_check_get_for(*, actor: Actor, site: Site, id: uuid.UUID) -> NodeCheck:
    platform_require(actor=actor)
    found = node_checks_of(site=site).filter(pk=id).first()
    if found is None:
        raise NotFound("there is no such check of a node")
    return found
