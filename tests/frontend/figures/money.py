"""What holders, organizations and the platform have cost and used so far, budgets with their mails, and an invoice."""

import csv
import io
import re
from collections.abc import Callable
from decimal import Decimal

from django.urls import reverse

from billing.models import Invoice
from billing.pdf import invoice_html, money_text
from billing.readings import reading_of
from billing.selectors import statement
from billing.selectors.balances import balance_of
from billing.selectors.budgets import amount_shown
from billing.selectors.costs import HolderCost, cost_by_holder
from frontend.formats import money
from tenants.models import Organization
from tests.frontend.figures import reading
from tests.frontend.figures.places import (
    Figure,
    Place,
    Readers,
    Show,
    both,
    csv_rows,
    eur,
    hours,
    json_of,
    mail_said,
    page,
)
from tests.frontend.figures.scene import NOW, Scene


def _holder(r: Readers, s: Scene, name: str) -> HolderCost:
    return next(row for row in cost_by_holder(actor=r.as_alice, project=s.project) if row.holder == name)


def _api(r: Readers, s: Scene, name: str, key: str) -> str:
    rows = r.alice.get(f"/api/v1/projects/{s.project.slug}/costs").json()["by_holder"]
    return next(str(row[key]) for row in rows if row["holder"] == name)


def _broken_down(r: Readers, s: Scene, name: str, key: str) -> str:
    path = f"/api/v1/projects/{s.project.slug}/costs/breakdown"
    rows = r.alice.get(path, {"group_by": "workspace"}).json()["rows"]
    return next(str(row[key]) for row in rows if row["name"] == name)


def _csv(r: Readers, s: Scene, name: str, key: str) -> str:
    path = reverse("frontend:costs_csv", args=[s.project.slug])
    return next(row[key] for row in csv_rows(r.alice, path, by="workspace") if row["name"] == name)


def holder(name: str) -> tuple[Figure, Figure]:
    """What one workspace or cluster has cost this month, and its GPU hours."""

    def usage(r: Readers, s: Scene, column: str) -> str:
        return reading.cell(page(r.alice, "usage", s.project.slug, view="workspace"), name, column)

    def costs(r: Readers, s: Scene, column: str) -> str:
        return reading.cell(page(r.alice, "costs", s.project.slug, by="workspace"), name, column)

    listed = name not in ("gone", "sim", "warm")
    return (
        Figure(
            f"{name}, month so far",
            lambda r, s: _holder(r, s, name).amount,
            (
                Place("usage", lambda r, s: usage(r, s, "Cost"), eur),
                Place("costs", lambda r, s: costs(r, s, "Cost"), eur),
                Place("costs.csv", lambda r, s: _csv(r, s, name, "amount"), str),
                Place("API", lambda r, s: _api(r, s, name, "amount"), str),
                Place("API, breakdown", lambda r, s: _broken_down(r, s, name, "amount"), str),
                *(_shown(name) if listed else ()),
            ),
        ),
        Figure(
            f"{name}, GPU hours",
            lambda r, s: _holder(r, s, name).gpu_seconds,
            (
                Place("usage", lambda r, s: usage(r, s, "GPU hours"), hours),
                Place("costs", lambda r, s: costs(r, s, "GPU hours held"), hours),
                Place("costs.csv", lambda r, s: _csv(r, s, name, "gpu_seconds"), str),
                Place("API", lambda r, s: _api(r, s, name, "gpu_seconds"), str),
                Place("API, breakdown", lambda r, s: _broken_down(r, s, name, "gpu_seconds"), str),
            ),
        ),
    )


def _shown(name: str) -> tuple[Place, Place]:
    """Where only a workspace that is there is shown."""

    def on_home(r: Readers, s: Scene) -> str:
        return reading.cell(page(r.alice, "home", s.project.slug), name, "November")

    def on_its_page(r: Readers, s: Scene) -> str:
        return reading.nth(page(r.alice, "workspace", s.project.slug, s.rooms[name].pk), "Total", 1)

    return Place("home", on_home, eur), Place("its page", on_its_page, eur)


def _sheet(r: Readers, s: Scene) -> int:
    return statement(actor=r.as_alice, project=s.project).gpu_seconds


def _budget(r: Readers, s: Scene, name: str) -> str:
    row = reading.cell(page(r.alice, "budgets", s.project.slug), name, "Spent and expected")
    return row.partition(" spent")[0]


def _spent(s: Scene, name: str) -> Decimal:
    budget = getattr(s, name)
    found = reading_of(budget, now=NOW)
    assert found is not None
    return Decimal(amount_shown(budget, found.spent, "EUR"))


def _api_budget(r: Readers, s: Scene, name: str) -> Decimal:
    path = f"projects/{s.project.slug}/budgets/{getattr(s, name).pk}"
    return Decimal(json_of(r.alice, path, "spent"))


HOURS = (
    Figure(
        "project, GPU hours",
        _sheet,
        (
            Place(
                "usage",
                lambda r, s: reading.cell(
                    page(r.alice, "usage", s.project.slug, view="workspace"), "Total", "GPU hours"
                ),
                hours,
            ),
            Place(
                "costs",
                lambda r, s: reading.cell(page(r.alice, "costs", s.project.slug), "Total", "GPU hours held"),
                hours,
            ),
            Place(
                "operator's usage",
                lambda r, s: reading.cell(page(r.olga, "operator_usage"), s.project.slug, "GPU hours held"),
                hours,
            ),
            Place(
                "API, breakdown",
                lambda r, s: json_of(
                    r.alice, f"projects/{s.project.slug}/costs/breakdown?group_by=gpu_type", "gpu_seconds"
                ),
                str,
            ),
            Place(
                "API, costs by day",
                lambda r, s: hours(
                    sum(
                        row["gpu_seconds"]
                        for row in r.alice.get(f"/api/v1/projects/{s.project.slug}/costs").json()["by_day"]
                    )
                ),
                hours,
            ),
            Place("API, budget", lambda r, s: hours(_api_budget(r, s, "hours_budget") * 3600), hours),
        ),
    ),
    Figure(
        "platform, GPU hours",
        lambda r, s: statement(actor=r.as_olga).gpu_seconds,
        (
            Place(
                "operator's usage",
                lambda r, s: reading.cell(page(r.olga, "operator_usage"), "Total", "GPU hours held"),
                hours,
            ),
            Place(
                "projects of operator's usage",
                lambda r, s: str(
                    sum(
                        Decimal(reading.cell(page(r.olga, "operator_usage"), slug, "GPU hours held"))
                        for slug in (s.project.slug, "ocean", s.other.slug)
                    )
                ),
                hours,
            ),
        ),
    ),
)

SUMS = (
    Figure(
        "organization, month so far",
        lambda r, s: statement(actor=r.as_alice, organization=s.project.organization).total,
        (
            Place(
                "costs",
                lambda r, s: reading.value(
                    page(r.alice, "organization_costs", s.project.organization.slug), "November so far"
                ),
                eur,
            ),
            Place(
                "projects",
                lambda r, s: reading.cell(
                    page(r.alice, "projects", s.project.organization.slug), "Total", "So far"
                ),
                eur,
            ),
            Place(
                "operator's overview",
                lambda r, s: reading.nth(page(r.olga, "operator"), s.project.organization.slug, 2),
                eur,
            ),
            Place(
                "API",
                lambda r, s: json_of(r.alice, f"organizations/{s.project.organization.slug}/costs", "total"),
                str,
            ),
            Place(
                "API, statement",
                lambda r, s: json_of(
                    r.alice, f"organizations/{s.project.organization.slug}/statements/2026-11", "total"
                ),
                str,
            ),
        ),
    ),
    Figure(
        "platform, month so far",
        lambda r, s: statement(actor=r.as_olga).totals,
        (
            Place(
                "operator's overview",
                lambda r, s: reading.value(page(r.olga, "operator"), "November so far"),
                both(money),
            ),
            Place(
                "operator's usage",
                lambda r, s: reading.cell(page(r.olga, "operator_usage"), "Total", "Amount"),
                both(money),
            ),
        ),
    ),
    Figure(
        "budget, spent",
        lambda r, s: _spent(s, "mailed_budget"),
        (
            Place("budgets", lambda r, s: _budget(r, s, "spent"), eur),
            Place("API", lambda r, s: str(_api_budget(r, s, "mailed_budget")), str),
            Place("mail", lambda r, s: mail_said("spent"), lambda found: f"{found:,}"),
        ),
    ),
)


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
    _of_invoice("tax", "VAT 19 %", "tax"),
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
