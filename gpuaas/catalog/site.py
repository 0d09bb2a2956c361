"""The driver of a site with its credentials, decrypted for this use; and its capabilities, which need none."""

import uuid
from collections.abc import Callable, Collection
from functools import partial

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.core.crypto import decrypt_json
from gpuaas.providers.base import Connection, Driver, SoldPool
from gpuaas.providers.registry import driver_class, driver_for

HOLDERS: list[
    Callable[[uuid.UUID], frozenset[uuid.UUID]]
] = []  # what holds something at a site, from the rooms above


# how many GPUs of a pool workspaces and clusters hold, used or not, from the rooms above; the pool has its GPU type
HELD: list[Callable[[GpuPool], int]] = []


# of ids, those of workspaces and clusters that are not deleted, from the rooms above
KNOWN: list[Callable[[Collection[uuid.UUID]], frozenset[uuid.UUID]]] = []


def known_of(ids: Collection[uuid.UUID]) -> frozenset[uuid.UUID]:
    """Those of workspaces and clusters of this portal that are not deleted."""
    return frozenset[uuid.UUID]().union(*(known(ids) for known in KNOWN))


def confirmed_at(site_id: uuid.UUID) -> bool:
    """Whether anything may be changed there, as of now."""
    return Site.objects.filter(pk=site_id, confirmed=True).exists()


def holders_at(site_id: uuid.UUID) -> frozenset[uuid.UUID]:
    """The workspaces and clusters that hold something there; everything else that runs there is not ours."""
    return frozenset[uuid.UUID]().union(*(holders(site_id) for holders in HOLDERS))


def held_of(pool: GpuPool) -> int:
    """GPUs of the pool that are held, whatever became of the flavor by which they were bought."""
    return sum(held(pool) for held in HELD)


def connection_of(site: Site, *, sold: tuple[SoldPool, ...] = ()) -> Connection:
    return Connection(
        site_id=site.pk,
        site_slug=site.slug,
        endpoint=site.endpoint,
        credentials=decrypt_json(site.credentials),
        options=site.options,
        sold=sold,
        holders=partial(holders_at, site.pk),
        may_change=partial(confirmed_at, site.pk),
    )


def driver_of(site: Site, *, sold: tuple[SoldPool, ...] = ()) -> Driver:
    """`sold`: for the probe."""
    return driver_for(site.driver, connection_of(site, sold=sold))


def kind_of(site: Site) -> type[Driver]:
    """For `issubclass` with the capabilities."""
    return driver_class(site.driver)
