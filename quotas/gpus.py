"""GPUs of pools: how many exist, are held, are allocated, and can still be held. Every page and the API use this.

`held`: reserved by workspaces and clusters of tenants, used or not. `allocated`: used by pods and machines, as last
observed.
"""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gpuaas.catalog.models import GpuPool
from quotas.models import SiteCapacity
from quotas.pools import pools_owners
from quotas.resources import GPU_PREFIX, gpu_type_slug
from tenants.actors import Actor
from tenants.selectors import projects_for


@dataclass(frozen=True)
class PoolGpus:
    """One GPU type at one site. sellable None: not counted there. owner: the organization for which the pool is
    reserved."""

    healthy: int
    sellable: int | None
    held: int
    owner: uuid.UUID | None

    @property
    def free(self) -> int:
        """What can still be held: what admission would grant to those who may use the pool."""
        return max((self.healthy if self.sellable is None else self.sellable) - self.held, 0)

    def free_for(self, organizations: Collection[uuid.UUID]) -> int:
        """For members of these organizations: 0 if the pool is reserved for another one."""
        return self.free if self.owner is None or self.owner in organizations else 0


Gpus = dict[uuid.UUID, PoolGpus]


def gpus_of_pools(pools: Iterable[GpuPool] | None = None, *, owners: bool = False) -> Gpus:
    """By pool, of all pools if none are given; 1 query for given pools, otherwise 2. Does not reveal the holders."""
    rows = SiteCapacity.objects.filter(resource__startswith=GPU_PREFIX)
    counted = {(row.site_id, gpu_type_slug(row.resource)): row for row in rows}
    owned = pools_owners() if owners else {}
    found = GpuPool.objects.select_related("gpu_type") if pools is None else pools
    return {
        pool.pk: _of(pool, counted.get((pool.site_id, pool.gpu_type.slug)), owned.get(pool.pk))
        for pool in found
    }


def _of(pool: GpuPool, row: SiteCapacity | None, owner: uuid.UUID | None) -> PoolGpus:
    if row is None:
        return PoolGpus(pool.healthy, 0, 0, owner)
    return PoolGpus(pool.healthy, row.hard, row.used, owner)


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
    """Sum over all sites that count the resource."""

    sellable: int
    free: int  # each site for itself: what one has too little of another does not make up


def everywhere() -> dict[str, Everywhere]:
    """By resource, without those that no site counts; 1 query."""
    totals: dict[str, Everywhere] = {}
    for resource, hard, used in SiteCapacity.objects.values_list("resource", "hard", "used"):
        if hard is not None:
            before = totals.get(resource, Everywhere(0, 0))
            totals[resource] = Everywhere(before.sellable + hard, before.free + max(hard - used, 0))
    return totals
