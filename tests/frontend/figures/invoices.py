"""An invoice, and what the ledger makes of it: owed, credit, prepaid, payable."""

import csv
import io
import re
from collections.abc import Callable
from decimal import Decimal

from django.urls import reverse

from billing.models import Invoice
from billing.pdf import invoice_html, money_text
from billing.selectors.balances import balance_of
from frontend.formats import money
from tenants.models import Organization
from tests.frontend.figures import reading
from tests.frontend.figures.places import (
    Figure,
    Place,
    Readers,
    Show,
    csv_rows,
    eur,
    json_of,
    page,
)
from tests.frontend.figures.scene import Scene


def _invoice(s: Scene) -> Invoice:
    return Invoice.objects.select_related("organization").get(organization=s.project.organization)


def _printed(s: Scene, label: str) -> str:
    """What the PDF is made of."""
    text = reading.text(invoice_html(invoice=_invoice(s)))
    found = re.findall(rf"{label} ([\d,.]+ EUR)", text)
    return found[-1] if found else text


def _document(r: Readers, s: Scene) -> str:
    return page(r.alice, "invoice", s.project.organization.slug, _invoice(s).number)


def _of_invoice(name: str, label: str, key: str, *more: Place) -> Figure:
    def path(s: Scene) -> str:
        return f"organizations/{s.project.organization.slug}/invoices/{_invoice(s).number}"

    column = f"{key}_minor"
    return Figure(
        f"invoice, {name}",
        lambda r, s: Decimal(getattr(_invoice(s), column)).scaleb(-2),
        (
            Place("its page", lambda r, s: reading.nth(_document(r, s), label, 0), eur),
            Place(
                "operator's page",
                lambda r, s: reading.nth(page(r.olga, "operator_invoice", _invoice(s).number), label, 0),
                eur,
            ),
            Place("API", lambda r, s: json_of(r.alice, path(s), key), str),
            Place(
                "PDF",
                lambda r, s: _printed(s, label),
                lambda found: money_text(int(found * 100), "EUR"),
            ),
            *more,
        ),
    )


def _billed(r: Readers, s: Scene) -> str:
    path = f"/api/v1/organizations/{s.project.organization.slug}/focus/2026-10.csv"
    rows = csv.DictReader(io.StringIO(r.alice.get(path).getvalue().decode()))
    return f"{sum(Decimal(row['BilledCost']) for row in rows if row['ChargeCategory'] == 'Usage'):.2f}"


def _file(r: Readers, s: Scene) -> str:
    address = reverse("frontend:invoice_csv", args=[s.project.organization.slug, _invoice(s).number])
    return str(sum(Decimal(row["amount"] or 0) for row in csv_rows(r.alice, address)))


def _listed(r: Readers, s: Scene, column: str) -> str:
    html = page(r.alice, "organization_invoices", s.project.organization.slug)
    return reading.cell(html, _invoice(s).number, column)


def _entered(r: Readers, s: Scene) -> str:
    """What its entry in the ledger debits to what is owed."""
    html = page(r.alice, "organization_ledger", s.project.organization.slug)
    return reading.cell(html, _invoice(s).number, "Debit")


def _balance(label: str, show: Show, *, others: bool = False) -> tuple[Place, ...]:
    """Where operators and members see the account."""

    def slug(s: Scene) -> str:
        return (s.other if others else s.project).organization.slug

    def at(name: str) -> Callable[[Readers, Scene], str]:
        return lambda r, s: reading.value(page(r.olga, name, slug(s)), label)

    return (
        Place("invoices", at("organization_invoices"), show),
        Place("operator's credits", at("operator_credits"), show),
        Place("operator's billing", at("operator_billing"), show),
    )


def _account(name: str, label: str, *more: Place, others: bool = False) -> Figure:
    """Of the organization, or of the one that pays in dollars."""
    currency = "USD" if others else "EUR"

    def of(s: Scene) -> Organization:
        found: Organization = (s.other if others else s.project).organization
        return found

    return Figure(
        f"{name} of {currency}",
        lambda r, s: getattr(balance_of(actor=r.as_olga, organization=of(s), currency=currency), name),
        (
            *_balance(label, lambda found: money(found, currency), others=others),
            Place("API", lambda r, s: json_of(r.olga, f"organizations/{of(s).slug}/balance", name), str),
            *more,
        ),
    )


def _granted(r: Readers, s: Scene) -> str:
    return _open(page(r.alice, "organization_prices", s.project.organization.slug))


def _payable(r: Readers, s: Scene) -> str:
    """What can be paid out, in words."""
    said = reading.text(page(r.olga, "operator_credits", s.other.organization.slug))
    return said.partition("At most ")[2].partition(": unused")[0]


LEDGER = (
    _account("granted", "Grants", Place("prices and credits", _granted, eur)),
    _account("prepaid", "Paid in advance", others=True),
    _account("credit", "Credits", others=True),
    Figure(
        "payable of USD",
        lambda r, s: balance_of(actor=r.as_olga, organization=s.other.organization, currency="USD").payable,
        (
            Place("operator's credits", _payable, lambda found: money(found, "USD")),
            Place(
                "API",
                lambda r, s: json_of(r.olga, f"organizations/{s.other.organization.slug}/balance", "payable"),
                str,
            ),
        ),
    ),
)


INVOICE = (
    _of_invoice(
        "net",
        "Net",
        "subtotal",
        Place("list", lambda r, s: _listed(r, s, "Net"), eur),
        Place("CSV", _file, str),
        Place("FOCUS", _billed, str),
    ),
    _of_invoice("tax", "VAT 19%", "tax"),
    _of_invoice(
        "total",
        "Total",
        "total",
        Place("list", lambda r, s: _listed(r, s, "Total"), eur),
        Place("ledger", _entered, eur),
    ),
    Figure(
        "owed",
        lambda r, s: balance_of(actor=r.as_alice, organization=s.project.organization, currency="EUR").owed,
        (
            *_balance("Amount due", eur),
            Place(
                "API",
                lambda r, s: json_of(r.alice, f"organizations/{s.project.organization.slug}/balance", "owed"),
                str,
            ),
            Place("the invoice's page", lambda r, s: _open(_document(r, s)), eur),
            Place(
                "API, invoice",
                lambda r, s: json_of(
                    r.alice,
                    f"organizations/{s.project.organization.slug}/invoices/{_invoice(s).number}",
                    "open",
                ),
                str,
            ),
        ),
    ),
)


def _open(html: str) -> str:
    return reading.text(html.partition('<p class="g-big">')[2].partition("</p>")[0])
