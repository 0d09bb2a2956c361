"""Reads of flavors, GPU types and sites."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Unpack

from django.db.models import (
    BooleanField,
    Case,
    Count,
    F,
    Func,
    IntegerField,
    Max,
    Min,
    Prefetch,
    Q,
    QuerySet,
    Sum,
    When,
)
from django.db.models.functions import Coalesce, Least

from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Node, NodeCheck, Site, StorageClass
from gpuaas.catalog.offers import Attributes, Wanted, matching, with_traits
from gpuaas.catalog.states import OfferState
from gpuaas.core.conditions import Condition, Status, conditions_read
from gpuaas.core.rows import first_of
from gpuaas.providers.registry import clusters_only
from tenants.actors import Actor
from tenants.selectors import platform_require

# of flavors: their site takes new work; the same as `Site.takes_new`
SELLING = Q(pool__site__enabled=True) & (Q(pool__site__fit=True) | Q(pool__site__sell_unfit=True))


def sites_for(*, actor: Actor) -> QuerySet[Site]:
    """For operators and auditors, without removed sites; credentials are not loaded."""
    platform_require(actor=actor)
    return Site.objects.filter(removed_at=None).defer("credentials").order_by("slug")


def site_get_for(*, actor: Actor, slug: str) -> Site:
    return first_of(sites_for(actor=actor).filter(slug=slug), "site")


def gpu_types_for(*, actor: Actor) -> QuerySet[GpuType]:
    """Tenants see active ones; operators and auditors also see drafts and retired ones."""
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
    """Flavors on offer by attributes (`Attributes`), annotated with the traits of their nodes.

    `drafts` adds drafts and retired ones, for operators and auditors.
    """
    rows = Flavor.objects.select_related("pool__gpu_type", "pool__site")
    if drafts:
        platform_require(actor=actor)
        rows = rows.filter(pool__site__removed_at=None)
    else:
        rows = rows.filter(
            SELLING,
            state=OfferState.ACTIVE,
            pool__gpu_type__state=OfferState.ACTIVE,
            pool__trouble="",
        ).exclude(pool__site__driver__in=clusters_only())
    places = {"pool__site__slug": site, "price_class": price_class}
    flavors = matching(with_traits(rows), Attributes(**wanted))
    flavors = flavors.filter(**{key: value for key, value in places.items() if value})
    return flavors.order_by("-pool__gpu_type__memory_gib", "slug")


def flavor_get_for(*, actor: Actor, slug: str) -> Flavor:
    return first_of(flavors_for(actor=actor, drafts=actor.sees_all).filter(slug=slug), "flavor")


# -- the capacity map -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PoolMap:
    """One pool with its nodes. What tenants hold of it is in quotas, under the resource `gpu:<slug>`."""

    pool: GpuPool
    site: Site
    gpu_type: GpuType
    nodes: tuple[Node, ...]

    @property
    def capacity(self) -> int:
        return self.pool.capacity

    @property
    def allocated(self) -> int:
        """Used by pods and machines, on cordoned nodes as well."""
        return sum(node.allocated for node in self.nodes) if self.nodes else self.pool.allocated

    @property
    def others(self) -> int:
        return self.pool.others

    @property
    def unallocated(self) -> int:
        return self.pool.unallocated

    @property
    def unhealthy(self) -> int:
        """Devices of nodes that do not answer, and unhealthy ones of nodes that do."""
        return sum(node.unhealthy if node.ready else node.capacity for node in self.nodes)

    @property
    def cordoned(self) -> int:
        return sum(node.capacity - node.unhealthy for node in self.nodes if node.ready and node.cordoned)

    @property
    def largest_block(self) -> int:
        return self.pool.largest_block


def capacity_map(*, actor: Actor, site: Site | None = None) -> list[PoolMap]:
    """Every pool with its nodes, of one site or of all, in two queries."""
    nodes = Prefetch("nodes", queryset=Node.objects.order_by("name"))
    return [
        PoolMap(pool=pool, site=pool.site, gpu_type=pool.gpu_type, nodes=tuple(pool.nodes.all()))
        for pool in pools_for(actor=actor, site=site).prefetch_related(nodes)
    ]


def pools_for(*, actor: Actor, site: Site | None = None) -> QuerySet[GpuPool]:
    """Every pool of one site or of all; without its nodes."""
    platform_require(actor=actor)
    pools = GpuPool.objects.filter(site__removed_at=None).select_related("site", "gpu_type")
    pools = pools.order_by("site__slug", "gpu_type__slug")
    return pools if site is None else pools.filter(site=site)


def unknown_devices(*, actor: Actor) -> list[dict[str, Any]]:
    """What `Site.unknown` says, with its `site`; for operators and auditors."""
    rows = sites_for(actor=actor).exclude(unknown=[]).values_list("slug", "unknown")
    return [{"site": slug, **each} for slug, found in rows for each in found]


def cards_by_site() -> dict[uuid.UUID, Decimal]:
    """GPUs at each site, of which a card that is sold in slices is one; 1 query."""
    rows = GpuPool.objects.order_by().values_list("site")
    return dict(rows.annotate(sum=Sum(Coalesce("cards", F("capacity") * F("card_share")))))


@dataclass(frozen=True)
class NodeSums:
    """Nodes of a pool: how many, the devices of the smallest and the largest, and of their devices those in use, those
    that cannot take work, those on cordoned nodes, and those of the used ones that are in other hands; each device once,
    `allocated` also beyond what there is."""

    nodes: int = 0
    smallest: int = 0
    largest: int = 0
    allocated: int = 0
    used: int = 0
    bad: int = 0
    cordoned: int = 0
    others: int = 0


USED = Least("allocated", "capacity", output_field=IntegerField())
BAD = Case(
    When(ready=False, then=F("capacity") - USED),
    default=Least("unhealthy", F("capacity") - USED, output_field=IntegerField()),
    output_field=IntegerField(),
)


def node_sums(*, pools: Collection[GpuPool]) -> dict[uuid.UUID, NodeSums]:
    """By pool, of those with nodes; 1 query."""
    rows = Node.objects.filter(pool__in=pools).order_by().values_list("pool")
    found = rows.annotate(
        count=Count("pk"),
        min_capacity=Min("capacity"),
        max_capacity=Max("capacity"),
        sum_allocated=Sum("allocated"),
        sum_used=Sum(USED),
        sum_bad=Sum(BAD),
        sum_cordoned=Sum(F("capacity") - USED - BAD, filter=Q(cordoned=True), default=0),
        sum_others=Sum(Least("others", "capacity")),
    )
    return {pk: NodeSums(*sums) for pk, *sums in found}


def nodes_named(*, actor: Actor, search: str, site: Site | None = None, gpu_type: str = "") -> QuerySet[Node]:
    """Nodes of a site or of all whose name contains `search`, by name; a row for each GPU type of a node."""
    platform_require(actor=actor)
    rows = Node.objects.filter(site__removed_at=None).order_by("name", "site", "pool")
    if site is not None:
        rows = rows.filter(site=site)
    if search:
        rows = rows.filter(name__icontains=search)
    if gpu_type:
        rows = rows.filter(pool__gpu_type__slug=gpu_type)
    return rows


class _AnyFails(Func):
    """Whether one of the checks of a node failed."""

    function = "jsonb_path_exists"
    template = """%(function)s(%(expressions)s, '$.*.status ? (@ == "False")')"""
    output_field = BooleanField()


def nodes_sick(*, rows: QuerySet[Node]) -> QuerySet[Node]:
    """Those of them that are not ready, have devices that cannot take work, or fail a check."""
    return rows.alias(fails=_AnyFails("checks")).filter(Q(ready=False) | Q(unhealthy__gt=0) | Q(fails=True))


# -- storage ---------------------------------------------------------------------------------------------------------


def storage_classes_at(*, actor: Actor, site: Site) -> QuerySet[StorageClass]:
    """Every class that the site has or had, by name; for operators and auditors."""
    platform_require(actor=actor)
    return StorageClass.objects.filter(site=site).select_related("site").order_by("name")


def storage_classes_sold() -> QuerySet[StorageClass]:
    """What an order may name, by site and short name."""
    rows = StorageClass.objects.filter(state=OfferState.ACTIVE, present=True, plain=False)
    return rows.filter(site__enabled=True).select_related("site").order_by("site__slug", "slug")


# -- whether a site is fit to be sold -----------------------------------------------------------------------------


def site_checks(*, site: Site) -> list[Condition]:
    """The latest results with their remedies; failed and unknown checks come first."""
    order = [Status.FALSE, Status.UNKNOWN, Status.TRUE]
    return sorted(conditions_read(site.checks), key=lambda row: (order.index(row.status), row.type))


def node_checks_of(*, site: Site) -> QuerySet[NodeCheck]:
    """Latest first; for those who may see the site."""
    return NodeCheck.objects.filter(site=site).select_related("site").order_by("-pk")


def node_check_get_for(*, actor: Actor, site: Site, id: uuid.UUID) -> NodeCheck:
    platform_require(actor=actor)
    return first_of(node_checks_of(site=site).filter(pk=id), "node check")


def is_sold(flavor: Flavor) -> bool:
    """Not where the site cannot tell the pool from another: a buyer would then get either."""
    pool = flavor.pool
    return flavor.state == pool.gpu_type.state == OfferState.ACTIVE and not pool.trouble
