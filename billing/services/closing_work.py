"""The work of a close, batch after batch of organizations, in one transaction of its caller: all or nothing."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from django.db import connection

from billing import issuing
from billing.models import BillingAccount, MonthClose
from billing.months import month_next
from billing.rating import OBSERVED
from billing.selectors.accounts import currencies_of
from billing.selectors.checklist import SHOWN, checks_require, month_checks, quarantine_check, silent_sites
from billing.selectors.parties import parties_of
from billing.services.accounts import accounts_make
from billing.services.settling import accounts_lock, documents_settle
from billing.states import CloseState, InvoiceKind
from gpuaas.core.errors import Invalid
from gpuaas.metering.final import month_final

# told after each batch: step, organizations done, organizations in all
Tell = Callable[[str, int, int], None]
SETTLED_AT_ONCE = 500


@dataclass
class Close:
    """The results of a close so far. currencies: in which the organizations of the batch were rated."""

    row: MonthClose
    now: datetime
    steps: issuing.Steps = field(default_factory=issuing.Steps)
    documents: list[uuid.UUID] = field(default_factory=list)
    billed: list[uuid.UUID] = field(default_factory=list)
    unpriced_lines: int = 0
    unpriced_projects: set[str] = field(default_factory=set)
    currencies: dict[uuid.UUID, str] = field(default_factory=dict)

    @property
    def month(self) -> date:
        return self.row.month


def close_work(*, row: MonthClose, now: datetime, tell: Tell) -> Close:
    """Documents, shares, ledger entries and payments of all organizations. Raises Invalid for obstacles, also for
    those that appear only after everything is rated."""
    checks_require(month_checks(month=row.month, now=now), accepted=row.accepted)
    work = Close(row, now)
    issuing.tables_make()
    earlier = MonthClose.objects.filter(state=CloseState.CLOSED, month__lt=row.month)
    if final := month_final():
        earlier = earlier.filter(month__gt=final)
    batches = issuing.changed_find(month=row.month, earlier=list(earlier.values_list("month", flat=True)))
    done, total = 0, sum(len(batch.organizations) for batch in batches)
    work.steps.add("changed", total)
    for batch in batches:
        tell("rating and writing", done, total)
        _rate(work, batch)
        _issue(work)
        done += len(batch.organizations)
    tell("paying from grants, credits and prepayments", done, total)
    check = quarantine_check(lines=work.unpriced_lines, names=sorted(work.unpriced_projects))
    checks_require([check], accepted=row.accepted)
    issuing.sql_run("close_rated")
    _settle(work)
    return work


def final_work(*, month: date, now: datetime) -> int:
    """Rates a closed month as the next close would, in a transaction of its caller; returns how many lines that close
    would post. If none, its invoices say what its usage says, and what only moved inside of lines is written."""
    work, lines = Close(MonthClose(month=month_next(month)), now), 0
    issuing.tables_make()
    for batch in issuing.month_find(month=month):
        _rate(work, batch)
        issuing.sql_run("final_moved")
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM close_line")
            lines += int(cursor.fetchall()[0][0])
    return lines


def _rate(work: Close, batch: issuing.Batch) -> None:
    """Writes the batch's usage as lines and their shares to the tables of the close."""
    issuing.tables_clear()
    work.currencies = currencies_of(organizations=batch.organizations)
    cells = sum(
        issuing.cells_write(month=month, projects=projects, now=work.now)
        for month, projects in batch.projects.items()
    )
    work.steps.add("rated", cells)
    issuing.sql_run("close_invoiced", {"month": work.month, "organizations": list(batch.organizations)})
    _estimate(work.month)
    issuing.sql_run("close_lines", {"month": work.month})
    _quarantine(work)
    issuing.sql_run("close_analyze")
    issuing.sql_run("close_shares")
    issuing.sql_run("close_share_counts")
    work.steps.add("added up", 0)


def _issue(work: Close) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT organization, coalesce(sum(minor), 0) < 0 FROM close_line GROUP BY 1 ORDER BY 1"
        )
        found = cursor.fetchall()
    if not found:
        return
    organizations = [pk for pk, _ in found]
    numbers = _numbers(work, below_zero=sum(below for _, below in found), total=len(found))
    # then: whose currency is fixed cannot get another one while this is written; without its row there would be nothing to
    # lock, and a payment of this moment could miss the document
    accounts_make(organizations, now=work.now)
    accounts = BillingAccount.objects.filter(organization__in=organizations, currency_fixed_at__isnull=True)
    accounts.update(currency_fixed_at=work.now)
    parties = parties_of(organizations=organizations)
    _currencies_require(work, parties)
    issuing.parties_write(parties)
    issuing.sql_run("close_invoices", {"month": work.month, **numbers})
    work.documents += issuing.documents_write(now=work.now, by=work.row.requested_by, steps=work.steps)
    work.billed += organizations


def _currencies_require(work: Close, parties: Sequence[issuing.Party]) -> None:
    changed = [row.slug for row in parties if row.currency != work.currencies[row.organization_id]]
    if changed:
        raise Invalid.field(
            "month",
            f"the currency of {', '.join(changed[:SHOWN])} was changed while its usage was rated; close the month again",
        )


def _numbers(work: Close, *, below_zero: int, total: int) -> dict[str, object]:
    """Locks series before accounts, and that of invoices first, whether it is needed or not: two closes and a note
    never wait for each other."""
    series, number = issuing.numbers_take(kind=InvoiceKind.INVOICE, now=work.now, count=total - below_zero)
    numbers: dict[str, object] = {"invoice_series": series, "invoice_number": number}
    if below_zero:
        series, number = issuing.numbers_take(kind=InvoiceKind.CREDIT_NOTE, now=work.now, count=below_zero)
    return numbers | {"credit_series": series, "credit_number": number}


def _settle(work: Close) -> None:
    """Comes last, because balances are locked from here on: an incoming payment waits only for this part, but where the
    first invoice is written from then on."""
    accounts_lock(work.billed)
    for first in range(0, len(work.documents), SETTLED_AT_ONCE):
        invoices = work.documents[first : first + SETTLED_AT_ONCE]
        documents_settle(invoices=invoices, now=work.now, by=work.row.requested_by)
    work.steps.add("grants, credits and prepaid", len(work.documents))


def _estimate(month: date) -> None:
    rows = [(silent.site_id, day) for silent in silent_sites(month=month) for day in silent.days()]
    if rows:
        sites, days = zip(*rows, strict=True)
        parameters = {"sites": list(sites), "days": list(days), "observed": OBSERVED}
        issuing.sql_run("close_estimated", parameters)


def _quarantine(work: Close) -> None:
    """Only for the month itself: what an earlier close has accepted is not checked again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.slug, count(*) FROM close_line l JOIN tenants_project p ON p.id = l.project "
            "WHERE l.charge_month = %s AND l.status = 'quarantined' GROUP BY 1",
            [work.month],
        )
        for slug, lines in cursor.fetchall():
            work.unpriced_lines += lines
            work.unpriced_projects.add(slug)
