"""Closing a month: all organizations' invoices in one transaction, so that a kill at any point leaves all or nothing.

What is used late, changed or priced after the close lands on the next invoice as a correction of its own month: earlier
months are rated again where they changed, and the difference to what was invoiced so far is posted.
"""

import uuid
from datetime import date, datetime

from django.db import connection, transaction
from django.db.models import QuerySet

from billing import issuing
from billing.models import BillingAccount, MonthClose
from billing.rating import OBSERVED
from billing.selectors.checklist import Check, checks_require, month_checks, quarantine_check, silent_sites
from billing.selectors.parties import parties_of
from billing.services.settling import documents_settle
from billing.states import CloseState, InvoiceKind
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.queue import poke
from gpuaas.metering.services import held_sync
from tenants.actors import SYSTEM, Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require


def month_close_request(
    *, actor: Actor, month: date, accept: str = "", now: datetime | None = None
) -> MonthClose:
    """Ask for a month to be closed by the workers. `accept`: why it may be closed in spite of gaps or quarantine.

    Raises Invalid on `month` or `accept` with what is in the way, Conflict where it is closed. Asking twice asks once.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    first, moment, accepted = month.replace(day=1), now or clock.now(), accept.strip()
    if len(accepted) > 500:
        raise Invalid.field("accept", "say it in at most 500 characters")
    with transaction.atomic():
        MonthClose.objects.bulk_create(
            [MonthClose(month=first, state=CloseState.REFUSED, requested_at=moment, requested_by=actor.name)],
            ignore_conflicts=True,
        )
        row = MonthClose.objects.select_for_update(skip_locked=True).filter(month=first).first()
        if row is None:  # a worker has it in its hands
            return MonthClose.objects.get(month=first)
        if row.state == CloseState.CLOSED:
            raise Conflict(f"{first:%B %Y} is closed already; correct it with credit and debit notes")
        if row.state == CloseState.REQUESTED:
            return row
        checks_require(month_checks(month=first, now=moment), accepted=accepted)
        row.state, row.requested_at, row.requested_by = CloseState.REQUESTED, moment, actor.name
        row.accepted, row.refusal = accepted, ""
        row.save()
        audit_record(actor=actor, action="month.close", target=row, after={"accepted": accepted})
        poke("billing.month_close", f"{first:%Y-%m}")
    return row


def closes_due() -> QuerySet[MonthClose]:
    return MonthClose.objects.filter(state=CloseState.REQUESTED).order_by("month")


def month_close_run(*, month: date, now: datetime | None = None) -> MonthClose:
    """Do what was requested; repeating it, at once or later, changes nothing. What another worker does is left to it."""
    held_sync()
    with transaction.atomic():
        rows = MonthClose.objects.select_for_update(skip_locked=True)
        row = rows.filter(month=month.replace(day=1), state=CloseState.REQUESTED).first()
        if row is None:
            return MonthClose.objects.get(month=month.replace(day=1))
        moment = now or clock.now()
        try:
            with transaction.atomic():
                _close(row, moment)
        except Invalid as error:
            row = MonthClose.objects.get(pk=row.pk)
            row.state, row.refusal = CloseState.REFUSED, error.message[:1000]
            row.save()
        return row


def _close(row: MonthClose, now: datetime) -> None:
    month, steps = row.month, issuing.Steps()
    checks_require(month_checks(month=month, now=now), accepted=row.accepted)
    issuing.tables_make()
    closed = MonthClose.objects.filter(state=CloseState.CLOSED, month__lt=month)
    changed = issuing.changed_find(month=month, earlier=list(closed.values_list("month", flat=True)))
    steps.add("changed", sum(map(len, changed.values())))
    cells = sum(
        issuing.cells_write(month=each, projects=projects, now=now) for each, projects in changed.items()
    )
    steps.add("rated", cells)
    issuing.sql_run("close_invoiced", {"month": month})
    _estimate(month)
    steps.add("lines", issuing.sql_run("close_lines", {"month": month}))
    checks_require([_quarantined(month)], accepted=row.accepted)
    issuing.sql_run("close_analyze")
    issuing.sql_run("close_shares")
    issuing.sql_run("close_share_counts")
    steps.add("shares of lines", 0)
    made = _issue(month, now, row.requested_by, steps)
    issuing.sql_run("close_rated")
    documents_settle(invoices=made, now=now, by=row.requested_by)
    steps.add("grants and prepaid", len(made))
    row.state, row.closed_at, row.invoices, row.steps = CloseState.CLOSED, now, len(made), steps.done
    row.save()
    poke("billing.pdfs_due")
    audit_record(actor=SYSTEM, action="month.closed", target=row, after={"invoices": len(made)})


def _issue(month: date, now: datetime, by: str, steps: issuing.Steps) -> list[uuid.UUID]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT organization FROM close_line ORDER BY 1")
        organizations = [pk for (pk,) in cursor.fetchall()]
    issuing.parties_write(parties_of(organizations=organizations))
    series, number = issuing.numbers_take(kind=InvoiceKind.INVOICE, now=now, count=len(organizations))
    issuing.sql_run("close_invoices", {"month": month, "series": series, "next_number": number})
    made = issuing.documents_write(now=now, by=by, steps=steps)
    BillingAccount.objects.filter(organization__in=organizations, currency_fixed_at__isnull=True).update(
        currency_fixed_at=now
    )
    return made


def _estimate(month: date) -> None:
    rows = [(silent.site_id, day) for silent in silent_sites(month=month) for day in silent.days()]
    if rows:
        sites, days = zip(*rows, strict=True)
        parameters = {"sites": list(sites), "days": list(days), "observed": OBSERVED}
        issuing.sql_run("close_estimated", parameters)


def _quarantined(month: date) -> Check:
    """Only of the month itself: what an earlier close has accepted is not asked again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT p.slug FROM close_line l JOIN tenants_project p ON p.id = l.project "
            "WHERE l.charge_month = %s AND l.status = 'quarantined' ORDER BY 1",
            [month],
        )
        slugs = [slug for (slug,) in cursor.fetchall()]
        cursor.execute(
            "SELECT count(*) FROM close_line WHERE charge_month = %s AND status = 'quarantined'", [month]
        )
        ((lines,),) = cursor.fetchall()
    return quarantine_check(lines=lines, names=slugs)
