"""Notes, grants, money and the ledger: nothing is used twice, refusals stand beside their field."""

from datetime import date
from decimal import Decimal

import pytest
import time_machine
from django.db.models import Sum

from billing.models import BillingAccount, Grant, Invoice, LedgerEntry, LedgerPosting
from billing.selectors.balances import balance_of, entries_for, grants_for, invoices_open
from billing.selectors.documents import settlement_of
from billing.services import rate_set
from billing.services.notes import lines_left, note_issue
from billing.services.payments import grant_give, grants_expire, payment_record, write_off
from billing.services.reversals import grant_reverse, payment_reverse, write_off_reverse
from billing.states import Account, InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import AuditEntry, Organization, Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make

OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)
CREDIT, DEBIT = InvoiceKind.CREDIT_NOTE, InvoiceKind.DEBIT_NOTE
LATER = utc("2030-01-01")


@pytest.fixture
def used(
    project: Project, organization: Organization, h100: Flavor, l40s: Flavor, alice: User, as_olga: Actor
) -> None:
    """100 h of H100 at 2.40 and 100 h of L40S at 0.90 in October: 330.00, with 19% tax 392.70."""
    BillingAccount.objects.create(
        organization=organization, currency="EUR", tax_rate_bp=1900, tax_label="VAT"
    )
    for flavor, price in ((h100, "2.40"), (l40s, "0.90")):
        rate_set(
            actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price=price, valid_from=utc("2026-01-01")
        )
        row = workspace_make(project, flavor, alice, name=f"train-{flavor.slug.partition('.')[0]}")
        interval_make(row, flavor, utc("2026-10-02 00:00:00"), utc("2026-10-06 04:00:00"))


@pytest.fixture
def invoice(used: None, as_olga: Actor) -> Invoice:
    month_close(as_olga, OCTOBER)
    return Invoice.objects.get()


def open_of(invoice: Invoice) -> int:
    return invoices_open(invoices=[invoice.pk]).get(invoice.pk, 0)


def balanced() -> None:
    sums = LedgerEntry.objects.annotate(sum=Sum("postings__amount_minor"))
    assert {row.sum for row in sums} <= {0}


def test_a_credit_note_points_at_its_line_and_mirrors_its_tax(invoice: Invoice, as_olga: Actor) -> None:
    note = note_issue(
        actor=as_olga, invoice=invoice, kind=CREDIT, amounts={1: "86.40"}, reason="ber-1 was down"
    )
    assert (note.number, note.corrects, note.month) == ("CN-2026-0001", invoice, OCTOBER)
    assert (note.subtotal_minor, note.tax_minor, note.total_minor) == (-8640, -1642, -10_282)
    line = note.lines.get()
    assert (line.corrects, line.unit_seconds, line.amount_minor) == (invoice.lines.get(position=1), 0, -8640)
    assert lines_left(invoice=invoice) == {1: 24_000 - 8640, 2: 9000}
    assert open_of(invoice) == invoice.total_minor - 10_282
    balanced()


def test_a_credit_above_what_is_left_is_refused_beside_its_line(invoice: Invoice, as_olga: Actor) -> None:
    note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={1: "200"}, reason="down")
    with pytest.raises(Invalid) as refused:
        note_issue(
            actor=as_olga, invoice=invoice, kind=CREDIT, amounts={1: "40.01", 2: "90", 9: "1"}, reason="down"
        )
    assert refused.value.fields == {
        "lines.1": ["40.00 EUR are left of this line; a credit cannot be higher"],
        "lines.9": ["INV-2026-0001 has no line 9"],
    }
    assert Invoice.objects.count() == 2
    # refused documents take no number
    note = note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={1: "40", 2: "90"}, reason="down")
    assert note.number == "CN-2026-0002"
    assert (open_of(invoice), invoice.subtotal_minor) == (0, 33_000)
    debit = note_issue(
        actor=as_olga, invoice=invoice, kind=DEBIT, amounts={2: "17.40"}, reason="metered late"
    )
    assert (debit.number, debit.total_minor, open_of(invoice)) == ("DN-2026-0001", 2071, 2071)


@pytest.mark.parametrize("amount", ["0", "-1", "1.001", "NaN", "a lot", "1e30"])
def test_bad_amounts_of_a_note(invoice: Invoice, as_olga: Actor, amount: str) -> None:
    with pytest.raises(Invalid) as refused:
        note_issue(actor=as_olga, invoice=invoice, kind=DEBIT, amounts={1: amount}, reason="x")
    assert set(refused.value.fields) == {"lines.1"}


def test_notes_are_for_invoices_and_have_a_reason(invoice: Invoice, as_olga: Actor, as_alice: Actor) -> None:
    note = note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={1: "1"}, reason="x")
    with pytest.raises(Conflict):
        note_issue(actor=as_olga, invoice=note, kind=CREDIT, amounts={1: "1"}, reason="x")
    with pytest.raises(Invalid) as refused:
        note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={1: "1"}, reason=" ")
    assert set(refused.value.fields) == {"reason"}
    with pytest.raises(Invalid):
        note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={}, reason="x")
    with pytest.raises(NotFound):
        note_issue(actor=as_alice, invoice=invoice, kind=CREDIT, amounts={1: "1"}, reason="x")


def test_grants_pay_at_the_close_those_that_expire_first_and_only_what_they_may(
    used: None, organization: Organization, as_olga: Actor, as_alice: Actor
) -> None:
    with time_machine.travel(utc("2026-09-01"), tick=False):
        late = grant_give(actor=as_olga, organization=organization, amount="500", expires_at=LATER)
        soon = grant_give(
            actor=as_olga,
            organization=organization,
            amount="300",
            expires_at=utc("2026-12-31"),
            gpu_types=["l40s-48gb"],
            note="inference pilot",
        )
        grant_give(actor=as_olga, organization=organization, amount="9", expires_at=utc("2026-09-02"))
    month_close(as_olga, OCTOBER)
    invoice = Invoice.objects.get()
    late.refresh_from_db()
    soon.refresh_from_db()
    # the L40S part with its tax: 90.00 + 17.10; the rest from the other; the third has expired
    assert (soon.used_minor, late.used_minor, invoice.total_minor) == (10_710, 39_270 - 10_710, 39_270)
    assert open_of(invoice) == 0
    now = utc("2026-11-05")
    assert balance_of(actor=as_alice, organization=organization, currency="EUR", now=now).granted == Decimal(
        "407.30"
    )
    assert grants_expire(now=utc("2027-01-01")) == 2
    assert grants_expire(now=utc("2027-01-01")) == 0
    soon.refresh_from_db()
    assert (soon.expired_minor, soon.left_minor) == (30_000 - 10_710, 0)
    assert (
        -(LedgerPosting.objects.filter(account=Account.GRANTS).aggregate(s=Sum("amount_minor"))["s"])
        == late.left_minor
    )
    balanced()


def test_money_pays_open_invoices_and_those_to_come(
    used: None, invoice: Invoice, organization: Organization, as_olga: Actor, as_alice: Actor
) -> None:
    payment_record(actor=as_olga, organization=organization, amount="400.00", note="bank, 5 Nov")
    assert open_of(invoice) == 0
    found = balance_of(actor=as_alice, organization=organization, currency="EUR")
    assert (found.owed, found.prepaid) == (Decimal("0.00"), Decimal("7.30"))
    # what was paid and is credited then is money again
    note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={2: "90"}, reason="down")
    found = balance_of(actor=as_alice, organization=organization, currency="EUR")
    assert (found.owed, found.prepaid) == (Decimal("0.00"), Decimal("114.40"))
    balanced()


def test_money_in_advance_pays_at_the_close(
    used: None, organization: Organization, as_olga: Actor, as_alice: Actor
) -> None:
    payment_record(actor=as_olga, organization=organization, amount="100")
    month_close(as_olga, OCTOBER)
    assert open_of(Invoice.objects.get()) == 39_270 - 10_000


def test_a_payment_is_taken_back_once_and_what_it_paid_is_open_again(
    used: None, invoice: Invoice, organization: Organization, as_olga: Actor, as_alice: Actor
) -> None:
    payment_record(actor=as_olga, organization=organization, amount="400.00", note="bank, 5 Nov")
    payment_record(actor=as_olga, organization=organization, amount="2.70")
    entry = LedgerEntry.objects.get(text="bank, 5 Nov")
    before = LedgerEntry.objects.count()
    with pytest.raises(Invalid) as refused:
        payment_reverse(actor=as_olga, entry=entry, reason=" ")
    assert set(refused.value.fields) == {"reason"}
    made = payment_reverse(actor=as_olga, entry=entry, reason="another customer's")
    assert (made.kind, made.reverses_id, made.amount) == ("reversal", entry.pk, Decimal("400.00"))
    assert LedgerEntry.objects.count() == before + 2, "one that frees the invoice, one that takes the money"
    found = balance_of(actor=as_alice, organization=organization, currency="EUR")
    assert (found.owed, found.prepaid) == (Decimal("390.00"), Decimal("0.00"))
    assert open_of(invoice) == 39_000
    balanced()
    for wrong, words in ((entry, "already"), (made, "only a received payment")):
        with pytest.raises(Conflict, match=words):
            payment_reverse(actor=as_olga, entry=wrong, reason="again")
    with pytest.raises((NotFound, Forbidden)):
        payment_reverse(actor=as_alice, entry=entry, reason="mine")
    payment_record(actor=as_olga, organization=organization, amount="390.00")
    assert open_of(invoice) == 0
    balanced()


def test_a_grant_is_taken_back_once_and_what_it_paid_is_owed_again(
    used: None, organization: Organization, as_olga: Actor, as_alice: Actor
) -> None:
    """500.00 paid 392.70 and got 11.90 of them back; 100.00 of money are there."""
    given = grant_give(actor=as_olga, organization=organization, amount="500", expires_at=LATER, note="pilot")
    month_close(as_olga, OCTOBER)
    invoice = Invoice.objects.get()
    note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={1: "10"}, reason="agreed")
    payment_record(actor=as_olga, organization=organization, amount="100")
    entry = LedgerEntry.objects.get(kind="grant")
    with pytest.raises(Invalid) as refused:
        grant_reverse(actor=as_olga, entry=entry, reason=" ")
    assert set(refused.value.fields) == {"reason"}
    with pytest.raises((NotFound, Forbidden)):
        grant_reverse(actor=as_alice, entry=entry, reason="mine")
    made = grant_reverse(actor=as_olga, entry=entry, reason="another customer's")
    assert (made.kind, made.reverses_id, made.amount) == ("reversal", entry.pk, Decimal("500.00"))
    assert open_of(invoice) == 39_270 - 1190 - 10_000
    balanced()
    found = balance_of(actor=as_alice, organization=organization, currency="EUR")
    assert (found.owed, found.prepaid, found.granted) == (Decimal("280.80"), Decimal(0), Decimal(0))
    given.refresh_from_db()
    assert (given.used_minor, given.left_minor) == (0, 0)
    (listed,) = grants_for(actor=as_alice, organization=organization)
    assert listed.reversed_at == made.at  # type: ignore[attr-defined]
    kept = AuditEntry.objects.get(action="grant.reverse")
    assert (kept.before, kept.after) == (
        {"amount": "500.00", "used": "380.80"},
        {"reason": "another customer's"},
    )
    for wrong, words in ((entry, "already"), (made, "only a grant")):
        with pytest.raises(Conflict, match=words):
            grant_reverse(actor=as_olga, entry=wrong, reason="again")
    # nothing goes back to it, or expires of it, a second time
    note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={1: "200"}, reason="agreed")
    assert grants_expire(now=utc("2031-01-01")) == 0
    assert open_of(invoice) == 28_080 - 23_800
    balanced()


def test_of_an_expired_grant_only_what_it_paid_is_taken_back(
    used: None, organization: Organization, as_olga: Actor
) -> None:
    for amount, note in (("500", "used"), ("7", "idle")):
        grant_give(actor=as_olga, organization=organization, amount=amount, expires_at=LATER, note=note)
    month_close(as_olga, OCTOBER)
    assert grants_expire(now=utc("2031-01-01")) == 2
    used_, idle = (LedgerEntry.objects.get(kind="grant", text=text) for text in ("used", "idle"))
    before = LedgerEntry.objects.count()
    with pytest.raises(Conflict, match="expired before it paid"):
        grant_reverse(actor=as_olga, entry=idle, reason="wrong")
    assert LedgerEntry.objects.count() == before
    made = grant_reverse(actor=as_olga, entry=used_, reason="wrong")
    assert (made.amount, open_of(Invoice.objects.get())) == (Decimal("392.70"), 39_270)
    balanced()


def test_writing_off(invoice: Invoice, as_olga: Actor) -> None:
    with pytest.raises(Invalid) as refused:
        write_off(actor=as_olga, invoice=invoice, amount="392.71", reason="insolvent")
    assert set(refused.value.fields) == {"amount"}
    write_off(actor=as_olga, invoice=invoice, amount="92.70", reason="goodwill")
    assert open_of(invoice) == 30_000
    write_off(actor=as_olga, invoice=invoice, reason="insolvent")
    assert open_of(invoice) == 0
    with pytest.raises(Invalid):
        write_off(actor=as_olga, invoice=invoice, reason="again")
    balanced()


def test_a_write_off_is_taken_back_once_and_is_owed_again(
    invoice: Invoice, organization: Organization, as_olga: Actor, as_alice: Actor
) -> None:
    write_off(actor=as_olga, invoice=invoice, amount="92.70", reason="insolvent")
    write_off(actor=as_olga, invoice=invoice, reason="insolvent")
    part = LedgerEntry.objects.filter(kind="write_off").earliest("pk")
    with pytest.raises(Invalid) as refused:
        write_off_reverse(actor=as_olga, entry=part, reason=" ")
    assert set(refused.value.fields) == {"reason"}
    made = write_off_reverse(actor=as_olga, entry=part, reason="they pay")
    assert (made.kind, made.reverses_id, made.amount) == ("reversal", part.pk, Decimal("92.70"))
    assert open_of(invoice) == 9270
    balanced()
    kept = AuditEntry.objects.get(action="invoice.write_off_reverse")
    assert kept.before == {"write_off": str(part.pk), "amount": "92.70"}
    assert kept.after == {"reason": "they pay"}
    for wrong, words in ((part, "already"), (made, "only a write-off")):
        with pytest.raises(Conflict, match=words):
            write_off_reverse(actor=as_olga, entry=wrong, reason="again")
    with pytest.raises(Conflict, match="only a received payment"):
        payment_reverse(actor=as_olga, entry=part, reason="no payment")
    with pytest.raises((NotFound, Forbidden)):
        write_off_reverse(actor=as_alice, entry=part, reason="mine")
    write_off(actor=as_olga, invoice=invoice, reason="insolvent after all")
    assert open_of(invoice) == 0
    balanced()


def test_what_is_owed_again_is_paid_from_money_in_advance(
    invoice: Invoice, organization: Organization, as_olga: Actor, as_alice: Actor
) -> None:
    write_off(actor=as_olga, invoice=invoice, reason="insolvent")
    payment_record(actor=as_olga, organization=organization, amount="400")
    write_off_reverse(actor=as_olga, entry=LedgerEntry.objects.get(kind="write_off"), reason="they paid")
    found = balance_of(actor=as_alice, organization=organization, currency="EUR")
    assert (found.owed, found.prepaid) == (Decimal("0.00"), Decimal("7.30"))
    balanced()


def test_what_was_written_off_and_is_credited_is_in_nobodys_favor(
    invoice: Invoice, organization: Organization, as_olga: Actor, as_alice: Actor
) -> None:
    """Of 392.70 come 300.00 in and 92.70 are written off. A credit of 107.10 gives 14.40 back."""
    payment_record(actor=as_olga, organization=organization, amount="300")
    write_off(actor=as_olga, invoice=invoice, reason="insolvent")
    line = invoice.lines.get(amount_minor=9000).position
    note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={line: "90"}, reason="the tax comes back")
    found = balance_of(actor=as_alice, organization=organization, currency="EUR")
    assert (found.owed, found.prepaid, open_of(invoice)) == (Decimal("0.00"), Decimal("14.40"), 0)
    assert settlement_of(actor=as_alice, invoice=invoice).paid == Decimal("285.60")
    write_off_reverse(actor=as_olga, entry=LedgerEntry.objects.get(kind="write_off"), reason="wrong")
    assert open_of(invoice) == 0
    balanced()


def test_bad_grants_are_refused_beside_the_field(organization: Organization, as_olga: Actor) -> None:
    for given_, field in (
        ({"amount": "-5"}, "amount"),
        ({"amount": "1.234"}, "amount"),
        ({"expires_at": utc("2020-01-01")}, "expires_at"),
        ({"gpu_types": ["no-such"]}, "gpu_types"),
        ({"note": "x" * 201}, "note"),
    ):
        wish: dict[str, object] = {"amount": "5", "expires_at": LATER, **given_}
        with pytest.raises(Invalid) as refused:
            grant_give(actor=as_olga, organization=organization, **wish)  # type: ignore[arg-type]  # wrong on purpose
        assert set(refused.value.fields) == {field}
    assert not Grant.objects.exists()
    assert not LedgerEntry.objects.exists()


def test_a_credit_gives_back_what_paid_the_last_first(
    used: None, organization: Organization, as_olga: Actor
) -> None:
    """392.70: two grants paid 150.00 and money the rest; credits of all of it in two parts."""
    for amount, expires in (("100", "2029-01-01"), ("50", "2030-01-01")):
        grant_give(actor=as_olga, organization=organization, amount=amount, expires_at=utc(expires))
    payment_record(actor=as_olga, organization=organization, amount="242.70")
    month_close(as_olga, OCTOBER)
    invoice = Invoice.objects.get()
    assert (open_of(invoice), [grant.left_minor for grant in Grant.objects.all()]) == (0, [0, 0])
    # 221.00 net are 262.99: 242.70 of money, then 20.29 of the grant that expires last
    note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={1: "221"}, reason="down")
    assert prepaid() == 24_270
    assert [grant.left_minor for grant in Grant.objects.order_by("expires_at")] == [0, 2029]
    note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts={1: "19", 2: "90"}, reason="down")
    assert prepaid() == 24_270
    assert [grant.left_minor for grant in Grant.objects.order_by("expires_at")] == [10_000, 5000]
    assert open_of(invoice) == 0
    balanced()


def test_what_goes_back_to_an_expired_grant_expires(
    used: None, organization: Organization, as_olga: Actor
) -> None:
    grant = grant_give(actor=as_olga, organization=organization, amount="500", expires_at=LATER)
    month_close(as_olga, OCTOBER)
    with time_machine.travel(LATER, tick=False):
        assert grants_expire() == 1
        note_issue(actor=as_olga, invoice=Invoice.objects.get(), kind=CREDIT, amounts={1: "240"}, reason="x")
        grant.refresh_from_db()
        assert grant.left_minor == 28_560
        assert grants_expire() == 1
    grant.refresh_from_db()
    assert (grant.left_minor, grant.used_minor) == (0, 10_710)
    balanced()


def prepaid() -> int:
    found = LedgerPosting.objects.filter(account="prepaid").aggregate(sum=Sum("amount_minor"))["sum"]
    return -int(found or 0)


def test_tenants_see_their_own_and_change_nothing(
    invoice: Invoice, organization: Organization, as_alice: Actor, as_bob: Actor, as_charlie: Actor
) -> None:
    assert entries_for(actor=as_alice, organization=organization).count() == 1
    for reading in (entries_for, grants_for):
        with pytest.raises(NotFound):
            reading(actor=as_charlie, organization=organization)
        with pytest.raises((NotFound, Forbidden)):
            reading(actor=as_bob, organization=organization)
    for actor in (as_alice, as_charlie):
        with pytest.raises(NotFound):
            grant_give(actor=actor, organization=organization, amount="5", expires_at=LATER)
        with pytest.raises(NotFound):
            payment_record(actor=actor, organization=organization, amount="5")
        with pytest.raises(NotFound):
            write_off(actor=actor, invoice=invoice, reason="please")
