"""From usage to a closed, corrected and paid invoice, in the pages alone."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.urls import reverse

from billing.models import Grant, Invoice, LedgerEntry, MonthClose
from billing.months import month_span
from billing.services import rate_set
from billing.services.closing import month_close_run
from billing.services.pdfs import pdfs_make
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import meters_prove
from tests.billing.credited import december_used, november_credited, tiered_make
from tests.billing.stage import interval_make, utc
from tests.factories.billing import MONTH, invoice_of
from tests.frontend.markup import comes_back, words
from tests.frontend.operator.conftest import signed_in
from tests.lasting import lasting

END = month_span(MONTH).ends_at
LONG = ("because " * 30).strip()


@pytest.fixture
@lasting
def used(workspace: Workspace, h100: Flavor, as_olga: Actor) -> None:
    UsageInterval.objects.all().delete()
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    interval_make(workspace, h100, utc("2026-10-02 00:00:00"), utc("2026-10-02 10:00:00"))


def october_closed(olga_at: Client) -> None:
    """Too early, then with a meter that is silent, then by its button."""
    closes = reverse("frontend:operator_closes") + "?month=2026-10"
    close = reverse("frontend:operator_month_close", args=["2026-10"])
    with time_machine.travel(END + timedelta(hours=1), tick=False):
        olga_at.get("/operator/")
        early = olga_at.post(close)
        assert early.status_code == 422
        assert "Wait until then" in words(early)
    with time_machine.travel(END + timedelta(days=3), tick=False):
        silent = olga_at.post(close)
        assert silent.status_code == 422
        assert "have not reported" in words(silent)
        meters_prove(END)
        assert "Drafts of 1 organization total <b>€24.00</b>" in words(olga_at.get(closes))
        told = ("1, one per organization with usage", "<b>€24.00</b>, before tax")
        assert all(said in words(olga_at.get(close)) for said in told)
        assert olga_at.post(close).status_code == 302
        assert "Closing" in words(olga_at.get(closes))
        month_close_run(month=MONTH)
        assert MonthClose.objects.get().state == "closed"
        assert "1 document" in words(olga_at.get(closes))


def test_from_the_checklist_to_a_paid_invoice(
    used: None, olga_at: Client, alice: User, workspace: Workspace
) -> None:
    october_closed(olga_at)
    invoice = Invoice.objects.get()
    page = reverse("frontend:operator_invoice", args=[invoice.number])
    assert "€24.00" in words(olga_at.get(page))
    assert "1. H100" in words(olga_at.get(page)), "what is corrected is named as on the invoice"
    slug = workspace.project.organization.slug
    _corrected_and_paid(olga_at, slug, invoice, page)
    _as_tenant(signed_in(alice), slug, invoice)


def test_an_invoice_of_a_thousand_lines_is_corrected_on_its_page(olga_at: Client, project: Project) -> None:
    """A browser sends every field, also those that are empty."""
    invoice = invoice_of(project, [100] * 1000, tax_rate_bp=0, tax=0)
    note = reverse("frontend:operator_invoice_note", args=[invoice.number])
    lines = dict.fromkeys((f"line_{number}" for number in range(1, 1001)), "")
    wish = {**lines, "line_1000": "1", "note": "credit_note", "reason": "down", "sure": "1"}
    assert olga_at.post(note, wish).status_code == 302
    assert Invoice.objects.get(corrects=invoice).total_minor == -100


def _corrected_and_paid(olga_at: Client, slug: str, invoice: Invoice, page: str) -> None:
    """Each is asked for, and only tried until one is sure."""
    note = reverse("frontend:operator_invoice_note", args=[invoice.number])
    above = olga_at.post(note, {"note": "credit_note", "reason": "down", "line_1": "24.01"})
    assert above.status_code == 422
    assert "24.00 EUR are left of this line" in words(above)
    wish = {"note": "credit_note", "reason": "down", "line_1": "4"}
    asked = words(olga_at.post(note, wish))
    assert "Issue this credit note?" in asked
    assert "by −€4.00 (−€4.00 and €0.00 of tax)" in asked
    assert Invoice.objects.count() == 1, "it was only tried"
    assert olga_at.post(note, {**wish, "sure": "1"}).status_code == 302
    assert "CN-2026-0001" in words(olga_at.get(page))
    off = reverse("frontend:operator_invoice_write_off", args=[invoice.number])
    assert "20.00 EUR" in words(olga_at.post(off, {"amount": "21", "reason": "goodwill"}))
    assert "€1.00 of INV-2026-0001 is no longer owed" in words(
        olga_at.post(off, {"amount": "1", "reason": "goodwill"})
    )
    assert olga_at.post(off, {"amount": "1", "reason": "goodwill", "sure": "1"}).status_code == 302
    _written_off_and_back(olga_at, slug, invoice, page)
    assert olga_at.post(off, {"amount": "1", "reason": "goodwill", "sure": "1"}).status_code == 302
    record = reverse("frontend:operator_payment_record", args=[slug])
    asked = words(olga_at.post(record, {"amount": "25"}))
    assert "Record this payment?" in asked
    assert "€25.00 is recorded as received from" in asked
    assert '<input type="hidden" name="amount" value="25">' in asked
    assert not LedgerEntry.objects.filter(kind="prepaid").exists()
    recorded = words(olga_at.post(record, {"amount": "25", "sure": "1"}, follow=True))
    assert "Payment of €25.00 from" in recorded
    _reversed_and_recorded_anew(olga_at, slug, record)


def _written_off_and_back(olga_at: Client, slug: str, invoice: Invoice, page: str) -> None:
    entry = LedgerEntry.objects.get(kind="write_off")
    ledger = reverse("frontend:operator_credits", args=[slug])
    back = reverse("frontend:operator_write_off_reverse", args=[invoice.number, entry.pk])
    for where in (page, ledger):
        shown = words(olga_at.get(where))
        assert "Reverse this write-off?" in shown
        assert f'action="{back}"' in shown
    assert "Give a reason" in words(olga_at.post(back, {"reason": " "}, follow=True))
    assert comes_back(olga_at.post(back, {"reason": LONG}), f"reverse-{entry.pk}", LONG)
    said = words(olga_at.post(back, {"reason": "paid after all"}, follow=True))
    assert "Write-off reversed. The ledger keeps both entries." in said
    assert "€20.00" in said, "it is owed again"
    assert "Reverse this write-off?" not in said
    assert "Write-off reversed by olga" in words(olga_at.get(ledger))
    assert "already reversed" in words(olga_at.post(back, {"reason": "again"}, follow=True))


def _reversed_and_recorded_anew(olga_at: Client, slug: str, record: str) -> None:
    entry = LedgerEntry.objects.get(kind="prepaid")
    page_of_credits = reverse("frontend:operator_credits", args=[slug])
    back = reverse("frontend:operator_payment_reverse", args=[slug, entry.pk])
    assert "Reverse this payment?" in words(olga_at.get(page_of_credits))
    assert "Give a reason" in words(olga_at.post(back, {"reason": " "}, follow=True))
    assert comes_back(olga_at.post(back, {"reason": LONG}), f"reverse-{entry.pk}", LONG)
    olga_at.post(back, {"reason": "of another customer"})
    page = words(olga_at.get(page_of_credits))
    assert "Payment reversed" in page
    assert "Reverse this payment?" not in page
    assert "already reversed" in words(olga_at.post(back, {"reason": "again"}, follow=True))
    assert olga_at.post(record, {"amount": "25", "sure": "1"}).status_code == 302


def _as_tenant(alice_at: Client, slug: str, invoice: Invoice) -> None:
    listed = words(alice_at.get(reverse("frontend:organization_invoices", args=[slug])))
    for said in ("INV-2026-0001", "CN-2026-0001", "€24.00", "€6.00"):
        assert said in listed, said
    page = words(alice_at.get(reverse("frontend:invoice", args=[slug, invoice.number])))
    assert "€0.00" in page
    assert "Issue note" not in page
    pdf = reverse("frontend:invoice_pdf", args=[slug, invoice.number])
    waits = alice_at.get(pdf)
    assert (waits.status_code, waits["Retry-After"], waits["Refresh"]) == (503, "5", "3")
    assert "asks again every 3 seconds" in words(waits)
    assert pdfs_make() == 2
    made = alice_at.get(pdf)
    assert (made.status_code, made["Content-Type"]) == (200, "application/pdf")
    csv: Any = alice_at.get(reverse("frontend:invoice_csv", args=[slug, invoice.number]))
    rows = b"".join(csv.streaming_content)
    assert b"24.00" in rows
    ledger = words(alice_at.get(reverse("frontend:organization_ledger", args=[slug])))
    assert "Payment received" in ledger
    assert "Receivable" in ledger


def test_grants_are_given_and_refused_beside_the_field(olga_at: Client, workspace: Workspace) -> None:
    slug = workspace.project.organization.slug
    give = reverse("frontend:operator_grant_give", args=[slug])
    wish = {"amount": "500", "expires_at": "2030-01-01T00:00", "gpu_types": "l40s-48gb", "note": "pilot"}
    for name, wrong in (("amount", "-1"), ("expires_at", "2020-01-01T00:00"), ("gpu_types", "no-such")):
        refused = olga_at.post(give, {**wish, name: wrong})
        assert refused.status_code == 422
        assert list(refused.context["grant_form"].errors) == [name]
        assert 'aria-invalid="true"' in words(refused)
    asked = words(olga_at.post(give, wish))
    assert "Add this grant?" in asked
    assert "gets a credit of €500.00. It pays for L40S 48 GB on invoices" in asked
    assert "A wrong grant can be reversed; the ledger keeps both entries." in asked
    assert '<input type="hidden" name="note" value="pilot">' in asked
    assert not Grant.objects.exists(), "it was only tried"
    assert olga_at.post(give, {**wish, "sure": "1"}).status_code == 302
    entry = LedgerEntry.objects.get(kind="grant")
    back = reverse("frontend:operator_grant_reverse", args=[slug, entry.pk])
    page = words(olga_at.get(reverse("frontend:operator_credits", args=[slug])))
    assert "pilot" in page
    assert f'action="{back}"' in page
    assert "Reverse this grant?" in page
    assert "ive a reason" in words(olga_at.post(back, {"reason": ""}, follow=True))
    assert comes_back(olga_at.post(back, {"reason": LONG}), f"reverse-{entry.pk}", LONG)
    page = words(olga_at.post(back, {"reason": "not theirs"}, follow=True))
    assert "Grant reversed. The ledger keeps both entries." in page
    assert "pilot reversed: not theirs" in page
    assert f'action="{back}"' not in page
    assert "already reversed" in words(olga_at.post(back, {"reason": "again"}, follow=True))


@pytest.fixture
@lasting
def credited(project: Project, h100: Flavor, alice: User, as_olga: Actor) -> Workspace:
    workspace = tiered_make(project, h100, alice)
    november_credited(as_olga, workspace, h100)
    return workspace


def test_a_credit_is_shown_used_and_paid_out(
    credited: Workspace, h100: Flavor, alice: User, olga_at: Client, as_olga: Actor
) -> None:
    slug = credited.project.organization.slug
    home = reverse("frontend:operator_credits", args=[slug])
    assert "At most €46.50" in words(olga_at.get(home))
    listed = words(olga_at.get(reverse("frontend:operator_invoices")))
    assert "Credit note, €46.50 of its credit left" in listed
    record = reverse("frontend:operator_payout_record", args=[slug])
    refused = olga_at.post(record, {"amount": "46.51"})
    assert (refused.status_code, list(refused.context["payout_form"].errors)) == (422, ["amount"])
    asked = words(olga_at.post(record, {"amount": "6.50", "note": "bank, 5 Dec"}))
    assert "Record this payout?" in asked
    assert not LedgerEntry.objects.filter(kind="payout").exists(), "it was only tried"
    assert olga_at.post(record, {"amount": "6.50", "note": "bank, 5 Dec", "sure": "1"}).status_code == 302
    december_used(as_olga, credited, h100)
    for at, listed, one in (
        (olga_at, reverse("frontend:operator_invoices"), "operator_invoice"),
        (signed_in(alice), reverse("frontend:organization_invoices", args=[slug]), "invoice"),
    ):
        owner = [slug] if one == "invoice" else []
        assert "Credit note, pays INV-2027-0001, €0.00 of its credit left" in words(at.get(listed))
        page = words(at.get(reverse(f"frontend:{one}", args=[*owner, "CN-2026-0001"])))
        for said in ("credit given", "€46.50", "pays", "INV-2027-0001", "€40.00", "paid out", "€6.50"):
            assert said in page, said
        page = words(at.get(reverse(f"frontend:{one}", args=[*owner, "INV-2027-0001"])))
        assert all(said in page for said in ("€10.00", "CN-2026-0001", "pays this", "€40.00"))
    entry = LedgerEntry.objects.get(kind="payout")
    back = reverse("frontend:operator_payout_reverse", args=[slug, entry.pk])
    assert "Reverse this payout?" in words(olga_at.get(home))
    assert "Give a reason" in words(olga_at.post(back, {"reason": " "}, follow=True))
    assert comes_back(olga_at.post(back, {"reason": LONG}), f"reverse-{entry.pk}", LONG)
    said = words(olga_at.post(back, {"reason": "it came back"}, follow=True))
    assert "Payout reversed. The ledger keeps both entries." in said
    assert "Payout reversed by olga" in said
    assert "Reverse this payout?" not in said
    assert "already reversed" in words(olga_at.post(back, {"reason": "again"}, follow=True))
    assert "€3.50" in words(olga_at.get(reverse("frontend:operator_invoice", args=["INV-2027-0001"])))
