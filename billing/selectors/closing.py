"""The effect of closing a month, before it is requested; its progress, afterwards."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from billing.models import CloseProgress, MonthClose
from billing.selectors.checklist import Check, month_checks, quarantine_check
from billing.selectors.costs import statement
from billing.states import CloseState
from tenants.actors import Actor
from tenants.models import Organization

# no sign of life for so long: the worker is busy with something large, or dead
QUIET = timedelta(minutes=1)


@dataclass(frozen=True)
class ClosePreview:
    """What is known now; more usage may be reported until the close. Corrections of earlier months are not included.

    organizations: how many get an invoice. totals: before tax, by currency.
    """

    month: date
    checks: tuple[Check, ...]
    organizations: int
    totals: dict[str, Decimal]

    @property
    def waits(self) -> bool:
        """Whether nobody can close it yet."""
        return any(not check.ok and not check.may_accept for check in self.checks)

    @property
    def doubtful(self) -> bool:
        """Whether it needs an operator's reason."""
        return any(not check.ok and check.may_accept for check in self.checks)


def close_preview(*, actor: Actor, month: date, now: datetime) -> ClosePreview:
    """The checks including quarantine, and the drafts: rates the month."""
    checks = month_checks(month=month, now=now)
    sheet = statement(actor=actor, month=month)
    unpriced = sheet.quarantined
    names = sorted({line.project for line in unpriced})
    totals: dict[str, Decimal] = {}
    for line in sheet.lines:
        if line.amount:
            totals[line.currency] = totals.get(line.currency, Decimal(0)) + line.amount
    projects = {line.project_id for line in sheet.lines}
    return ClosePreview(
        month=month,
        checks=(*checks, quarantine_check(lines=len(unpriced), names=names)),
        organizations=Organization.objects.filter(projects__in=projects).distinct().count(),
        totals=dict(sorted(totals.items())),
    )


def progress_of(row: MonthClose) -> CloseProgress | None:
    """None if nobody has requested it, or if it is done."""
    if row.state != CloseState.REQUESTED:
        return None
    return CloseProgress.objects.filter(close=row).first()


def is_quiet(progress: CloseProgress, now: datetime) -> bool:
    return progress.seen_at is not None and now - progress.seen_at > QUIET
