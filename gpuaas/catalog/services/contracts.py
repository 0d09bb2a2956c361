"""What was sold at a site is a contract: later discoveries are reported and never overwrite it."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Exists, OuterRef
from django.db.models.functions import Coalesce

from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.states import OfferState
from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.providers.base import Inventory, ObservedNode, ObservedPool, SoldPool

AS_SOLD = "AsSold"
REMEDY = (
    "Restore at the site what was sold, or move its holders to another flavor. Until then nothing "
    "new is sold of it, and no workspace is changed."
)


@dataclass(frozen=True)
class ContractsKept:
    """The inventory with every contract unchanged. breaches: kind → how the site differs from what was sold, in
    words."""

    inventory: Inventory
    breaches: Mapping[str, str]


def pools_lock(site_id: uuid.UUID) -> None:
    """Nobody else publishes a pool of the site, or writes what it has, until the transaction ends.

    Taken after the site's own row, before any row of a GPU type or a flavor is written, and all pools at once: then no two
    orders can deadlock.
    """
    rows = GpuPool.objects.filter(site_id=site_id).order_by("pk").select_for_update()
    list(rows.values_list("pk", flat=True))


def sold_at(site: Site) -> tuple[SoldPool, ...]:
    """Pools of which a flavor was ever published, oldest first."""
    rows = GpuPool.objects.filter(site=site).order_by("pk")
    published = Flavor.objects.filter(pool=OuterRef("pk")).exclude(state=OfferState.DRAFT)
    columns = ("gpu_type__slug", "resource_name", "selector", "device_class", Coalesce("shares", 0))
    return tuple(SoldPool(*row) for row in rows.filter(Exists(published)).values_list(*columns))


def contracts_keep(inventory: Inventory, sold: Sequence[SoldPool]) -> ContractsKept:
    """Pure. Drivers look for what was sold first; further names that they discover are closed here."""
    pools = {pool.kind.slug: pool for pool in inventory.pools}
    breaches: dict[str, str] = {}
    closed: dict[str, str] = {}
    for each in sold:
        pool = pools.get(each.kind_slug)
        if pool is None:
            breaches[each.kind_slug] = f"the site has no {each.resource_name} as it was sold"
        elif difference := _differs(pool, each):
            pools[each.kind_slug] = replace(
                pool,
                resource_name=each.resource_name,
                selector=each.selector,
                device_class=each.device_class,
                trouble=difference,
            )
            breaches[each.kind_slug] = closed[each.kind_slug] = difference
        elif pool.trouble:
            breaches[each.kind_slug] = pool.trouble
    nodes = tuple(_closed(node, closed.get(node.kind_slug, "")) for node in inventory.nodes)
    return ContractsKept(replace(inventory, pools=tuple(pools.values()), nodes=nodes), breaches)


def _differs(pool: ObservedPool, sold: SoldPool) -> str:
    """What was unknown when it was sold (a class, a selector) is no difference."""
    if pool.resource_name != sold.resource_name:
        return f"its name is {pool.resource_name} now and was {sold.resource_name} when it was sold"
    if sold.device_class and pool.device_class != sold.device_class:
        return (
            f"its device class is {pool.device_class or 'none'} now and was {sold.device_class} when "
            "it was sold"
        )
    if sold.selector and dict(pool.selector) != dict(sold.selector) and not pool.by_hand:
        return f"its selector is {_words(pool.selector)} now and was {_words(sold.selector)} when it was sold"
    return ""


def _words(selector: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(selector.items())) or "nothing"


def _closed(node: ObservedNode, why: str) -> ObservedNode:
    return replace(node, unhealthy=node.capacity, reason=node.reason or why) if why else node


def as_sold(stored: Stored, contracts: ContractsKept, now: datetime) -> Stored:
    """The condition of the site that reports it."""
    seconds = "; ".join(contracts.inventory.seconds)
    breaches = "; ".join(f"{slug}: {why}" for slug, why in sorted(contracts.breaches.items()))
    status, reason, remedy = Status.TRUE, "Kept", ""
    message = "The site has what was sold, by the same names."
    if breaches:
        status, reason, remedy = Status.FALSE, "NotAsSold", REMEDY
        message = f"The site differs from what was sold: {breaches}."
    if seconds:
        reason = reason if breaches else "SecondNames"
        message += f" Closed to every workspace: {seconds}."
    return condition_set(
        stored, type=AS_SOLD, status=status, reason=reason, message=message[:2000], remedy=remedy, now=now
    )
