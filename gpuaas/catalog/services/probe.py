"""Looking at a site: lease, call with no transaction open, then write what was found if the lease is still ours.

A site that does not answer keeps its last known capacity; its conditions say since when, why, and what to do.
"""

import time
import uuid
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import F

from gpuaas.catalog.models import Site
from gpuaas.catalog.services.health import inventory_with_health
from gpuaas.catalog.services.inventory import inventory_apply, inventory_digest
from gpuaas.catalog.services.rounds import rounds_wake
from gpuaas.catalog.site import driver_of
from gpuaas.catalog.states import RoundKind
from gpuaas.core import clock, leases
from gpuaas.core.backoff import delay
from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.core.errors import GpuaasError, Permanent, Unauthorized
from gpuaas.core.events import OPERATORS_GROUP, publish
from gpuaas.core.queue import poke
from gpuaas.providers.base import Inventory

log = structlog.get_logger(__name__)

LEASE_SECONDS = 60
PROBE_SECONDS = 20


def site_probe(site_id: uuid.UUID) -> bool:
    """True where the site answered; False where it did not, or somebody else is looking at it already."""
    site = leases.claim(Site, site_id, now=clock.now(), seconds=LEASE_SECONDS)
    if site is None:
        return False
    if not site.enabled:
        leases.release(site, due_at=None)
        return False
    started = time.monotonic()
    try:
        inventory = driver_of(site).probe()
    except GpuaasError as error:
        _failure_write(site, error)
        return False
    except Exception as error:  # a driver's bug must not hide behind the last good answer
        log.exception("site_probe_failed", site=site.slug)
        _failure_write(site, Permanent(f"looking at the site failed: {type(error).__name__}"))
        return False
    return _answer_write(site, inventory, answer_ms=round((time.monotonic() - started) * 1000))


def site_look(site_id: uuid.UUID, *, seconds: float = 30.0) -> bool:
    """Did the site answer, by our look or by one that another process had begun already: then its result is awaited.

    For whoever has just attached a site: the worker was told too and may have been faster.
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
    inventory = inventory_with_health(site, inventory)
    now, digest = clock.now(), inventory_digest(inventory)
    conditions = _answered(_conditions(site), now)
    changed = digest != site.observed_digest or conditions != site.conditions
    kept = leases.release(
        site,
        due_at=now + timedelta(seconds=PROBE_SECONDS),
        attempts=0,
        server_version=inventory.server_version[:64],
        conditions=conditions,
        probed_at=now,
        answered_at=now,
        answer_ms=answer_ms,
        observed_digest=digest,
        version=F("version") + (1 if changed else 0),
    )
    if not kept:
        return False
    if inventory_apply(site=site, inventory=inventory, at=now):
        poke("workspaces.site_changed", str(site.pk))
    if site.answered_at is None or site.attempts:
        # it is new, or back: what was found before it went may be otherwise now
        rounds_wake(site, *RoundKind)
    _told(site, changed=changed)
    return True


@transaction.atomic
def _failure_write(site: Site, error: GpuaasError) -> None:
    now, attempts = clock.now(), site.attempts + 1
    conditions = _unanswered(_conditions(site), error, now)
    changed = _statuses(conditions) != _statuses(site.conditions)
    wait = min(delay(attempts), PROBE_SECONDS)
    if leases.release(
        site,
        due_at=now + timedelta(seconds=wait),
        attempts=attempts,
        conditions=conditions,
        probed_at=now,
        version=F("version") + (1 if changed else 0),
    ):
        _told(site, changed=changed)


def _told(site: Site, *, changed: bool) -> None:
    """The capacity's reader is told every time: a hint that got lost is made good by the next one."""
    poke("quotas.capacity_sync", str(site.pk))
    if changed:
        publish(kind="site", id=site.pk, groups=(OPERATORS_GROUP,))


def _conditions(site: Site) -> Stored:
    """As they are now: a round may have written one of its own since the look began."""
    stored: Stored = Site.objects.select_for_update().values_list("conditions", flat=True).get(pk=site.pk)
    return stored


def _statuses(conditions: Stored) -> dict[str, tuple[str, str]]:
    return {kind: (row["status"], row["reason"]) for kind, row in conditions.items()}


def _answered(stored: Stored, now: datetime) -> Stored:
    reachable = condition_set(
        stored,
        type="Reachable",
        status=Status.TRUE,
        reason="Answered",
        message="The site answers.",
        now=now,
    )
    return condition_set(
        reachable,
        type="Authorized",
        status=Status.TRUE,
        reason="Accepted",
        message="The site accepts the portal's credentials.",
        now=now,
    )


def _unanswered(stored: Stored, error: GpuaasError, now: datetime) -> Stored:
    if isinstance(error, Unauthorized):
        answers = condition_set(
            stored,
            type="Reachable",
            status=Status.TRUE,
            reason="Answered",
            message="The site answers.",
            now=now,
        )
        return condition_set(
            answers,
            type="Authorized",
            status=Status.FALSE,
            reason="Refused",
            message=error.message,
            remedy="Give the site new credentials; what runs there goes on meanwhile.",
            now=now,
        )
    silent = condition_set(
        stored,
        type="Reachable",
        status=Status.FALSE,
        reason="NoAnswer" if error.code == "unavailable" else "Failed",
        message=error.message,
        remedy="Check the site's API address and the network to it; requests wait and go on by themselves.",
        now=now,
    )
    return condition_set(
        silent,
        type="Authorized",
        status=Status.UNKNOWN,
        reason="NoAnswer",
        message="Not known while the site does not answer.",
        now=now,
    )
