"""Documents as PDF, by WeasyPrint: the same document gives the same bytes. Created by a task, never in a web
request."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings
from django.template.loader import render_to_string

from billing.models import Invoice, InvoiceLine
from billing.money import amount_of, price_of
from billing.months import month_days, month_span
from billing.states import InvoiceKind
from billing.wares import MILLION_TOKENS, quantity_places, storage_words
from gpuaas.catalog.states import PriceClass
from gpuaas.metering.models import TOKEN_METERS

PACKAGES = "libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0"
NAMES = {
    "vcpu_held": "vCPU",
    "memory_held": "Memory",
    "storage_held": "Storage",
    **{meter.value: str(meter.label) for meter in TOKEN_METERS},
}
UNITS = {
    "vcpu_held": "vCPU h",
    "memory_held": "GiB h",
    "storage_held": "GiB h",
    "gpu_allocated": "GPU h allocated",
    **{meter.value: MILLION_TOKENS for meter in TOKEN_METERS},
}
STYLE = Path(__file__).parent / "templates" / "billing" / "document.css"


@dataclass(frozen=True)
class PdfLine:
    name: str
    note: str
    quantity: str
    unit: str
    price: str
    amount: str


@dataclass(frozen=True)
class PdfSection:
    """The lines of a project in its cost center, and their sum."""

    project: str
    cost_center: str
    lines: tuple[PdfLine, ...]
    total: str


@cache
def pdf_trouble() -> str:
    """Why this machine cannot create PDFs, with the remedy; empty if it can."""
    try:
        import weasyprint
    except (ImportError, OSError) as error:
        return (
            f"PDF files cannot be created on this machine: {str(error).splitlines()[0][:120]}. "
            f"Install Pango (Debian: apt install {PACKAGES})."
        )
    del weasyprint
    return ""


def invoice_pdf(*, invoice: Invoice) -> bytes:
    """Raises OSError if Pango is missing; see `pdf_trouble`."""
    from weasyprint import CSS, HTML

    page = HTML(string=invoice_html(invoice=invoice), base_url="about:blank", url_fetcher=_nothing)
    identifier = hashlib.sha256(invoice.content_hash.encode()).digest()[:16]
    made: bytes = page.write_pdf(
        stylesheets=[CSS(string=STYLE.read_text("utf-8"))], pdf_identifier=identifier
    )
    return made


def invoice_html(*, invoice: Invoice) -> str:
    lines = list(invoice.lines.select_related("corrects__invoice").order_by("position"))
    span = month_span(invoice.month)
    context = {
        "invoice": invoice,
        "kind": InvoiceKind(invoice.kind).label,
        "organization": invoice.organization,
        "closed_on": invoice.closed_on,
        "provider": settings.PROVIDER_NAME,
        "provider_lines": settings.BILLING_PROVIDER_ADDRESS.splitlines(),
        "address_lines": invoice.account_address.splitlines(),
        "period": f"1 to {month_days(invoice.month)[-1].day.day} {invoice.month:%b %Y}",
        "hours": span.seconds // 3600,
        "sections": sections_of(lines, invoice.currency),
        "subtotal": money_text(invoice.subtotal_minor, invoice.currency),
        "tax": money_text(invoice.tax_minor, invoice.currency),
        "tax_name": tax_name(invoice),
        "total": money_text(invoice.total_minor, invoice.currency),
        "quarantined": any(line.amount_minor is None for line in lines),
    }
    return render_to_string("billing/document.html", context)


def sections_of(lines: list[InvoiceLine], currency: str) -> list[PdfSection]:
    """By cost center and project, in the order of the lines; lines included in another price are left out."""
    sections: dict[tuple[str, str], list[InvoiceLine]] = {}
    for line in lines:
        if line.status != "included":
            sections.setdefault((line.cost_center, line.project_name or line.project_slug), []).append(line)
    return [
        PdfSection(
            project=project,
            cost_center=cost_center,
            lines=tuple(_line(line, currency) for line in rows),
            total=money_text(sum(row.amount_minor or 0 for row in rows), currency),
        )
        for (cost_center, project), rows in sections.items()
    ]


def money_text(minor: int, currency: str) -> str:
    """1,234.50 EUR, with a true minus."""
    return f"{amount_of(minor, currency):,f} {currency}".replace("-", "−")


def tax_name(invoice: Invoice) -> str:
    """The account's label for its tax; if it contains no rate, the rate is added."""
    whole, part = divmod(invoice.tax_rate_bp, 100)
    rate = f"{whole}.{part:02d}".rstrip("0").rstrip(".")
    label = invoice.tax_label or "Tax"
    return label if "%" in label or not invoice.tax_rate_bp else f"{label} {rate}%"


def _line(line: InvoiceLine, currency: str) -> PdfLine:
    notes = [PriceClass(line.price_class).label.lower()] if line.flavor_slug else []
    notes += [word for word, marked in (("surplus", line.surplus), ("estimated", line.estimated)) if marked]
    if line.corrects is not None:
        notes.append(f"corrects {line.corrects.invoice.number}, line {line.corrects.position}")
    elif line.charge_month != line.invoice.month:
        notes.append("used earlier")
    if line.charge_month != line.invoice.month:
        notes.append(f"{line.charge_month:%B %Y}")
    seconds = line.unit_seconds
    return PdfLine(
        name=line.flavor_name
        or line.flavor_slug
        or storage_words(line.resource)
        or NAMES.get(line.meter, line.resource or line.meter),
        note=", ".join(notes),
        quantity=hours_text(seconds, quantity_places(line.meter)) if seconds else "",
        unit=UNITS.get(line.meter, "GPU h") if seconds else "",
        price="" if line.unit_price_micro is None or not seconds else f"{price_of(line.unit_price_micro):,f}",
        amount="no price set" if line.amount_minor is None else money_text(line.amount_minor, currency),
    )


def hours_text(seconds: int, places: int = 2) -> str:
    """Unit-hours, or millions of tokens, half up, by integers."""
    parts, sign = (2 * abs(seconds) * 10**places + 3600) // 7200, "−" if seconds < 0 else ""
    whole, part = divmod(parts, 10**places)
    return f"{sign}{whole:,}.{part:0{places}d}"


def _nothing(url: str, *args: object, **kwargs: object) -> dict[str, object]:
    """A document loads nothing from anywhere, whatever a name or an address contains."""
    del args, kwargs
    raise ValueError(f"documents load no other files: {url[:80]}")
