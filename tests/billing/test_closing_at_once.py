"""Many at once and deaths in the middle, on real connections: one set of invoices, nothing lost, no number twice, no credit twice."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.db.models import Sum

from billing.models import (
    Grant,
    Invoice,
    InvoiceLine,
    InvoiceSeries,
    InvoiceShare,
    LedgerEntry,
    LedgerPosting,
    MonthClose,
)
from billing.months import month_span
from billing.services import AccountTerms, account_update, closing, rate_set
from billing.services.notes import note_issue
from billing.services.payments import grant_give, payment_record
from billing.services.settling import grant_take
from billing.states import Account, CloseState, InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.closed import meters_prove, month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.lab.fixtures import until
from tests.workspaces.machines.test_races import waiting

pytestmark = pytest.mark.django_db(transaction=True)
OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)
END = month_span(OCTOBER).ends_at
AFTER = END + timedelta(days=3)


@pytest.fixture
def workspace(project: Project, h100: Flavor, alice: User, as_olga: Actor) -> Workspace:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    return workspace_make(project, h100, alice)


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """Each in a thread and on a connection of its own, all let go at the same moment."""
    gate = threading.Barrier(len(works))

    def one(work: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            gate.wait()
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(one, works))


def run_due() -> None:
    for due in closing.closes_due():
        closing.month_close_run(month=due.month, now=AFTER)


def test_two_operators_four_workers_and_a_meter_in_the_middle(
    workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    meters_prove(END)
    reported = 40

    def work() -> None:
        for _ in range(40):
            run_due()

    def report() -> None:
        for number in range(reported):
            start = utc("2026-10-03 00:00:00") + timedelta(minutes=number)
            interval_make(workspace, h100, start, start + timedelta(minutes=1))

    def ask() -> None:
        try:
            closing.month_close_request(actor=as_olga, month=OCTOBER, now=AFTER)
        except Conflict as error:
            assert "already closed" in error.message  # noqa: PT017  the other operator was first

    at_once([ask, ask, work, work, work, work, report])
    run_due()
    assert MonthClose.objects.get().state == CloseState.CLOSED
    invoice = Invoice.objects.get()
    assert invoice.number == "INV-2026-0001"
    month_close(as_olga, NOVEMBER)
    charged = InvoiceLine.objects.filter(charge_month=OCTOBER).aggregate(
        seconds=Sum("unit_seconds"), amount=Sum("amount_minor")
    )
    assert charged == {"seconds": 3600 + reported * 60, "amount": 240 + reported * 4}
    shares = InvoiceShare.objects.aggregate(seconds=Sum("unit_seconds"), amount=Sum("amount_minor"))
    assert shares == charged
    assert Counter(Invoice.objects.values_list("number", flat=True)).most_common(1)[0][1] == 1


def test_a_currency_that_changes_between_rating_and_writing_is_on_no_invoice(
    workspace: Workspace, h100: Flavor, organization: Organization, as_olga: Actor
) -> None:
    """48.00 EUR would be an invoice of 4,800 JPY."""
    interval_make(workspace, h100, utc("2026-10-02 00:00:00"), utc("2026-10-02 20:00:00"))
    InvoiceSeries.objects.create(name="INV-2026")
    account_update(actor=as_olga, organization=organization, terms=AccountTerms("EUR"))
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            InvoiceSeries.objects.select_for_update().get()
            closed = pool.submit(closing_alone, lambda: month_close(as_olga, OCTOBER))
            until(waiting, "the close has rated and waits for its numbers")
            with ThreadPoolExecutor(1) as other:
                terms = AccountTerms("JPY")
                change = partial(account_update, actor=as_olga, organization=organization, terms=terms)
                other.submit(closing_alone, change).result()
        assert (closed.result().state, Invoice.objects.count()) == (CloseState.REFUSED, 0)
    assert "the currency of climate was changed" in closed.result().refusal
    account_update(actor=as_olga, organization=organization, terms=AccountTerms("EUR"))
    month_close(as_olga, OCTOBER)
    assert Invoice.objects.values_list("currency", "total_minor").get() == ("EUR", 4800)


def closing_alone(work: Callable[[], Any]) -> Any:
    """On a connection of its own, which is closed afterwards."""
    try:
        return work()
    finally:
        connection.close()


def nothing_was_written(entries: int) -> None:
    assert MonthClose.objects.get().state == CloseState.REQUESTED
    assert not Invoice.objects.exists()
    assert not InvoiceSeries.objects.exists()
    assert LedgerEntry.objects.count() == entries
    assert Grant.objects.get().used_minor == 0


def test_a_worker_that_dies_between_any_two_steps_leaves_nothing(
    workspace: Workspace,
    h100: Flavor,
    as_olga: Actor,
    organization: Organization,
) -> None:
    """Its connection is cut before each statement in turn; the one after it does all of it, once."""
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    grant_give(actor=as_olga, organization=organization, amount="1", expires_at=utc("2030-01-01"))
    meters_prove(END)
    closing.month_close_request(actor=as_olga, month=OCTOBER, now=AFTER)
    before = LedgerEntry.objects.count()
    left, deaths = 0, 0

    def deadly(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            with suppress(psycopg.OperationalError):
                connection.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return execute(sql, params, many, context)

    while True:
        left = deaths + 1
        try:
            with connection.execute_wrapper(deadly):
                closing.month_close_run(month=OCTOBER, now=AFTER)
        except OperationalError:
            connection.close()
            deaths += 1
            nothing_was_written(before)
        else:
            break
    assert deaths >= 40
    invoice = Invoice.objects.get()
    assert (invoice.number, invoice.total_minor) == ("INV-2026-0001", 240)
    assert Grant.objects.get().used_minor == 100


def test_a_grant_is_never_used_twice(organization: Organization, as_olga: Actor) -> None:
    grant = grant_give(actor=as_olga, organization=organization, amount="1", expires_at=utc("2030-01-01"))

    def take() -> str:
        try:
            grant_take(grant=Grant.objects.get(pk=grant.pk), amount=30)
        except Conflict:
            return "refused"
        return "taken"

    assert Counter(at_once([take] * 8)) == {"taken": 3, "refused": 5}
    grant.refresh_from_db()
    assert grant.used_minor == 90


def test_money_and_lines_are_never_used_twice(
    workspace: Workspace, h100: Flavor, organization: Organization, as_olga: Actor
) -> None:
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 20:00:00"))
    month_close(as_olga, OCTOBER)
    invoice = Invoice.objects.get()
    credit, debit = InvoiceKind.CREDIT_NOTE, InvoiceKind.DEBIT_NOTE

    def note(kind: InvoiceKind, amount: str) -> Callable[[], str]:
        def work() -> str:
            mine = Invoice.objects.get(pk=invoice.pk)
            try:
                note_issue(actor=as_olga, invoice=mine, kind=kind, amounts={1: amount}, reason="at once")
            except Invalid:
                return "refused"
            return "written"

        return work

    # 24.00 are on the line: two credits of 10.00 fit, whatever the order
    assert Counter(at_once([note(credit, "10")] * 5)) == {"written": 2, "refused": 3}
    payment_record(actor=as_olga, organization=organization, amount="9")
    assert Counter(at_once([note(debit, "3")] * 4)) == {"written": 4}
    numbers = sorted(Invoice.objects.values_list("number", flat=True))
    assert numbers == [
        *("CN-2026-0001", "CN-2026-0002", "DN-2026-0001", "DN-2026-0002", "DN-2026-0003", "DN-2026-0004"),
        "INV-2026-0001",
    ]
    prepaid = LedgerPosting.objects.filter(account=Account.PREPAID).aggregate(s=Sum("amount_minor"))["s"]
    owed = LedgerPosting.objects.filter(account=Account.RECEIVABLE).aggregate(s=Sum("amount_minor"))["s"]
    assert (prepaid, owed) == (0, 2400 - 2000 + 4 * 300 - 900)
