"""Closing a month: all organizations' invoices in one transaction, so that a kill at any point leaves all or nothing.

Usage that is reported, changed or priced after the close is on the next invoice as a correction of its own month:
earlier months that changed are rated again, and the difference to what was invoiced is posted.
"""

from datetime import date, datetime

from django.db import transaction
from django.db.models import QuerySet

from billing.close_progress import close_told
from billing.models import CloseProgress, MonthClose
from billing.selectors.checklist import checks_require, month_checks
from billing.services.closing_work import Tell, close_work
from billing.states import CloseState
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.events import OPERATORS_GROUP, publish
from gpuaas.core.queue import poke
from gpuaas.metering.imports import closes_share
from gpuaas.metering.services import held_sync, tokens_sync
from tenants.actors import SYSTEM, Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

UNTOLD = {"attempts": 0, "step": "", "done": 0, "organizations": 0, "began_at": None, "seen_at": None}


def month_close_request(
    *, actor: Actor, month: date, accept: str = "", now: datetime | None = None
) -> MonthClose:
    """Requests that workers close a month. `accept`: the reason for closing despite gaps or quarantine.

    Raises Invalid on `month` or `accept` with the obstacles, Conflict if it is closed. A repeated request starts one
    close.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    first, moment, accepted = month.replace(day=1), now or clock.now(), accept.strip()
    if len(accepted) > 500:
        raise Invalid.field("accept", "write at most 500 characters")
    with transaction.atomic():
        MonthClose.objects.bulk_create(
            [MonthClose(month=first, state=CloseState.REFUSED, requested_at=moment, requested_by=actor.name)],
            ignore_conflicts=True,
        )
        row = MonthClose.objects.select_for_update(skip_locked=True).filter(month=first).first()
        if row is None:  # a worker has it in its hands
            return MonthClose.objects.get(month=first)
        if row.state == CloseState.CLOSED:
            raise Conflict(f"{first:%B %Y} is already closed; correct it with credit and debit notes")
        if row.state == CloseState.REQUESTED:
            return row
        checks_require(month_checks(month=first, now=moment), accepted=accepted)
        row.state, row.requested_at, row.requested_by = CloseState.REQUESTED, moment, actor.name
        row.accepted, row.refusal = accepted, ""
        row.save()
        CloseProgress.objects.update_or_create(close=row, defaults=dict(UNTOLD))
        audit_record(actor=actor, action="month.close", target=row, after={"accepted": accepted})
        _said(row)
        poke("billing.month_close", f"{first:%Y-%m}")
    return row


def closes_due() -> QuerySet[MonthClose]:
    return MonthClose.objects.filter(state=CloseState.REQUESTED).order_by("month")


def month_close_run(*, month: date, now: datetime | None = None) -> MonthClose:
    """Executes a requested close; repeating it, at once or later, changes nothing. Does nothing while another worker
    has it.

    The lock on the month's row is the worker's claim: it ends with the connection, so another worker takes over if
    this one dies.
    """
    held_sync()
    tokens_sync()
    with transaction.atomic():
        rows = MonthClose.objects.select_for_update(skip_locked=True)
        row = rows.filter(month=month.replace(day=1), state=CloseState.REQUESTED).first()
        if row is None:
            return MonthClose.objects.get(month=month.replace(day=1))
        closes_share()
        moment = now or clock.now()
        try:
            with close_told(row.pk) as tell, transaction.atomic():
                _close(row, moment, tell)
        except Invalid as error:
            row = MonthClose.objects.get(pk=row.pk)
            row.state, row.refusal = CloseState.REFUSED, error.message[:1000]
            row.save()
        _said(row)
        return row


def _close(row: MonthClose, now: datetime, tell: Tell) -> None:
    work = close_work(row=row, now=now, tell=tell)
    made = len(work.documents)
    row.state, row.closed_at, row.invoices, row.steps = CloseState.CLOSED, now, made, work.steps.done
    row.save()
    poke("billing.pdfs_due")
    audit_record(actor=SYSTEM, action="month.closed", target=row, after={"invoices": made})


def _said(row: MonthClose) -> None:
    """Makes pages that show the month reload."""
    publish(kind="month_close", id=row.pk, groups=(OPERATORS_GROUP,))
