"""Credits under many hands, on real connections: never used or paid out twice, never left beside what is open."""

from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from django.db.models import Sum

from billing.models import BillingAccount, Invoice, LedgerEntry, LedgerPosting, MonthClose
from billing.months import month_span
from billing.selectors.balances import invoices_open
from billing.services.closing import month_close_request, month_close_run
from billing.services.notes import note_issue
from billing.services.payments import payment_record, payout_record
from billing.services.reversals import payout_reverse
from billing.states import CloseState, InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.closed import meters_prove, month_close
from tests.billing.credited import DECEMBER, NOVEMBER, OCTOBER, tiered_make
from tests.billing.stage import interval_make, utc
from tests.billing.test_closing_at_once import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return tiered_make(project, h100, alice)


@pytest.fixture
def paid(workspace: Workspace, h100: Flavor, organization: Organization, as_olga: Actor) -> None:
    """October is paid, and then of 2 h more."""
    interval_make(workspace, h100, utc("2026-10-01 00:00:00"), utc("2026-10-05 03:00:00"))
    month_close(as_olga, OCTOBER)
    payment_record(actor=as_olga, organization=organization, amount="198")
    interval_make(workspace, h100, utc("2026-10-10 00:00:00"), utc("2026-10-10 02:00:00"))


def asked(actor: Actor, month: date) -> Callable[[], Any]:
    """Requested; returns a worker's run."""
    end = month_span(month).ends_at
    meters_prove(end)
    month_close_request(actor=actor, month=month, now=end + timedelta(days=3))
    return lambda: month_close_run(month=month, now=end + timedelta(days=3))


def accounts() -> dict[str, int]:
    rows = LedgerPosting.objects.order_by().values_list("account").annotate(sum=Sum("amount_minor"))
    return {account: total for account, total in rows if total}


def test_two_workers_at_one_close_give_a_credit_once_and_use_it_once(
    paid: None, workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    at_once([asked(as_olga, NOVEMBER)] * 4)
    assert list(Invoice.objects.filter(month=NOVEMBER).values_list("number", "total_minor")) == [
        ("CN-2026-0001", -4650)
    ]
    assert accounts()["credit"] == -4650
    interval_make(workspace, h100, utc("2026-12-01 00:00:00"), utc("2026-12-02 01:00:00"))
    at_once([asked(as_olga, DECEMBER)] * 4)
    assert "credit" not in accounts()
    december = Invoice.objects.get(month=DECEMBER)
    assert invoices_open(invoices=[december.pk]) == {december.pk: 350}


def test_two_months_are_closed_at_once_with_a_credit_between_them(
    paid: None, workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    """The later one is refused or comes after: the same credit, used once."""
    interval_make(workspace, h100, utc("2026-12-01 00:00:00"), utc("2026-12-02 01:00:00"))
    november = asked(as_olga, NOVEMBER)
    after = month_span(DECEMBER).ends_at + timedelta(days=3)
    meters_prove(month_span(DECEMBER).ends_at)
    MonthClose.objects.create(
        month=DECEMBER, state=CloseState.REQUESTED, requested_at=after, requested_by="olga"
    )
    at_once([november, lambda: month_close_run(month=DECEMBER, now=after)])
    if MonthClose.objects.get(month=DECEMBER).state != CloseState.CLOSED:
        month_close(as_olga, DECEMBER)
    found = accounts()
    assert (found["receivable"], found["cash"]) == (350, 19_800)
    assert "credit" not in found
    assert "prepaid" not in found


@pytest.mark.parametrize("hours", [2, 1])
def test_a_payment_in_the_moment_of_a_close_pays_it(
    workspace: Workspace, h100: Flavor, organization: Organization, as_olga: Actor, hours: int
) -> None:
    """Of an organization without an account: there was no row that both could lock."""
    assert not BillingAccount.objects.exists()
    interval_make(workspace, h100, utc("2026-10-01 00:00:00"), utc(f"2026-10-01 0{hours}:00:00"))
    close = asked(as_olga, OCTOBER)
    at_once([close, lambda: payment_record(actor=as_olga, organization=organization, amount="2")])
    found = accounts()
    assert (found.get("receivable", 0), found.get("prepaid", 0)) == (200 * hours - 200, 0)
    assert BillingAccount.objects.get().currency_fixed_at is not None


TAKEN_BACK = "0.00 EUR are left of this line; a credit cannot be higher"


def note(actor: Actor, invoice: Invoice, kind: InvoiceKind) -> str:
    """Refused where a close came first: its credit note has taken the line back, and bills it anew."""
    try:
        note_issue(
            actor=actor,
            invoice=Invoice.objects.get(pk=invoice.pk),
            kind=kind,
            amounts={1: "1"},
            reason="at once",
        )
    except Invalid as refused:
        return str(refused.fields["lines.1"][0])
    return "issued"


def test_what_a_close_has_taken_back_cannot_be_credited_again(
    paid: None, workspace: Workspace, as_olga: Actor
) -> None:
    october = Invoice.objects.get()
    assert note(as_olga, october, InvoiceKind.CREDIT_NOTE) == "issued"
    month_close(as_olga, NOVEMBER)
    assert note(as_olga, october, InvoiceKind.DEBIT_NOTE) == "issued"
    assert note(as_olga, october, InvoiceKind.CREDIT_NOTE) == TAKEN_BACK


def test_a_close_that_gives_credits_a_payment_and_notes_do_not_wait_for_each_other(
    paid: None, workspace: Workspace, h100: Flavor, organization: Organization, as_olga: Actor
) -> None:
    october = Invoice.objects.get()
    close = asked(as_olga, NOVEMBER)
    kinds = [InvoiceKind.CREDIT_NOTE] * 3 + [InvoiceKind.DEBIT_NOTE] * 2
    works: list[Callable[[], Any]] = [
        close,
        *(lambda kind=kind: note(as_olga, october, kind) for kind in kinds),
    ]
    done = at_once([*works, lambda: payment_record(actor=as_olga, organization=organization, amount="3")])
    assert set(done[1:4]) <= {"issued", TAKEN_BACK}
    credited = done[1:4].count("issued")
    assert done[4:6] == ["issued"] * 2
    numbers = sorted(Invoice.objects.exclude(pk=october.pk).values_list("number", flat=True))
    assert numbers == [f"CN-2026-000{n}" for n in range(1, credited + 2)] + ["DN-2026-0001", "DN-2026-0002"]
    found = accounts()
    assert found.get("receivable", 0) == 0
    # 46.50 of the month, 3.00 of the payment, and what was credited less 2.00 that were debited
    assert found.get("credit", 0) + found.get("prepaid", 0) == -(4650 + 300 + 100 * (credited - 2))


def test_payouts_at_once_pay_a_credit_out_once(
    paid: None, workspace: Workspace, h100: Flavor, organization: Organization, as_olga: Actor
) -> None:
    month_close(as_olga, NOVEMBER)

    def payout() -> str:
        try:
            payout_record(actor=as_olga, organization=organization, amount="20")
        except Invalid:
            return "refused"
        return "paid out"

    assert Counter(at_once([payout] * 5)) == {"paid out": 2, "refused": 3}
    assert accounts()["credit"] == -650
    entry = LedgerEntry.objects.filter(kind="payout").earliest("pk")

    def back() -> str:
        try:
            payout_reverse(actor=as_olga, entry=entry, reason="it came back")
        except Conflict:
            return "refused"
        return "reversed"

    assert Counter(at_once([back] * 4)) == {"reversed": 1, "refused": 3}
    assert (accounts()["credit"], accounts()["cash"]) == (-2650, 19_800 - 2000)


def test_a_payout_in_the_moment_of_a_close_takes_what_the_close_does_not_use(
    paid: None, workspace: Workspace, h100: Flavor, organization: Organization, as_olga: Actor
) -> None:
    month_close(as_olga, NOVEMBER)
    interval_make(workspace, h100, utc("2026-12-01 00:00:00"), utc("2026-12-02 01:00:00"))

    def payout() -> bool:
        try:
            payout_record(actor=as_olga, organization=organization, amount="46.50")
        except Invalid:
            return False
        return True

    out, _ = at_once([payout, asked(as_olga, DECEMBER)])
    december = Invoice.objects.get(month=DECEMBER)
    assert invoices_open(invoices=[december.pk]) == {december.pk: 5000 if out else 350}
    assert "credit" not in accounts()
