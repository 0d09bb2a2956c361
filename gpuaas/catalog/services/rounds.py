"""Rounds at a site: looks that come again beside the probe, each under a lease of its own (`SiteRound`)."""

import uuid
from datetime import timedelta
from typing import TypeVar

import structlog
from django.db.models import Count

from gpuaas.catalog.models import Site, SiteRound
from gpuaas.catalog.site import driver_of
from gpuaas.catalog.states import RoundKind
from gpuaas.core import clock, leases
from gpuaas.core.backoff import delay
from gpuaas.core.errors import GpuaasError, Permanent
from gpuaas.core.queue import poke

log = structlog.get_logger(__name__)

LEASE_SECONDS = 120
EVERY_SECONDS = {RoundKind.PREFLIGHT: 600, RoundKind.HEALTH: 60, RoundKind.OFFERS: 60}
TASKS = {
    RoundKind.PREFLIGHT: "catalog.preflight",
    RoundKind.HEALTH: "catalog.health",
    RoundKind.OFFERS: "catalog.offers",
}
CapabilityT = TypeVar("CapabilityT")


def rounds_wake(site: Site, *kinds: RoundKind) -> None:
    """Due now, whether they are under way or not: what is asked meanwhile is not slept over."""
    SiteRound.objects.bulk_create(
        [SiteRound(site=site, kind=kind, due_at=clock.now()) for kind in kinds],
        update_conflicts=True,
        unique_fields=["site", "kind"],
        update_fields=["due_at"],
    )
    for kind in kinds:
        poke(TASKS[kind], str(site.pk))


def rounds_fill() -> None:
    """A site without its rounds (one that is older than they are) gets them."""
    sites = Site.objects.filter(enabled=True).annotate(has=Count("rounds")).filter(has__lt=len(RoundKind))
    SiteRound.objects.bulk_create(
        [SiteRound(site=site, kind=kind, due_at=clock.now()) for site in sites for kind in RoundKind],
        ignore_conflicts=True,
    )


def round_claim(site_id: uuid.UUID, kind: RoundKind) -> SiteRound | None:
    """None where somebody else has it, or there is nothing to look at."""
    known = SiteRound.objects.filter(site=site_id, kind=kind).values_list("pk", flat=True).first()
    row = leases.claim(SiteRound, known, now=clock.now(), seconds=LEASE_SECONDS) if known else None
    if row is not None and not row.site.enabled:
        leases.release(row, due_at=None)
        return None
    return row


def round_driver(row: SiteRound, capability: type[CapabilityT]) -> CapabilityT | None:
    """None, and the round at rest, where the site's driver has no such thing to tell."""
    driver = driver_of(row.site)
    if isinstance(driver, capability):
        return driver
    leases.release(row, due_at=None)
    return None


def round_release(row: SiteRound, **changes: object) -> bool:
    """It is over; False where the lease was lost and what was found must be dropped."""
    due_at = clock.now() + timedelta(seconds=EVERY_SECONDS[RoundKind(row.kind)])
    return leases.release(row, due_at=due_at, attempts=0, **changes)


def round_retry(row: SiteRound) -> bool:
    """It failed: again after a while, at the latest when it would come again anyway."""
    attempts = row.attempts + 1
    wait = min(delay(attempts), EVERY_SECONDS[RoundKind(row.kind)])
    return leases.release(row, due_at=clock.now() + timedelta(seconds=wait), attempts=attempts)


def in_our_words(error: Exception, *, what: str, site: Site) -> GpuaasError:
    """A driver's bug is told as what it is and must not stop the rounds."""
    if isinstance(error, GpuaasError):
        return error
    log.error("site_round_failed", what=what, site=site.slug, exc_info=error)
    return Permanent(f"the {what} failed: {type(error).__name__}")
