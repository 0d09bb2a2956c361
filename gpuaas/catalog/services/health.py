"""What nodes say of their cards, asked once a minute, and put beside what the site itself counts.

A node that does not answer keeps what it said last: errors do not heal by silence.
"""

import uuid
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from django.db import transaction

from gpuaas.catalog.models import Node, Site, SiteRound
from gpuaas.catalog.services.rounds import in_our_words, round_claim, round_driver, round_release, round_retry
from gpuaas.catalog.states import RoundKind, Sharing
from gpuaas.core import clock
from gpuaas.core.queue import poke
from gpuaas.providers.base import Check, DeviceKind, HealthCapability, Inventory, NodeHealth, ObservedNode


def site_health(site_id: uuid.UUID) -> bool:
    """True where the site was asked; what changed lowers or raises the capacity with the probe that follows at once."""
    row = round_claim(site_id, RoundKind.HEALTH)
    if row is None:
        return False
    try:
        driver = round_driver(row, HealthCapability)  # type: ignore[type-abstract]  # asked for, not made
        if driver is None:
            return False
        told = driver.device_health()
    except Exception as error:  # noqa: BLE001  the probe tells of a site that does not answer
        in_our_words(error, what="look at the cards", site=row.site)
        round_retry(row)
        return False
    return _health_write(row, told)


@transaction.atomic
def _health_write(row: SiteRound, told: tuple[NodeHealth, ...]) -> bool:
    nodes = set(Node.objects.filter(site=row.site_id).values_list("name", flat=True))
    found = {name: each for name, each in row.found.items() if name in nodes}
    found |= {each.node: _stored(each) for each in told if each.node in nodes}
    if not round_release(row, found=found):
        return False
    if found != row.found:
        Site.objects.filter(pk=row.site_id, enabled=True).update(due_at=clock.now())
        poke("catalog.probe", str(row.site_id))
    return True


def inventory_with_health(site: Site, inventory: Inventory) -> Inventory:
    """What the site counts, less what its nodes say is sick: a device that both take away is taken away once."""
    found = SiteRound.objects.filter(site=site, kind=RoundKind.HEALTH).values_list("found", flat=True).first()
    if not found:
        return inventory
    kinds = {pool.kind.slug: pool.kind for pool in inventory.pools}
    nodes = (_merged(node, kinds.get(node.kind_slug), found.get(node.name)) for node in inventory.nodes)
    return replace(inventory, nodes=tuple(nodes))


def _merged(node: ObservedNode, kind: DeviceKind | None, said: Mapping[str, Any] | None) -> ObservedNode:
    if kind is None or not said:
        return node
    sick = min(_devices_sick(node, kind, said), node.capacity)
    checks = (*node.checks, Check(**said["check"]))
    return replace(node, unhealthy=max(node.unhealthy, sick), checks=checks)


def _devices_sick(node: ObservedNode, kind: DeviceKind, said: Mapping[str, Any]) -> int:
    """In the site's way of counting: a slice by its profile, a share as a part of its card, all else by the card."""
    sick: Mapping[str, int] = said["sick"]
    if kind.mig_profile and kind.sharing != Sharing.SHARED:
        return sick.get(kind.mig_profile, 0)
    shares = node.capacity // said["cards"] if kind.sharing == Sharing.SHARED and said["cards"] else 1
    return sick.get("", 0) * max(shares, 1)


def _stored(health: NodeHealth) -> dict[str, Any]:
    return {"cards": health.cards, "sick": dict(health.sick), "check": asdict(health.check)}
