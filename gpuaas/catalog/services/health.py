"""Health of cards as nodes report it, read once a minute and merged with what the site counts; with what they do.

A node that does not answer keeps its last report: errors do not heal by silence.
"""

import uuid
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from django.db import transaction

from gpuaas.catalog.models import Node, Site, SiteReadings, SiteRound
from gpuaas.catalog.services.rounds import round_release, round_run, round_site
from gpuaas.catalog.states import RoundKind, Sharing
from gpuaas.core import clock
from gpuaas.core.queue import poke
from gpuaas.providers import base


def site_health(site_id: uuid.UUID) -> bool:
    """True if the site was asked; changes adjust the capacity with the probe that follows at once."""
    kind: type[base.HealthCapability] = base.HealthCapability  # type: ignore[type-abstract]  # asked for, not made
    return round_run(site_id, RoundKind.HEALTH, kind, ask=_ask)


def _ask(row: SiteRound, driver: base.HealthCapability) -> bool:
    reports = driver.device_health()
    readings = driver.device_metrics() if isinstance(driver, base.MetricsCapability) else ()
    return _health_write(row, reports, readings)


@transaction.atomic
def _health_write(
    row: SiteRound, reports: tuple[base.NodeHealth, ...], readings: tuple[base.DeviceReading, ...]
) -> bool:
    nodes = set(Node.objects.filter(site=row.site_id).values_list("name", flat=True))
    stored = {name: each for name, each in row.found.items() if name in nodes}
    stored |= {each.node: _stored(each) for each in reports if each.node in nodes}
    round_site(row)
    if not round_release(row, found=stored):
        return False
    if stored != row.found:
        Site.objects.filter(pk=row.site_id, enabled=True).update(due_at=clock.now())
        poke("catalog.probe", str(row.site_id))
    if readings:
        _readings_write(row.site_id, readings)
    return True


def _readings_write(site_id: uuid.UUID, readings: tuple[base.DeviceReading, ...]) -> None:
    """For gpustats, a floor above. Those of the round before are gone, if nobody kept them in time."""
    now = clock.now()
    SiteReadings.objects.update_or_create(
        pk=site_id,
        defaults={
            "at": clock.whole_second(now),
            "devices": [asdict(each) for each in readings],
            "due_at": now,
        },
    )
    poke("gpustats.keep", str(site_id))


def inventory_with_health(site: Site, inventory: base.Inventory) -> base.Inventory:
    """What the site counts, less what its nodes report as unhealthy; a device in both is subtracted once."""
    found = SiteRound.objects.filter(site=site, kind=RoundKind.HEALTH).values_list("found", flat=True).first()
    if not found:
        return inventory
    kinds = {pool.kind.slug: pool.kind for pool in inventory.pools}
    nodes = (_merged(node, kinds.get(node.kind_slug), found.get(node.name)) for node in inventory.nodes)
    return replace(inventory, nodes=tuple(nodes))


def _merged(
    node: base.ObservedNode, kind: base.DeviceKind | None, report: Mapping[str, Any] | None
) -> base.ObservedNode:
    if kind is None or not report:
        return node
    sick = min(_devices_sick(node, kind, report), node.capacity)
    checks = (*node.checks, base.Check(**report["check"]))
    return replace(node, unhealthy=max(node.unhealthy, sick), checks=checks)


def _devices_sick(node: base.ObservedNode, kind: base.DeviceKind, report: Mapping[str, Any]) -> int:
    """In the units of the site: a slice by its profile, a share as a part of its card, everything else by the card."""
    sick: Mapping[str, int] = report["sick"]
    if kind.mig_profile and kind.sharing != Sharing.SHARED:
        return sick.get(kind.mig_profile, 0)
    shares = node.capacity // report["cards"] if kind.sharing == Sharing.SHARED and report["cards"] else 1
    return sick.get("", 0) * max(shares, 1)


def _stored(health: base.NodeHealth) -> dict[str, Any]:
    return {"cards": health.cards, "sick": dict(health.sick), "check": asdict(health.check)}
