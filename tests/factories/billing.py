"""A closed invoice as the database has it, without a month to close: for tests of pages and addresses."""

from collections.abc import Sequence
from datetime import date

from django.db import transaction

from billing.booking import Booking, bookings_write
from billing.models import Invoice, InvoiceDocument, InvoiceLine
from billing.states import Account, EntryKind
from gpuaas.core import clock
from tenants.models import Project

MONTH = date(2026, 10, 1)


def invoice_make(
    project: Project, *, number: str = "INV-2026-0001", month: date = MONTH, lines: int = 1
) -> Invoice:
    """Lines of 745 h of storage at 1.00 EUR, 19% tax."""
    minor, tax = 74_500 * lines, 14_155 * lines
    with transaction.atomic():
        invoice = Invoice.objects.create(
            organization=project.organization,
            kind="invoice",
            number=number,
            month=month,
            currency="EUR",
            account_name=project.organization.name,
            tax_rate_bp=1900,
            tax_label="VAT",
            subtotal_minor=minor,
            tax_minor=tax,
            total_minor=minor + tax,
            line_count=lines,
            due_on=date(2026, 12, 3),
            closed_at=clock.now(),
            closed_by="olga",
        )
        InvoiceLine.objects.bulk_create([_line(invoice, project, number) for number in range(1, lines + 1)])
        Invoice.objects.filter(pk=invoice.pk).update(content_hash="a1" * 32)
        InvoiceDocument.objects.create(invoice=invoice, pdf=b"%PDF-1.7", made_at=clock.now())
    return Invoice.objects.get(pk=invoice.pk)


def invoice_of(project: Project, amounts: Sequence[int], *, tax_rate_bp: int, tax: int) -> Invoice:
    """Lines of these minor units with this tax, and its entry in the ledger."""
    total = sum(amounts) + tax
    with transaction.atomic():
        invoice = Invoice.objects.create(
            organization=project.organization,
            kind="invoice",
            number="INV-2026-0001",
            month=MONTH,
            currency="EUR",
            account_name=project.organization.name,
            tax_rate_bp=tax_rate_bp,
            tax_label="VAT",
            subtotal_minor=sum(amounts),
            tax_minor=tax,
            total_minor=total,
            line_count=len(amounts),
            due_on=date(2026, 12, 3),
            closed_at=clock.now(),
            closed_by="olga",
        )
        rows = [_line(invoice, project, number) for number in range(1, len(amounts) + 1)]
        for row, amount in zip(rows, amounts, strict=True):
            row.amount_minor = amount
        InvoiceLine.objects.bulk_create(rows)
        Invoice.objects.filter(pk=invoice.pk).update(content_hash="a1" * 32)
        owed = {Account.RECEIVABLE: total, Account.REVENUE: -sum(amounts), Account.TAX: -tax}
        entry = Booking(invoice.organization_id, EntryKind.DOCUMENT, "EUR", invoice.number, owed, invoice.pk)
        bookings_write([entry], now=clock.now(), by="olga")
    return Invoice.objects.get(pk=invoice.pk)


def _line(invoice: Invoice, project: Project, position: int) -> InvoiceLine:
    return InvoiceLine(
        invoice=invoice,
        position=position,
        charge_month=invoice.month,
        project=project,
        project_slug=project.slug,
        project_name=project.name,
        meter="storage_held",
        price_class="on_demand",
        status="billed",
        unit_price_micro=1_000_000,
        unit_seconds=745 * 3600,
        amount_minor=74_500,
        share_count=0,
    )
