"""Preflight: the driver's checks of a site as conditions, and the effect of those that forbid sales.

A site that does not answer keeps its last results; `Checked` says since when, and why.
"""

import time
import uuid
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import F

from gpuaas.catalog.models import Site, SiteRound
from gpuaas.catalog.services.checks import conditions_of
from gpuaas.catalog.services.rounds import (
    round_release,
    round_retry,
    round_run,
    round_site,
    rounds_wake,
)
from gpuaas.catalog.states import RoundKind
from gpuaas.core import clock
from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.core.errors import Conflict, GpuaasError
from gpuaas.core.events import OPERATORS_GROUP, publish
from gpuaas.providers.base import Check, PreflightCapability
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

CHECKED, SELLABLE = "Checked", "Sellable"
# to the next look at what keeps a site from being sold: at a busy one policies act later than they are waited for
UNFIT_SECONDS = 60


@transaction.atomic
def site_preflight_request(*, actor: Actor, site: Site) -> None:
    """Starts the checks now; the results appear on the site when they are ready."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = Site.objects.select_for_update().get(pk=site.pk)
    if not row.enabled:
        raise Conflict("a disabled site is not checked: enable it first")
    audit_record(actor=actor, action="site.preflight", target=row)
    rounds_wake(row, RoundKind.PREFLIGHT, RoundKind.HEALTH)


def site_preflight(site_id: uuid.UUID) -> bool:
    """True if the site was checked; False if it did not answer, or another worker is checking it."""
    kind: type[PreflightCapability] = PreflightCapability  # type: ignore[type-abstract]  # asked for, not made
    return round_run(site_id, RoundKind.PREFLIGHT, kind, ask=_ask, failed=_failure_write)


def _ask(row: SiteRound, driver: PreflightCapability) -> bool:
    return _checks_write(row, driver.preflight())


def site_preflight_look(site_id: uuid.UUID, *, seconds: float = 30.0) -> bool:
    """Whether the site was checked, by us or by a worker that had already started, whose result is awaited. For
    commands."""
    asked, deadline = clock.now(), time.monotonic() + seconds
    while True:
        if site_preflight(site_id):
            return True
        row = SiteRound.objects.select_related("site").filter(site=site_id, kind=RoundKind.PREFLIGHT).first()
        if row is not None and row.site.preflight_at is not None and row.site.preflight_at >= asked:
            return True
        if row is None or row.claim_token is None or time.monotonic() > deadline:
            return False
        time.sleep(0.2)


@transaction.atomic
def _checks_write(row: SiteRound, checks: Sequence[Check]) -> bool:
    blocking = [check.type for check in checks if check.blocking and check.status == Status.FALSE]
    site = round_site(row)
    if not round_release(row, seconds=UNFIT_SECONDS if blocking and not row.site.sell_unfit else None):
        return False
    now = clock.now()
    conditions = conditions_of(checks, site.checks, now)
    conditions = condition_set(
        {**conditions, **_kept(site, CHECKED, SELLABLE)},
        type=CHECKED,
        status=Status.TRUE,
        reason="Done",
        message=f"{len(checks)} checks ran.",
        now=now,
    )
    _write(site, _sellable(conditions, blocking, now), fit=not blocking, preflight_at=now)
    return True


def _failure_write(row: SiteRound, error: GpuaasError) -> None:
    site = round_site(row)
    if not round_retry(row, error):
        return
    checks = condition_set(
        site.checks,
        type=CHECKED,
        status=Status.FALSE,
        reason="NoAnswer" if error.code == "unavailable" else "Failed",
        message=error.message,
        remedy=(
            "Check whether the site is reachable; the portal tries again automatically. Earlier results "
            "are kept."
        ),
        now=clock.now(),
    )
    _write(site, checks)


def _sellable(stored: Stored, blocking: Sequence[str], now: datetime) -> Stored:
    if not blocking:
        message = "No check forbids selling here."
        return condition_set(
            stored, type=SELLABLE, status=Status.TRUE, reason="Fit", message=message, now=now
        )
    return condition_set(
        stored,
        type=SELLABLE,
        status=Status.FALSE,
        reason=blocking[0],
        message=(
            f"Nothing new is sold here because of {', '.join(blocking)}; present workspaces and clusters "
            "continue."
        ),
        remedy=(
            "Resolve these checks, then run them again. To sell here despite them, set sell_unfit on the "
            "site."
        ),
        now=now,
    )


def _kept(site: Site, *types: str) -> Stored:
    return {kind: site.checks[kind] for kind in types if kind in site.checks}


def _write(site: Site, checks: Stored, **columns: object) -> None:
    """Publishes an event only if a status or reason changed, because most rounds repeat the previous result."""
    changed = _statuses(checks) != _statuses(site.checks)
    version = F("version") + (1 if changed else 0)
    Site.objects.filter(pk=site.pk).update(checks=checks, version=version, **columns)
    if changed:
        publish(kind="site", id=site.pk, groups=(OPERATORS_GROUP,))


def _statuses(stored: Stored) -> dict[str, tuple[str, str]]:
    return {kind: (row["status"], row["reason"]) for kind, row in stored.items()}
