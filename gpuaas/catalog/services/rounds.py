"""Rounds at a site: periodic checks beside the probe, each with its own claim (`SiteRound`)."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from django.db.models import Count

from gpuaas.catalog.models import Site, SiteRound
from gpuaas.catalog.site import driver_of
from gpuaas.catalog.states import RoundKind
from gpuaas.core import clock
from gpuaas.core.claims import claimed, release, rest, retry
from gpuaas.core.errors import GpuaasError
from gpuaas.core.queue import poke

EVERY_SECONDS = {RoundKind.PREFLIGHT: 600, RoundKind.HEALTH: 60, RoundKind.OFFERS: 60}
TASKS = {
    RoundKind.PREFLIGHT: "catalog.preflight",
    RoundKind.HEALTH: "catalog.health",
    RoundKind.OFFERS: "catalog.offers",
}
CapabilityT = TypeVar("CapabilityT")


def rounds_wake(site: Site, *kinds: RoundKind) -> None:
    """Makes them due now, even if they are running, so that the request is not lost."""
    SiteRound.objects.bulk_create(
        [SiteRound(site=site, kind=kind, due_at=clock.now()) for kind in kinds],
        update_conflicts=True,
        unique_fields=["site", "kind"],
        update_fields=["due_at"],
    )
    for kind in kinds:
        poke(TASKS[kind], str(site.pk))


def rounds_fill() -> None:
    """Adds missing rounds to a site that is older than they are."""
    sites = Site.objects.filter(enabled=True).annotate(has=Count("rounds")).filter(has__lt=len(RoundKind))
    SiteRound.objects.bulk_create(
        [SiteRound(site=site, kind=kind, due_at=clock.now()) for site in sites for kind in RoundKind],
        ignore_conflicts=True,
    )


def round_run(
    site_id: uuid.UUID,
    kind: RoundKind,
    capability: type[CapabilityT],
    *,
    ask: Callable[[SiteRound, CapabilityT], bool],
    failed: Callable[[SiteRound, GpuaasError], object] | None = None,
) -> bool:
    """What `ask` returned after it wrote the answer. Rounds of a disabled site, or without anything to ask, rest."""

    def work(row: SiteRound) -> bool:
        driver = driver_of(row.site) if row.site.enabled else None
        return ask(row, driver) if isinstance(driver, capability) else rest(row)

    known = SiteRound.objects.filter(site=site_id, kind=kind).values_list("pk", flat=True).first()
    return known is not None and claimed(SiteRound, known, work, failed=failed or round_retry)


def round_site(row: SiteRound) -> Site:
    """The site of a round that ends, locked. Whoever writes both locks the site first, as who asks for a round or takes the site away
    does: in the other order each would wait for the other."""
    return Site.objects.select_for_update(no_key=True).get(pk=row.site_id)


def round_release(row: SiteRound, *, seconds: float | None = None, **changes: object) -> bool:
    """Ends the round; False if the claim was lost and the result must be dropped. seconds: until the next one, if that comes sooner
    than usual."""
    due_at = clock.now() + timedelta(seconds=seconds or EVERY_SECONDS[RoundKind(row.kind)])
    return release(row, due_at=due_at, attempts=0, **changes)


def round_retry(row: SiteRound, error: GpuaasError) -> bool:
    """After a failure: again after a delay, at the latest when the round is due anyway."""
    return retry(row, error, most=EVERY_SECONDS[RoundKind(row.kind)])
