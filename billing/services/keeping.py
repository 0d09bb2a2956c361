"""Adds up past usage: unit-seconds of a project's month by day and by holder, and of the day that runs, once
(billing/rating.md, section 16).

Each is one transaction that reads only intervals, so a worker may die or run twice. It takes exclusively the lock that
writers of the project's usage share until their commit (migration `usage_changes_void`): a change that it could not see
yet voids its result.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Min

from billing.models import KeptMonth
from billing.months import billing_zone, day_span, month_days, month_span, months_between
from billing.tariffs import sql_of, sql_text
from gpuaas.metering.final import month_final
from gpuaas.metering.models import UsageInterval

LATE = timedelta(
    hours=1
)  # meters tell of the end of a day until then; what comes later is no fault, only work
BATCH = 500
PART = timedelta(minutes=10)  # of the day that runs; kept when the next one is over, too
MANY = 100  # so much has to have ended in the day that runs before it is worth adding up
LOCK = "SELECT pg_try_advisory_xact_lock(8190, billing_kept_share(%s))"


@dataclass(frozen=True)
class Due:
    """A month of a project that is past until then, a midnight in the billing time zone; or the day `month` of it, past
    until the end of a part."""

    project_id: uuid.UUID
    month: date
    until: datetime

    @property
    def whole(self) -> bool:
        """A month. Of a later day holders are not told apart: they would be as many sums as there are intervals."""
        return self.month.day == 1

    @property
    def parameters(self) -> dict[str, Any]:
        days = [
            span for span in month_days(self.month) if self.month <= span.day and span.starts_at < self.until
        ]
        return {
            "project": self.project_id,
            "month": self.month,
            "zone": settings.BILLING_TIME_ZONE,
            "starts_at": day_span(self.month).starts_at,
            "until": self.until,
            "whole": self.whole,
            "day_starts": [span.starts_at for span in days],
            "day_ends": [span.ends_at for span in days],
        }


def past_until(now: datetime) -> datetime:
    """The midnight until which usage is complete."""
    return day_span((now - LATE).astimezone(billing_zone()).date()).starts_at


def part_until(now: datetime) -> datetime:
    """The end of the last part of a day that is past and not the newest."""
    return datetime.fromtimestamp(
        (now - PART).timestamp() // PART.total_seconds() * PART.total_seconds(), tz=UTC
    )


def usage_keep(*, now: datetime, most: int = BATCH, many: int = MANY) -> int:
    """Returns how many months of projects, and days that run, were added up. Those that are being written are left for
    the next round."""
    return sum(month_keep(due) for due in list(_due(now, most, many)))


def _due(now: datetime, most: int, many: int) -> Iterator[Due]:
    first = UsageInterval.objects.aggregate(first=Min("started_at"))["first"]
    if first is None or first >= now:
        return
    end, part = past_until(now), part_until(now)
    final = month_final()
    spans = [month_span(month) for month in months_between(first, end) if final is None or month > final]
    untils = {span.day: min(span.ends_at, end) for span in spans if span.starts_at < end}
    asked: dict[str, Any] = {
        "months": list(untils),
        "starts": [span.starts_at for span in spans if span.day in untils],
        "untils": list(untils.values()),
        "zone": settings.BILLING_TIME_ZONE,
        "most": most,
    }
    months = _found("keep_due", asked)
    yield from (Due(project, month, untils[month]) for project, month in months)
    if part > end:
        day = end.astimezone(billing_zone()).date()
        asked |= {"day": day, "starts_at": end, "until": part, "most": most - len(months), "many": many}
        yield from (Due(project, day, part) for (project,) in _found("keep_due_today", asked))


def _found(name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql_text(name), parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def month_keep(due: Due) -> bool:
    """False if usage of the project is being written now."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK, [due.project_id])
        if not cursor.fetchall()[0][0]:
            return False
        parameters = due.parameters
        if due.whole:  # its days are in it
            days = KeptMonth.objects.filter(project=due.project_id, month__gt=due.month)
            days.filter(starts_at__lt=due.until).delete()
        cursor.execute(sql_text("keep_month"), parameters)
        parameters["kept"] = cursor.fetchall()[0][0]
        cursor.execute(sql_of("keep_sums", "keep_write"), parameters)
    return True


def kept_differs(row: KeptMonth) -> int:
    """How many sums of a month differ from its intervals; read in one statement."""
    parameters = Due(row.project_id, row.month, row.until).parameters | {"kept": row.pk}
    with connection.cursor() as cursor:
        cursor.execute(sql_of("keep_sums", "keep_differs"), parameters)
        return int(cursor.fetchall()[0][0])


def kept_check() -> list[KeptMonth]:
    """Compares all sums but those of final months, which nobody reads, with their intervals. Those that differ are
    voided, and added up again by the next round."""
    wrong = []
    rows = KeptMonth.objects.exclude(until=F("starts_at")).select_related("project").order_by("month", "pk")
    if final := month_final():
        rows = rows.filter(month__gt=final)
    for row in rows.filter(zone=settings.BILLING_TIME_ZONE).iterator(chunk_size=500):
        if kept_differs(row):
            wrong.append(row)
            KeptMonth.objects.filter(pk=row.pk).update(until=row.starts_at)
    return wrong
