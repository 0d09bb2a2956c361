"""A document on paper: what stands on it, the same bytes each time, nothing fetched, and said clearly where it cannot be made."""

import csv
import io
import sys
from datetime import date
from typing import Any

import pytest

from billing import pdf
from billing.exports import rows_csv
from billing.models import BillingAccount, Invoice, InvoiceDocument
from billing.selectors.documents import invoice_rows, invoice_verify, pdf_of
from billing.services import cost_center_set, pdfs, rate_set
from billing.services.notes import note_issue
from billing.services.pdfs import pdf_ready, pdfs_make
from billing.states import InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Unavailable
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make

OCTOBER = date(2026, 10, 1)


@pytest.fixture
def invoice(project: Project, h100: Flavor, alice: User, as_olga: Actor) -> Invoice:
    project.organization.name = "=Climate <b>Physics</b> & Co"
    project.organization.save()
    BillingAccount.objects.create(
        organization=project.organization,
        currency="EUR",
        tax_rate_bp=1900,
        tax_label="VAT",
        address='Seestraße 2\n<img src="http://203.0.113.1/x.png">14469 Potsdam',
        invoice_reference="PO 4410",
    )
    cost_center_set(actor=as_olga, project=project, code="=4410-07")
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    row = workspace_make(project, h100, alice)
    interval_make(row, h100, utc("2026-10-02 00:00:00"), utc("2026-10-02 01:30:00"))
    month_close(as_olga, OCTOBER)
    return Invoice.objects.select_related("organization").get()


def test_what_stands_on_it(invoice: Invoice, as_olga: Actor) -> None:
    page = pdf.invoice_html(invoice=invoice)
    for said in (
        *("INV-2026-0001", "PO 4410", "745 h", "H100 SXM", "1.50", "GPU h", "2.40", "3.60 EUR", "VAT 19%"),
        *("0.68 EUR", "4.28 EUR", "Weather LM", "cost center =4410-07", invoice.content_hash),
    ):
        assert said in page, said
    assert "<b>Physics" not in page
    assert "<img" not in page
    note = note_issue(
        actor=as_olga,
        invoice=invoice,
        kind=InvoiceKind.CREDIT_NOTE,
        amounts={1: "1"},
        reason="ber-1 was down",
    )
    page = pdf.invoice_html(invoice=note)
    for said in (
        "Credit note CN-2026-0001",
        "ber-1 was down",
        "−1.00 EUR",
        "−0.19 EUR",
        "corrects INV-2026-0001, line 1",
    ):
        assert said in page, said


def test_its_date_is_that_of_the_billing_zone(invoice: Invoice) -> None:
    """Half past midnight in Berlin is the day before in UTC."""
    invoice.closed_at = utc("2026-11-30 23:30:00")
    assert "<dd>1 Dec 2026</dd>" in pdf.invoice_html(invoice=invoice)


def test_the_same_document_is_the_same_bytes(invoice: Invoice) -> None:
    assert not pdf.pdf_trouble(), pdf.pdf_trouble()
    once = pdf.invoice_pdf(invoice=invoice)
    assert once.startswith(b"%PDF-")
    assert once == pdf.invoice_pdf(invoice=Invoice.objects.select_related("organization").get())


def test_a_worker_makes_it_once_and_until_then_the_portal_says_so(invoice: Invoice) -> None:
    with pytest.raises(Unavailable, match="is being created"):
        pdf_ready(invoice=invoice)
    assert (pdfs_make(), pdfs_make()) == (1, 0)
    assert pdf_ready(invoice=invoice) == bytes(InvoiceDocument.objects.get().pdf)


def test_one_that_fails_keeps_no_later_one_waiting(
    invoice: Invoice, as_olga: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_a_note: dict[str, Any] = {
        "kind": InvoiceKind.CREDIT_NOTE,
        "amounts": {1: "1"},
        "reason": "ber-1 was down",
    }
    note = note_issue(actor=as_olga, invoice=invoice, **of_a_note)
    whole = pdf.invoice_pdf

    def fails(*, invoice: Invoice) -> bytes:
        if invoice.pk != note.pk:
            raise ValueError
        return whole(invoice=invoice)

    monkeypatch.setattr(pdfs, "BATCH", 1)
    monkeypatch.setattr(pdfs, "invoice_pdf", fails)
    assert pdfs_make() == 1
    assert pdf_of(invoice=note)
    assert pdf_of(invoice=invoice) is None


def test_a_machine_without_pango_says_what_to_install(
    invoice: Invoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    pdf.pdf_trouble.cache_clear()
    try:
        assert "apt install libpango" in pdf.pdf_trouble()
        assert pdfs_make() == 0
        with pytest.raises(Unavailable, match="cannot be created on this machine"):
            pdf_ready(invoice=invoice)
    finally:
        monkeypatch.undo()
        pdf.pdf_trouble.cache_clear()


def test_the_csv_adds_up_and_no_cell_is_a_formula(invoice: Invoice) -> None:
    rows = list(csv.DictReader(io.StringIO("".join(rows_csv(invoice_rows(invoice=invoice))))))
    assert [(row["amount"], row["unit_seconds"], row["cost_center"]) for row in rows] == [
        ("3.60", "5400", "'=4410-07")
    ]


def test_the_fingerprint_holds(invoice: Invoice, as_olga: Actor) -> None:
    assert invoice_verify(invoice=invoice)
    note = note_issue(
        actor=as_olga, invoice=invoice, kind=InvoiceKind.CREDIT_NOTE, amounts={1: "1"}, reason="line 1\tof\n2"
    )
    assert invoice_verify(invoice=note)
    assert invoice_verify(invoice=invoice)
    # money that reads the same with other words is not the same
    invoice.content_hash = "0" * 64
    assert not invoice_verify(invoice=invoice)
