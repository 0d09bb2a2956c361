"""Updates capacity after every probe of a site, and checks nightly that counters equal the sum of reservations."""

import uuid

import structlog
from celery import shared_task

from gpuaas.catalog.models import Site
from gpuaas.core.rows import one_or_none
from quotas import services
from quotas.history import capacity_history_write
from quotas.observed import capacity_observed
from quotas.selectors import counters_mismatches

log = structlog.get_logger(__name__)


@shared_task(name="quotas.capacity_sync")
def capacity_sync(site_id: str) -> None:
    """Started after every probe; does nothing if the site no longer exists."""
    site = one_or_none(Site.objects.filter(pk=uuid.UUID(site_id)))
    if site is not None:
        services.capacity_sync(
            site=site,
            healthy=capacity_observed(site=site),
            oversubscription_percent=site.oversubscription_percent,
        )
        capacity_history_write(site=site)


@shared_task(name="quotas.counters_check")
def counters_check() -> int:
    """Logs an error for each mismatch and repairs nothing: a wrong counter is a bug, and its traces must stay."""
    mismatches = counters_mismatches()
    for mismatch in mismatches:
        log.error(
            "quota_counter_mismatch",
            scope=mismatch.scope.word,
            scope_name=mismatch.scope_name,
            resource=mismatch.resource,
            counter=mismatch.counter,
            held=mismatch.held,
        )
    return len(mismatches)
