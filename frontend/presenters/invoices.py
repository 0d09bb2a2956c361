"""A document as the page shows it: sections by cost center and project, each with its total."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from billing.models import Invoice, InvoiceLine, MonthClose
from billing.money import amount_of, price_of
from billing.pdf import tax_name
from billing.selectors.credits import Credit
from billing.states import CLOSE_LOOKS, CloseState, InvoiceKind
from billing.wares import UNITS, quantity_places, unpriced_words
from frontend.presenters.money import hours_of, shared_name
from gpuaas.catalog.states import PriceClass
from gpuaas.core.statemachine import Look
from gpuaas.metering.models import Meter


@dataclass(frozen=True)
class LineShown:
    """hours: of tokens, millions."""

    position: int
    name: str
    note: str
    hours: Decimal | None
    places: int
    unit: str
    price: Decimal | None
    amount: Decimal | None


@dataclass(frozen=True)
class Section:
    project: str
    cost_center: str
    lines: tuple[LineShown, ...]
    total: Decimal


@dataclass(frozen=True)
class Sums:
    subtotal: Decimal
    tax: Decimal
    tax_name: str
    total: Decimal


def sums_of(invoice: Invoice) -> Sums:
    currency = invoice.currency
    return Sums(
        subtotal=amount_of(invoice.subtotal_minor, currency),
        tax=amount_of(invoice.tax_minor, currency),
        tax_name=tax_name(invoice),
        total=amount_of(invoice.total_minor, currency),
    )


def sections_of(invoice: Invoice, lines: Iterable[InvoiceLine]) -> list[Section]:
    """In the order of the lines. Usage that is free or that another price includes costs nothing."""
    found: dict[tuple[str, str], list[InvoiceLine]] = {}
    for line in lines:
        found.setdefault((line.cost_center, line.project_name or line.project_slug), []).append(line)
    return [
        Section(
            project=project,
            cost_center=cost_center,
            lines=tuple(line_of(invoice, line) for line in rows),
            total=amount_of(sum(row.amount_minor or 0 for row in rows), invoice.currency),
        )
        for (cost_center, project), rows in found.items()
    ]


def line_of(invoice: Invoice, line: InvoiceLine) -> LineShown:
    notes = [PriceClass(line.price_class).label.lower()] if line.flavor_slug else []
    if line.status == "included":
        notes.append(unpriced_words(line.meter))
    notes += [word for word, applies in (("surplus", line.surplus), ("estimated", line.estimated)) if applies]
    if line.charge_month != invoice.month:
        notes.append(f"used in {line.charge_month:%B %Y}")
    if line.corrects is not None:
        notes.append(f"corrects {line.corrects.invoice.number}, line {line.corrects.position}")
    known = Meter(line.meter) if line.meter in Meter.values else None
    shared = shared_name(known, line.resource)
    return LineShown(
        position=line.position,
        name=line.flavor_name or line.flavor_slug or shared or line.resource or line.meter,
        note=", ".join(notes),
        hours=hours_of(line.unit_seconds) if line.unit_seconds else None,
        places=quantity_places(line.meter),
        unit=UNITS.get(known, "h") if known and line.unit_seconds else "",
        price=None if line.unit_price_micro is None else price_of(line.unit_price_micro),
        amount=None if line.amount_minor is None else amount_of(line.amount_minor, invoice.currency),
    )


@dataclass(frozen=True)
class InvoiceRow:
    invoice: Invoice
    kind: str
    subtotal: Decimal
    total: Decimal
    credit: Credit | None


def rows_of(
    invoices: Iterable[Invoice], credits_given: Mapping[uuid.UUID, Credit] | None = None
) -> list[InvoiceRow]:
    return [
        InvoiceRow(
            invoice=row,
            kind=InvoiceKind(row.kind).label,
            subtotal=amount_of(row.subtotal_minor, row.currency),
            total=amount_of(row.total_minor, row.currency),
            credit=(credits_given or {}).get(row.pk),
        )
        for row in invoices
    ]


def look_of(row: MonthClose) -> Look:
    return CLOSE_LOOKS[CloseState(row.state)]
