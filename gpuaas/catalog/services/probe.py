"""Probing a site: claim, call with no transaction open, then write the result if the claim still holds.

A site that does not answer keeps its last known capacity; its conditions say since when, why, and what to do.
"""

import time
import uuid
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import DateTimeField, F, Value
from django.db.models.functions import Coalesce

from gpuaas.catalog.models import Site
from gpuaas.catalog.services.confirmed import confirmed
from gpuaas.catalog.services.contracts import as_sold, contracts_keep, pools_lock, sold_at
from gpuaas.catalog.services.counted import counted
from gpuaas.catalog.services.health import inventory_with_health
from gpuaas.catalog.services.inventory import inventory_apply, inventory_digest
from gpuaas.catalog.services.rounds import rounds_wake
from gpuaas.catalog.site import driver_of
from gpuaas.catalog.states import RoundKind
from gpuaas.core import clock
from gpuaas.core.claims import claimed, release, rest, retry
from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.core.errors import Conflict, GpuaasError, Unauthorized, Unusable
from gpuaas.core.events import OPERATORS_GROUP, publish
from gpuaas.core.queue import poke
from gpuaas.providers.base import Inventory
from tenants.actors import Actor
from tenants.roles import Permission
from tenants.selectors import platform_require

PROBE_SECONDS = 20
AUTHORIZED = "Authorized"  # the condition: whether the site takes the portal's credentials


@transaction.atomic
def site_probe_request(*, actor: Actor, site: Site) -> None:
    """Makes the site due now: what is found appears on it. Raises Conflict for a disabled one, which is not contacted."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = Site.objects.select_for_update().get(pk=site.pk)
    if not row.enabled:
        raise Conflict("a disabled site is not contacted: enable it first")
    Site.objects.filter(pk=row.pk).update(due_at=clock.now())
    poke("catalog.probe", str(row.pk))


def site_probe(site_id: uuid.UUID) -> bool:
    """True if the site answered; False if it did not, or another worker is probing it."""
    return claimed(Site, site_id, _probe, failed=_failure_write)


def _probe(site: Site) -> bool:
    if not site.enabled:
        return rest(site)
    started = time.monotonic()
    inventory = driver_of(site, sold=sold_at(site)).probe()
    return _answer_write(site, inventory, answer_ms=round((time.monotonic() - started) * 1000))


def site_look(site_id: uuid.UUID, *, seconds: float = 30.0) -> bool:
    """Whether the site answered, to us or to another process that had already started, whose result is awaited.

    For commands that have just attached a site: the worker was notified, too, and may be faster.
    """
    asked, deadline = clock.now(), time.monotonic() + seconds
    while True:
        if site_probe(site_id):
            return True
        site = Site.objects.get(pk=site_id)
        if site.probed_at is not None and site.probed_at >= asked:
            return site.answered_at == site.probed_at
        if not site.enabled or time.monotonic() > deadline:
            return False
        time.sleep(0.2)


@transaction.atomic
def _answer_write(site: Site, inventory: Inventory, *, answer_ms: int) -> bool:
    stored = _conditions(site)
    pools_lock(site.pk)
    kept_as_sold = contracts_keep(inventory_with_health(site, replace(inventory, marked={})), sold_at(site))
    now, digest = clock.now(), inventory_digest(kept_as_sold.inventory)
    conditions = counted(as_sold(_answered(stored, now), kept_as_sold, now), kept_as_sold.inventory, now)
    conditions = confirmed(conditions, site, inventory, now)
    changed = digest != site.observed_digest or conditions != site.conditions
    written = release(
        site,
        due_at=now + timedelta(seconds=PROBE_SECONDS),
        attempts=0,
        server_version=inventory.server_version[:64],
        conditions=conditions,
        probed_at=now,
        answered_at=now,
        reached_at=Coalesce(F("reached_at"), Value(now, DateTimeField())),
        answer_ms=answer_ms,
        observed_digest=digest,
        unknown=[asdict(each) for each in kept_as_sold.inventory.unknown],
        runtimes=[asdict(each) for each in inventory.runtimes],
        version=F("version") + (1 if changed else 0),
    )
    if not written:
        return False
    if inventory_apply(site=site, inventory=kept_as_sold.inventory, breaches=kept_as_sold.breaches, at=now):
        poke("workspaces.site_changed", str(site.pk))
    if site.answered_at is None or site.attempts:
        # it is new, or back: what was found before it went may be otherwise now
        rounds_wake(site, *RoundKind)
    _told(site, changed=changed)
    return True


def _failure_write(site: Site, error: GpuaasError) -> None:
    now = clock.now()
    conditions = _unanswered(_conditions(site), error, now)
    changed = _statuses(conditions) != _statuses(site.conditions)
    if retry(
        site,
        error,
        most=PROBE_SECONDS,
        conditions=conditions,
        probed_at=now,
        version=F("version") + (1 if changed else 0),
    ):
        _told(site, changed=changed)


def _told(site: Site, *, changed: bool) -> None:
    """Starts the update of capacity after every probe, so that a lost poke is repaired by the next one."""
    poke("quotas.capacity_sync", str(site.pk))
    if changed:
        publish(kind="site", id=site.pk, groups=(OPERATORS_GROUP,))


def _conditions(site: Site) -> Stored:
    """The present conditions: another round may have written since the probe started."""
    stored: Stored = Site.objects.select_for_update().values_list("conditions", flat=True).get(pk=site.pk)
    return stored


def _statuses(conditions: Stored) -> dict[str, tuple[str, str]]:
    return {kind: (row["status"], row["reason"]) for kind, row in conditions.items()}


class Verdict(NamedTuple):
    status: Status
    reason: str
    message: str
    remedy: str = ""


ANSWERS = Verdict(Status.TRUE, "Answered", "The site answers.")
ACCEPTED = Verdict(Status.TRUE, "Accepted", "The site accepts the portal's credentials.")
NOT_ASKED = Verdict(Status.UNKNOWN, "NotAsked", "Not checked: the portal's credentials name no site.")
UNKNOWN = Verdict(Status.UNKNOWN, "NoAnswer", "Unknown while the site does not answer.")


def _answered(stored: Stored, now: datetime) -> Stored:
    return _judged(stored, now, reachable=ANSWERS, authorized=ACCEPTED)


def _unanswered(stored: Stored, error: GpuaasError, now: datetime) -> Stored:
    if isinstance(error, Unusable):
        remedy = "Give the site new credentials."
        unusable = Verdict(Status.FALSE, "Unusable", error.message, remedy)
        return _judged(stored, now, reachable=NOT_ASKED, authorized=unusable)
    if isinstance(error, Unauthorized):
        remedy = "Give the site new credentials; what runs there continues."
        refused = Verdict(Status.FALSE, "Refused", error.message, remedy)
        return _judged(stored, now, reachable=ANSWERS, authorized=refused)
    reason = "NoAnswer" if error.code == "unavailable" else "Failed"
    remedy = "Check the site's API address and the network to it; requests wait and continue automatically."
    silent = Verdict(Status.FALSE, reason, error.message, remedy)
    return _judged(stored, now, reachable=silent, authorized=UNKNOWN)


def _judged(stored: Stored, now: datetime, *, reachable: Verdict, authorized: Verdict) -> Stored:
    known = condition_set(stored, type="Reachable", now=now, **reachable._asdict())
    return condition_set(known, type=AUTHORIZED, now=now, **authorized._asdict())
