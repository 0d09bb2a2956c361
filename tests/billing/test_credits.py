"""A month below zero is a credit note by its kind; its credit pays what is open and what comes, or is paid out, once."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Sum

from billing.focus.charges import charges_of
from billing.focus.records import facts_of
from billing.models import Invoice, LedgerEntry, LedgerPosting
from billing.months import month_span
from billing.pdf import invoice_html
from billing.selectors.balances import balance_of, invoices_open, payouts_for
from billing.selectors.documents import invoice_rows, invoice_verify, settlement_of
from billing.services.notes import lines_left, note_issue
from billing.services.payments import grant_give, payment_record, payout_record, write_off
from billing.services.reversals import payment_reverse, payout_reverse
from billing.states import InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.core.ids import uuid7
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import AuditEntry, Organization, Project, User
from tests.billing.closed import month_close
from tests.billing.credited import (
    DECEMBER,
    JANUARY,
    NOVEMBER,
    OCTOBER,
    december_used,
    november_credited,
    tiered_make,
)
from tests.billing.stage import interval_make, utc
from tests.factories.billing import invoice_of
from tests.lasting import lasting

Use = Callable[[str, str], object]


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return tiered_make(project, h100, alice)


@pytest.fixture
def use(workspace: Workspace, h100: Flavor) -> Use:
    return lambda start, end: interval_make(workspace, h100, utc(start), utc(end))


def open_of(invoice: Invoice) -> int:
    return invoices_open(invoices=[invoice.pk]).get(invoice.pk, 0)


def document(month: date) -> Invoice:
    return Invoice.objects.get(month=month, corrects=None)


def balanced() -> None:
    sums = LedgerEntry.objects.annotate(sum=Sum("postings__amount_minor"))
    assert {row.sum for row in sums} <= {0}


def left(account: str) -> int:
    found = LedgerPosting.objects.filter(account=account).aggregate(sum=Sum("amount_minor"))["sum"]
    return -int(found or 0)


@pytest.fixture
def credited(workspace: Workspace, h100: Flavor, as_olga: Actor) -> Invoice:
    return november_credited(as_olga, workspace, h100)


def test_a_month_below_zero_is_a_credit_note_and_pays_the_next(
    credited: Invoice, use: Use, organization: Organization, as_olga: Actor, as_alice: Actor
) -> None:
    assert (credited.kind, credited.number, credited.corrects) == ("credit_note", "CN-2026-0001", None)
    assert (credited.total_minor, invoice_verify(invoice=credited)) == (-4650, True)
    found = balance_of(actor=as_alice, organization=organization, currency="EUR")
    assert (found.owed, found.credit, found.prepaid) == (Decimal("0.00"), Decimal("46.50"), Decimal("0.00"))
    use("2026-12-01 00:00:00", "2026-12-02 01:00:00")
    month_close(as_olga, DECEMBER)
    december = document(DECEMBER)
    assert (december.number, december.kind) == ("INV-2027-0001", "invoice")
    assert [open_of(each) for each in (document(OCTOBER), credited, december)] == [0, 0, 350]
    assert left("credit") == 0
    use_ = LedgerEntry.objects.get(kind="credit_use")
    assert (use_.invoice, use_.credit, use_.text) == (
        december,
        credited,
        "credit of CN-2026-0001 for INV-2027-0001",
    )
    balanced()


def test_a_credit_pays_what_was_open_before_the_oldest_first(
    use: Use, organization: Organization, as_olga: Actor
) -> None:
    """October stays unpaid: the credit of November pays it, not what comes."""
    use("2026-10-01 00:00:00", "2026-10-05 03:00:00")
    month_close(as_olga, OCTOBER)
    use("2026-10-10 00:00:00", "2026-10-10 02:00:00")
    month_close(as_olga, NOVEMBER)
    assert (open_of(document(OCTOBER)), open_of(document(NOVEMBER)), left("credit")) == (19_800 - 4650, 0, 0)
    use("2026-12-01 00:00:00", "2026-12-02 01:00:00")
    month_close(as_olga, DECEMBER)
    assert open_of(document(DECEMBER)) == 5000
    payment_record(actor=as_olga, organization=organization, amount="160")
    assert (open_of(document(OCTOBER)), open_of(document(DECEMBER))) == (0, 5000 - 850)
    balanced()


def test_a_credit_lasts_over_several_closes_and_what_it_no_longer_pays_returns_to_it(
    credited: Invoice, use: Use, organization: Organization, as_olga: Actor
) -> None:
    use("2026-12-01 00:00:00", "2026-12-01 10:00:00")
    month_close(as_olga, DECEMBER)
    assert (open_of(document(DECEMBER)), left("credit")) == (0, 2650)
    note = note_issue(
        actor=as_olga,
        invoice=document(DECEMBER),
        kind=InvoiceKind.CREDIT_NOTE,
        amounts={1: "4"},
        reason="down",
    )
    assert (note.number, left("credit"), left("prepaid")) == ("CN-2026-0002", 3050, 0)
    use("2027-01-01 00:00:00", "2027-01-01 20:00:00")
    month_close(as_olga, JANUARY)
    assert (open_of(document(JANUARY)), left("credit")) == (4000 - 3050, 0)
    used = LedgerPosting.objects.filter(account="credit", entry__kind="credit_use", entry__credit=credited)
    assert used.aggregate(sum=Sum("amount_minor")) == {"sum": 4650}
    balanced()


def test_the_month_of_a_credit_note_is_rated_on_as_any_other(
    credited: Invoice, use: Use, organization: Organization, as_olga: Actor
) -> None:
    """Its lines are usage: what comes later is the difference to them, and they can be corrected."""
    use("2026-10-11 00:00:00", "2026-10-11 01:00:00")
    use("2026-12-01 00:00:00", "2026-12-01 01:00:00")
    month_close(as_olga, DECEMBER)
    (october,) = document(DECEMBER).lines.filter(charge_month=OCTOBER)
    assert (october.unit_seconds, october.amount_minor) == (3600, 150)
    assert (document(DECEMBER).total_minor, open_of(document(DECEMBER)), left("credit")) == (350, 0, 4300)
    at = next(line.position for line in credited.lines.all() if (line.amount_minor or 0) > 0)
    assert lines_left(invoice=credited)[at] == 15_150
    given = {"invoice": credited, "amounts": {at: "10"}, "reason": "down"}
    note = note_issue(actor=as_olga, kind=InvoiceKind.CREDIT_NOTE, **given)  # type: ignore[arg-type]
    assert (note.corrects, open_of(credited), left("credit")) == (credited, 0, 5300)
    note_issue(actor=as_olga, kind=InvoiceKind.DEBIT_NOTE, **given)  # type: ignore[arg-type]
    assert (open_of(credited), left("credit")) == (0, 4300), "the debit is paid from the credit"
    with pytest.raises(Conflict):
        note_issue(actor=as_olga, kind=InvoiceKind.CREDIT_NOTE, **{**given, "invoice": note})  # type: ignore[arg-type]
    balanced()


def test_what_an_earlier_release_left_below_zero_is_used(
    project: Project, organization: Organization, as_olga: Actor
) -> None:
    """An invoice of -55.80, open since."""
    row = invoice_of(project, [-4650], tax_rate_bp=2000, tax=-930)
    payment_record(actor=as_olga, organization=organization, amount="1")
    assert (open_of(row), left("credit"), left("prepaid")) == (0, 5580, 100)
    assert LedgerEntry.objects.get(kind="credit").text == "credit of INV-2026-0001"
    balanced()


def test_a_credit_is_paid_out_and_a_payout_is_reversed_once(
    credited: Invoice, use: Use, organization: Organization, as_olga: Actor, as_alice: Actor
) -> None:
    payment_record(actor=as_olga, organization=organization, amount="10")
    for wrong in ("56.51", "0", "-1", "1.001", "a lot"):
        with pytest.raises(Invalid) as refused:
            payout_record(actor=as_olga, organization=organization, amount=wrong)
        assert set(refused.value.fields) == {"amount"}
    with pytest.raises(NotFound):
        payout_record(actor=as_alice, organization=organization, amount="1")
    payout_record(actor=as_olga, organization=organization, amount="50", note="bank, 5 Dec")
    credit, money = payouts_for(actor=as_alice, organization=organization).order_by("credit_id")
    assert (credit.text, credit.amount, credit.credit) == (
        "bank, 5 Dec: credit of CN-2026-0001",
        Decimal("46.50"),
        credited,
    )
    assert (money.text, money.amount, money.credit) == ("bank, 5 Dec", Decimal("3.50"), None)
    found = balance_of(actor=as_alice, organization=organization, currency="EUR")
    assert (found.credit, found.prepaid, found.payable) == (Decimal("0.00"), Decimal("6.50"), Decimal("6.50"))
    use("2026-12-01 00:00:00", "2026-12-02 01:00:00")
    month_close(as_olga, DECEMBER)
    assert open_of(document(DECEMBER)) == 5000 - 650, "what was paid out pays nothing"
    with pytest.raises(Invalid):
        payout_reverse(actor=as_olga, entry=credit, reason=" ")
    made = payout_reverse(actor=as_olga, entry=credit, reason="the bank sent it back")
    assert (made.kind, made.reverses_id, made.amount) == ("reversal", credit.pk, Decimal("46.50"))
    assert (open_of(document(DECEMBER)), left("credit")) == (0, 4650 - 4350)
    for wrong_entry, words in ((credit, "already"), (made, "only a payout")):
        with pytest.raises(Conflict, match=words):
            payout_reverse(actor=as_olga, entry=wrong_entry, reason="again")
    with pytest.raises(NotFound):
        payout_reverse(actor=as_alice, entry=money, reason="mine")
    actions = AuditEntry.objects.filter(action__startswith="payout").order_by("pk")
    assert [(row.action, row.after) for row in actions] == [
        ("payout.record", {"amount": "50.00", "note": "bank, 5 Dec"}),
        ("payout.reverse", {"reason": "the bank sent it back"}),
    ]
    balanced()


def test_neither_grants_nor_what_was_written_off_become_money(
    use: Use, organization: Organization, as_olga: Actor
) -> None:
    grant_give(actor=as_olga, organization=organization, amount="150", expires_at=utc("2030-01-01"))
    use("2026-10-01 00:00:00", "2026-10-05 03:00:00")
    month_close(as_olga, OCTOBER)
    write_off(actor=as_olga, invoice=document(OCTOBER), reason="insolvent")
    use("2026-10-10 00:00:00", "2026-10-10 02:00:00")
    month_close(as_olga, NOVEMBER)
    assert left("credit") == 4650
    with pytest.raises(Invalid, match=r"0\.00 EUR can be paid out"):
        payout_record(actor=as_olga, organization=organization, amount="0.01")
    payment_record(actor=as_olga, organization=organization, amount="5")
    with pytest.raises(Invalid, match=r"5\.00 EUR can be paid out"):
        payout_record(actor=as_olga, organization=organization, amount="5.01")
    payout_record(actor=as_olga, organization=organization, amount="5")
    balanced()


def test_a_payment_that_was_paid_out_is_not_reversed(
    workspace: Workspace, organization: Organization, as_olga: Actor
) -> None:
    payment_record(actor=as_olga, organization=organization, amount="10")
    payment = LedgerEntry.objects.get(kind="prepaid")
    payout_record(actor=as_olga, organization=organization, amount="4")
    with pytest.raises(Conflict, match=r"4\.00 EUR of this payment has been paid out"):
        payment_reverse(actor=as_olga, entry=payment, reason="another customer's")
    payout_reverse(actor=as_olga, entry=LedgerEntry.objects.get(kind="payout"), reason="it came back")
    payment_reverse(actor=as_olga, entry=payment, reason="another customer's")
    assert (left("prepaid"), left("cash")) == (0, 0)
    balanced()


def test_what_a_reversed_payment_had_paid_is_paid_by_a_credit_that_is_left(
    credited: Invoice, organization: Organization, as_olga: Actor
) -> None:
    payment_reverse(actor=as_olga, entry=LedgerEntry.objects.get(kind="prepaid"), reason="bounced")
    assert (open_of(document(OCTOBER)), left("credit")) == (19_800 - 4650, 0)
    balanced()


def test_money_that_a_credit_note_gives_back_pays_what_is_open(
    use: Use, organization: Organization, as_olga: Actor
) -> None:
    use("2026-10-01 00:00:00", "2026-10-01 10:00:00")
    month_close(as_olga, OCTOBER)
    payment_record(actor=as_olga, organization=organization, amount="20")
    use("2026-11-01 00:00:00", "2026-11-01 10:00:00")
    month_close(as_olga, NOVEMBER)
    note_issue(
        actor=as_olga,
        invoice=document(OCTOBER),
        kind=InvoiceKind.CREDIT_NOTE,
        amounts={1: "5"},
        reason="down",
    )
    assert (open_of(document(OCTOBER)), open_of(document(NOVEMBER)), left("prepaid")) == (0, 1500, 0)
    balanced()


def test_what_a_credit_pays_is_said_where_the_documents_are(
    credited: Invoice, workspace: Workspace, h100: Flavor, organization: Organization, as_olga: Actor
) -> None:
    payout_record(actor=as_olga, organization=organization, amount="6.50")
    december = december_used(as_olga, workspace, h100)
    settled = settlement_of(actor=as_olga, invoice=credited)
    (credit,) = settled.credits
    assert (credit.number, credit.given, credit.paid_out) == (
        "CN-2026-0001",
        Decimal("46.50"),
        Decimal("6.50"),
    )
    assert (credit.pays, credit.left) == ({december.number: Decimal("40.00")}, Decimal("0.00"))
    assert (settled.open, settled.paid_by) == (Decimal("0.00"), {})
    settled = settlement_of(actor=as_olga, invoice=december)
    assert (settled.open, settled.credits, settled.paid_by) == (
        Decimal("10.00"),
        (),
        {"CN-2026-0001": Decimal("40.00")},
    )


def test_files_of_a_month_below_zero_say_the_same(
    credited: Invoice, organization: Organization, as_olga: Actor
) -> None:
    """CSV, PDF and FOCUS: its lines are usage of its month, under its number as a credit note."""
    header, *rows = invoice_rows(invoice=credited)
    cells = [dict(zip(header, row, strict=True)) for row in rows]
    assert {(row["invoice"], row["kind"]) for row in cells} == {("CN-2026-0001", "credit_note")}
    assert sum(Decimal(str(row["amount"])) for row in cells) == Decimal("-46.50")
    page = invoice_html(invoice=credited)
    assert all(words in page for words in ("Credit note CN-2026-0001", "The total is a credit", "−46.50 EUR"))
    assert "<dt>Due</dt>" not in page
    facts = [facts_of(row) for row in charges_of(actor=as_olga, month=NOVEMBER, organization=organization)]
    assert {(row.charge.number, row.category, row.correction) for row in facts} == {
        ("CN-2026-0001", "Usage", True)
    }
    assert {row.billing for row in facts} == {(month_span(NOVEMBER).starts_at, month_span(NOVEMBER).ends_at)}
    assert sum(row.billed for row in facts) == Decimal("-46.50")


def test_a_credit_note_of_a_month_is_as_one_of_the_database(credited: Invoice) -> None:
    """Only what is below zero is a credit note without a document that it corrects."""
    for kind, subtotal in (("credit_note", 1), ("debit_note", 1)):
        row = Invoice(
            pk=uuid7(), kind=kind, number="CN-2026-0009", subtotal_minor=subtotal, total_minor=subtotal
        )
        row.tax_minor = row.tax_rate_bp = row.line_count = 0
        row.organization_id, row.month, row.currency = credited.organization_id, JANUARY, "EUR"
        row.due_on, row.closed_at, row.closed_by = JANUARY, credited.closed_at, "olga"
        with pytest.raises(IntegrityError, match="invoice_note_corrects"), transaction.atomic():
            row.save(force_insert=True)
