"""Final months and the archive of usage (docs/decisions/0077).

A final month is what its invoices say, for good: nobody compares it with usage, credits anything of it, or takes in
usage of it. That is why its intervals may be moved into files.
"""

from datetime import date, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q
from django.db.models.functions import Greatest

from billing.models import KeptMonth, MonthClose, Rate
from billing.months import month_next, month_of, month_span
from billing.selectors.checklist import month_first
from billing.services.closing_work import final_work
from billing.states import CloseState
from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.gpustats.months import month_keep
from gpuaas.metering.archive import Tell, intervals_archive
from gpuaas.metering.final import RETENTION_LEAST, final_until, month_final
from gpuaas.metering.imports import closes_share
from gpuaas.metering.models import FinalMonth
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require


@transaction.atomic
def month_finish(*, actor: Actor, month: date, now: datetime | None = None) -> FinalMonth:
    """Makes a month final; repeating it changes nothing. Cannot be undone.

    Raises Conflict with what is in the way: retention, order, a close that is missing or under way, or usage and
    prices that the next close still has to post.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    first, moment = month.replace(day=1), now or clock.now()
    known = FinalMonth.objects.filter(month=first).first()
    if known is not None:
        return known
    closes_share()
    obstacle = _obstacle(first, moment)
    if obstacle:
        raise Conflict(f"{first:%B %Y} cannot become final: {obstacle}")
    span = month_span(first)
    made = FinalMonth.objects.create(
        month=first, ends_at=span.ends_at, marked_at=moment, marked_by=actor.name
    )
    month_keep(starts_at=span.starts_at, ends_at=span.ends_at)
    KeptMonth.objects.filter(month__lte=first).delete()  # pages read the invoices from here on
    audit_record(actor=actor, action="month.final", target=made)
    return made


def usage_archive(*, actor: Actor, folder: Path, tell: Tell) -> int:
    """Moves the intervals of final months into files; returns how many were deleted from the database.

    A session that a price pads beyond the last final month stays until the next month is final, too.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    until = final_until()
    if until is None:
        raise Conflict("no month is final yet; make one final first: usage_final YYYY-MM")
    return intervals_archive(actor=actor, folder=folder, until=until - _padding(), tell=tell)


def _obstacle(month: date, now: datetime) -> str:
    """The last check rates the month."""
    kept = settings.USAGE_RETENTION_MONTHS
    if kept < RETENTION_LEAST:
        return (
            f"GPUAAS_USAGE_RETENTION_MONTHS is {kept or 'not set'}. Set after how many months usage may become final, at "
            f"least {RETENTION_LEAST}"
        )
    due = month
    for _ in range(kept + 1):
        due = month_next(due)
    if month_of(now) < due:
        return f"usage is kept for {kept} months, so it can from {due:%B %Y} on"
    closed = MonthClose.objects.filter(state=CloseState.CLOSED)
    if not closed.filter(month=month).exists():
        return "it is not closed"
    last = month_final()
    following = month_next(last) if last else _first(month)
    if month != following:
        return f"{following:%B %Y} comes first"
    if MonthClose.objects.filter(state=CloseState.REQUESTED).exists():
        return "a close is under way; wait until it is done"
    lines = final_work(month=month, now=now)
    if lines:
        return (
            f"its usage or prices changed since it was last invoiced ({lines} line{'s' if lines > 1 else ''}). The next "
            "close posts the difference; afterwards it can become final"
        )
    return ""


def _first(month: date) -> date:
    """That of the first usage, or what was closed without a gap before it. An earlier one was closed by mistake, and nobody would
    close what lies between."""
    found = month_first() or month
    closed = set(MonthClose.objects.filter(state=CloseState.CLOSED).values_list("month", flat=True))
    while (before := (found - timedelta(days=1)).replace(day=1)) in closed:
        found = before
    return found


def _padding() -> timedelta:
    """The most that a price adds to a session."""
    padded = Rate.objects.filter(Q(increment_seconds__gt=1) | Q(minimum_seconds__gt=0))
    most = padded.aggregate(most=Max(Greatest("increment_seconds", "minimum_seconds")))["most"]
    return timedelta(seconds=most or 0)
