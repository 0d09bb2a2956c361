"""GPUs of pools: how many exist, are held, are allocated, and can still be held. Every page and the API use this.

`held`: reserved by workspaces and clusters of tenants, used or not, without what is lent to spot workspaces. `allocated`: used
by pods and machines, as last observed. Of one pool they are devices; in sums over pools a device counts as the part of a card
that it is.
"""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import DecimalField, Exists, F, OuterRef, Q, Subquery, Sum, Value
from django.db.models.functions import Coalesce, StrIndex, Substr

from gpuaas.catalog.models import Flavor, GpuPool
from quotas.models import Reservation, ReservationState, SiteCapacity
from quotas.pools import pools_owners
from quotas.resources import GPU_PREFIX, SPOT_PREFIX, gpu_resource, spot_resource
from tenants.actors import Actor
from tenants.models import Project
from tenants.selectors import projects_for


@dataclass(frozen=True)
class PoolGpus:
    """One GPU type at one site. sellable None: not counted there. owner: the organization for which the pool is
    reserved. selling: whether the site takes new work and can sell this type. lendable, lent: devices that spot workspaces may have
    together, and what they have; neither counts in any other figure."""

    healthy: int
    sellable: int | None
    held: int
    owner: uuid.UUID | None
    selling: bool = True
    capacity: int = 0
    others: int = 0
    lendable: int = 0
    lent: int = 0

    @property
    def ours(self) -> int:
        """Devices that can take work and are not in other hands."""
        return max(self.healthy - self.others, 0)

    @property
    def free(self) -> int:
        """What can still be held: what admission would grant to those who may use the pool."""
        if not self.selling:
            return 0
        return max((self.ours if self.sellable is None else self.sellable) - self.held, 0)

    @property
    def beyond(self) -> int:
        """What is held and offered beyond the devices there are: by oversubscription, or because devices are out or in other hands
        that were there when they were sold."""
        return max(self.held + self.free - self.ours, 0)

    @property
    def closed(self) -> int:
        """Devices that nobody has and that are not for sale now."""
        return max(self.ours - self.held - self.free, 0)

    @property
    def out(self) -> int:
        """Devices that cannot take work, whoever has them: free + held + closed + others + out = capacity + beyond."""
        return self.capacity - self.healthy

    def free_for(self, organizations: Collection[uuid.UUID]) -> int:
        """For members of these organizations: 0 if the pool is reserved for another one."""
        return self.free if self.owner is None or self.owner in organizations else 0

    def free_as(self, flavor: Flavor, organizations: Collection[uuid.UUID] | None = None) -> int:
        """What can still be held of it as this flavor; a pool that is reserved for others is lent all the same."""
        if flavor.is_lent:
            return max(self.lendable - self.lent, 0) if self.selling else 0
        return self.free if organizations is None else self.free_for(organizations)


TYPE_OF_RESOURCE = Substr(OuterRef("resource"), StrIndex(OuterRef("resource"), Value(":")) + 1)
Gpus = dict[uuid.UUID, PoolGpus]


def gpus_of_pools(pools: Iterable[GpuPool] | None = None, *, owners: bool = False) -> Gpus:
    """By pool, of all pools if none are given; 1 query for given pools, otherwise 2. Does not reveal the holders."""
    rows = SiteCapacity.objects.filter(
        Q(resource__startswith=GPU_PREFIX) | Q(resource__startswith=SPOT_PREFIX)
    )
    counted = {(row.site_id, row.resource): row for row in rows}
    owned = pools_owners() if owners else {}
    found = GpuPool.objects.select_related("gpu_type", "site") if pools is None else pools
    return {
        pool.pk: _of(
            pool,
            counted.get((pool.site_id, gpu_resource(pool.gpu_type.slug))),
            counted.get((pool.site_id, spot_resource(pool.gpu_type.slug))),
            owned.get(pool.pk),
        )
        for pool in found
    }


def _of(
    pool: GpuPool, row: SiteCapacity | None, spot: SiteCapacity | None, owner: uuid.UUID | None
) -> PoolGpus:
    selling = pool.site.takes_new and not pool.trouble
    hard, used = (0, 0) if row is None else (row.hard, row.used)
    lent = {} if spot is None else {"lendable": spot.hard or 0, "lent": spot.used}
    return PoolGpus(pool.healthy, hard, used, owner, selling, pool.capacity, pool.others, **lent)


def organizations_of(*, actor: Actor, gpus: Gpus) -> frozenset[uuid.UUID]:
    """For `free_for`: the organizations in whose projects the actor may request; operators see every pool as its
    owner does."""
    owners = {row.owner for row in gpus.values() if row.owner is not None}
    if not owners or actor.sees_all:
        return frozenset(owners)
    mine = projects_for(actor=actor).filter(organization__in=owners).order_by()
    return frozenset(mine.values_list("organization_id", flat=True))


@dataclass(frozen=True)
class Everywhere:
    """Sum over all sites that count the resource, in its own units."""

    sellable: int
    free: int  # each site for itself: what one has too little of another does not make up


def everywhere() -> dict[str, Everywhere]:
    """By resource, without those that no site counts; nothing is free where nothing new is placed. 1 query."""
    at_site = GpuPool.objects.filter(site=OuterRef("site"))
    troubled = at_site.exclude(trouble="").filter(gpu_type__slug=TYPE_OF_RESOURCE)
    takes_new = Q(site__enabled=True) & (Q(site__fit=True) | Q(site__sell_unfit=True))
    rows = SiteCapacity.objects.annotate(selling=takes_new & ~Exists(troubled))
    totals: dict[str, Everywhere] = {}
    for resource, hard, used, selling in rows.values_list("resource", "hard", "used", "selling"):
        if hard is None:
            continue
        before = totals.get(resource, Everywhere(0, 0))
        free = max(hard - used, 0) if selling else 0
        totals[resource] = Everywhere(before.sellable + hard, before.free + free)
    return totals


def gpus_held(pool: GpuPool) -> int:
    """Devices of the pool that workspaces and clusters hold, with those that they borrow; 1 query."""
    slug = pool.gpu_type.slug
    rows = Reservation.objects.filter(
        site=pool.site_id, state=ReservationState.HELD, resource__in=[gpu_resource(slug), spot_resource(slug)]
    )
    return int(rows.aggregate(amount=Coalesce(Sum("amount"), 0))["amount"])


def cards_held(*, project: Project) -> Decimal:
    """GPUs that the project's workspaces and clusters hold, of all types at all sites, without those that they borrow; 1 query."""
    pools = GpuPool.objects.filter(site=OuterRef("site"), gpu_type__slug=TYPE_OF_RESOURCE)
    rows = Reservation.objects.filter(
        project=project, state=ReservationState.HELD, resource__startswith=GPU_PREFIX
    )
    share = Coalesce(Subquery(pools.values("card_share")[:1]), Decimal(1))
    found = rows.aggregate(cards=Sum(F("amount") * share, output_field=DecimalField()))["cards"]
    return round(found or Decimal(0), 4)
