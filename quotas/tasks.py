"""The nightly proof that counters equal the sum of reservations."""

import structlog
from celery import shared_task

from quotas.selectors import counters_mismatches

log = structlog.get_logger(__name__)


@shared_task(name="quotas.counters_check")
def counters_check() -> int:
    """Logs an error for each mismatch and repairs nothing: a wrong counter is a bug whose traces must stay."""
    found = counters_mismatches()
    for mismatch in found:
        log.error(
            "quota_counter_mismatch",
            scope=mismatch.scope.word,
            scope_name=mismatch.scope_name,
            resource=mismatch.resource,
            counter=mismatch.counter,
            held=mismatch.held,
        )
    return len(found)
