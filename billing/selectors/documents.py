"""Reads of documents: access, open amounts, and verification of their fingerprints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from django.db import connection
from django.db.models import QuerySet

from billing.models import Invoice, InvoiceDocument, InvoiceLine, MonthClose
from billing.money import amount_of, price_of
from billing.selectors.balances import billing_require, invoices_open
from billing.selectors.credits import Credit, credits_of, credits_that_pay
from billing.states import InvoiceKind
from billing.tariffs import sql_text
from billing.wares import quantity_words
from gpuaas.core.rows import first_of
from tenants.actors import Actor
from tenants.models import Organization
from tenants.roles import Permission
from tenants.selectors import organizations_for, platform_require


@dataclass(frozen=True)
class InvoiceFilters:
    """A document has to match all of them."""

    month: date | None = None
    kind: InvoiceKind | None = None
    organization: Organization | None = None


@dataclass(frozen=True)
class Settlement:
    """An invoice with its notes: their sum, the amount still open, the credits that they gave and those that pay them."""

    documents: tuple[Invoice, ...]
    total: Decimal
    paid: Decimal
    open: Decimal
    credits: tuple[Credit, ...]
    paid_by: Mapping[str, Decimal]


def invoices_of(
    *, actor: Actor, organization: Organization, filters: InvoiceFilters | None = None
) -> QuerySet[Invoice]:
    """Documents of one organization, newest first."""
    billing_require(actor=actor, organization=organization)
    return _filtered(Invoice.objects.filter(organization=organization), filters)


def invoices_all(*, actor: Actor, filters: InvoiceFilters | None = None) -> QuerySet[Invoice]:
    """Documents of all organizations, for operators and auditors, newest first."""
    platform_require(actor=actor)
    return _filtered(Invoice.objects.all(), filters)


def invoices_numbered(*, actor: Actor, search: str) -> QuerySet[Invoice]:
    """Documents of every organization whose invoices the actor may read, by a part of the number."""
    rows = Invoice.objects.filter(number__icontains=search).select_related("organization").order_by("-number")
    if actor.sees_all:
        return rows
    seen = organizations_for(actor=actor).values_list("pk", flat=True)
    return rows.filter(
        organization__in=[pk for pk in seen if Permission.BILLING_VIEW in actor.on_organization(pk)]
    )


def invoice_get_for(*, actor: Actor, organization: Organization, number: str) -> Invoice:
    """Raises NotFound if the organization has no such document, or the actor no access to it."""
    return first_of(invoices_of(actor=actor, organization=organization).filter(number=number), "invoice")


def invoice_get(*, actor: Actor, number: str) -> Invoice:
    """By its number alone, for operators and auditors."""
    return first_of(invoices_all(actor=actor).filter(number=number), "invoice")


def lines_of(*, actor: Actor, invoice: Invoice) -> QuerySet[InvoiceLine]:
    billing_require(actor=actor, organization=invoice.organization)
    return invoice.lines.select_related("corrects__invoice").order_by("position")


def settlement_of(*, actor: Actor, invoice: Invoice) -> Settlement:
    """Of the invoice, or of the one that the note corrects. Four queries."""
    billing_require(actor=actor, organization=invoice.organization)
    base = invoice.corrects_id or invoice.pk
    rows = Invoice.objects.filter(pk=base) | Invoice.objects.filter(corrects=base)
    documents = tuple(rows.order_by("closed_at", "number"))
    total = sum(row.total_minor for row in documents)
    still_open = invoices_open(invoices=[base]).get(base, 0)
    currency = invoice.currency
    return Settlement(
        documents=documents,
        total=amount_of(total, currency),
        paid=amount_of(total - still_open, currency),
        open=amount_of(still_open, currency),
        credits=tuple(credits_of(invoices=[row.pk for row in documents]).values()),
        paid_by=credits_that_pay(invoices=[row.pk for row in documents], currency=currency),
    )


def closes_for(*, actor: Actor) -> QuerySet[MonthClose]:
    """Months that were closed or are asked for, newest first; for operators and auditors."""
    platform_require(actor=actor)
    return MonthClose.objects.select_related("progress")


def invoice_verify(*, invoice: Invoice) -> bool:
    """Whether the document still matches its fingerprint, line by line."""
    with connection.cursor() as cursor:
        cursor.execute(sql_text("invoice_hash"), {"invoices": [invoice.pk]})
        ((_, found),) = cursor.fetchall()
    return bool(found == invoice.content_hash)


def pdf_of(*, invoice: Invoice) -> bytes | None:
    """None while it has not been created."""
    found = InvoiceDocument.objects.filter(invoice=invoice).values_list("pdf", flat=True).first()
    return None if found is None else bytes(found)


def pdfs_missing() -> QuerySet[Invoice]:
    return Invoice.objects.filter(document__isnull=True).order_by("closed_at", "number")


def invoice_rows(*, invoice: Invoice) -> Iterator[Sequence[object]]:
    """The lines as cells of a file, header first; amounts are exact decimals, empty in quarantine. Streamed."""
    yield LINE_COLUMNS
    rows = (
        InvoiceLine.objects.filter(invoice=invoice).select_related("corrects__invoice").order_by("position")
    )
    for line in rows.iterator(chunk_size=2000):
        corrects = line.corrects
        yield (
            invoice.number,
            line.position,
            f"{line.charge_month:%Y-%m}",
            line.project_slug,
            line.cost_center,
            line.flavor_slug or line.resource,
            line.gpu_type,
            line.meter,
            line.price_class,
            line.status,
            None if line.unit_price_micro is None else price_of(line.unit_price_micro),
            line.unit_seconds,
            None if line.amount_minor is None else amount_of(line.amount_minor, invoice.currency),
            invoice.currency,
            "estimated" if line.estimated else "",
            "surplus" if line.surplus else "",
            f"{corrects.invoice.number}#{corrects.position}" if corrects else "",
            invoice.kind,
            *quantity_words(line.meter, line.unit_seconds),
        )


LINE_COLUMNS = (
    *(
        "invoice",
        "line",
        "charge_month",
        "project",
        "cost_center",
        "flavor",
        "gpu_type",
        "meter",
        "price_class",
    ),
    *(
        "status",
        "unit_price",
        "unit_seconds",
        "amount",
        "currency",
        "estimated",
        "surplus",
        "corrects",
        "kind",
        "quantity",
        "unit",
    ),
)


def _filtered(rows: QuerySet[Invoice], filters: InvoiceFilters | None) -> QuerySet[Invoice]:
    wanted = filters or InvoiceFilters()
    if wanted.month is not None:
        rows = rows.filter(month=wanted.month.replace(day=1))
    if wanted.kind is not None:
        rows = rows.filter(kind=wanted.kind)
    if wanted.organization is not None:
        rows = rows.filter(organization=wanted.organization)
    return rows.select_related("organization", "corrects")
