"""A month with hostile names in a currency, and every CSV that the portal writes of it."""

import csv
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from billing.files import files_rate
from billing.files.rows import RATES, USAGE
from billing.models import BillingAccount, Invoice, RateCard
from billing.months import billing_zone
from billing.services import cost_center_set
from gpuaas.catalog.models import Flavor
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, rate_make, utc, workspace_make

OCTOBER = date(2026, 10, 1)
BY: tuple[dict[str, str], ...] = tuple(
    {"by": by} for by in ("project", "member", "workspace", "gpu_type", "day")
)
PRICES = {"JPY": 240_000_000, "EUR": 2_400_000, "KWD": 1_234_000}
# what has numbers, and what moments; every other column has text, or nothing
NUMBERS = {
    *("unit_price", "unit_seconds", "amount", "gpu_seconds", "unpriced_lines", "quantity", "line", "limit"),
    *("held", "allocated", "price", "x_UnitSeconds", "BilledCost", "ConsumedQuantity", "ContractedCost"),
    *("ContractedUnitPrice", "EffectiveCost", "ListCost", "ListUnitPrice", "PricingQuantity"),
    *("PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice"),
}
TIMES = {"started_at", "ended_at", "day"}
TIMES |= {f"{period}Period{end}" for period in ("Billing", "Charge") for end in ("Start", "End")}
FLAGS = {"x_Surplus", "x_Estimated"}


def hostile_month(
    project: Project, flavor: Flavor, user: User, olga: Actor, *, currency: str, slug: str, name: str
) -> None:
    """October, closed: what tenants and operators can name has these names, as far as a name may be like that."""
    organization = project.organization
    for row in (organization, project):
        row.slug, row.name = slug, name
        row.save()
    card = RateCard.objects.create(slug="own", name=name, currency=currency)
    rate_make(card, flavor, PRICES[currency], utc("2026-01-01"))
    BillingAccount.objects.create(
        organization=organization, currency=currency, tax_rate_bp=1000, tax_label=name
    )
    cost_center_set(actor=olga, project=project, code=name.strip()[:20])
    held = workspace_make(project, flavor, user, name=slug)
    interval_make(held, flavor, utc("2026-10-05 10:00:00"), utc("2026-10-05 11:00:00"))
    flavor.pool.site.name = name
    flavor.pool.site.save()
    month_close(olga, OCTOBER)


def addresses(slug: str) -> dict[str, str]:
    """By name; one that nobody told is missing here and found by the test."""
    number = Invoice.objects.get().number
    project, organization, month = {"project": slug}, {"organization": slug}, {"month": "2026-10"}
    of_project, of_organization = {**project, **month}, {**organization, **month}
    known = {
        "frontend:usage_csv": project,
        "frontend:costs_csv": project,
        "frontend:cost_intervals_csv": project,
        "frontend:statement_csv": of_project,
        "frontend:organization_costs_csv": organization,
        "frontend:organization_cost_intervals_csv": organization,
        "frontend:invoice_csv": {**organization, "number": number},
        "frontend:operator_limits_csv": {},
        "frontend:operator_usage_csv": month,
        "api:project-cost-intervals-csv": project,
        "api:project-statement-csv": of_project,
        "api:organization-cost-intervals-csv": organization,
        "api:organization-statement-csv": of_organization,
        "api:organization-focus-csv": of_organization,
        "api:organization-invoice-csv": {**organization, "number": number},
        "api:platform-focus-csv": month,
    }
    found = {name for name in _names(get_resolver().url_patterns, "") if name.endswith("csv")}
    assert found == set(known)
    return {name: reverse(name, kwargs=given) for name, given in known.items()}


def _names(patterns: list[URLPattern | URLResolver], space: str) -> list[str]:
    found = []
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            found += _names(pattern.url_patterns, f"{pattern.namespace}:" if pattern.namespace else space)
        else:
            found.append(f"{space}{pattern.name}")
    return found


def files(client: Client, slug: str) -> dict[str, bytes]:
    """Of every address; costs also by everything they can be told by."""
    made = {}
    for name, url in addresses(slug).items():
        month = (
            {"month": "2026-10"}
            if name.endswith(("costs_csv", "intervals_csv", "intervals-csv", "usage_csv"))
            else {}
        )
        for by in BY if name.endswith("costs_csv") else ({},):
            answer = client.get(url, month | by)
            assert answer.status_code == 200, (name, answer.status_code)
            made["-".join([name.replace(":", "-"), *by.values()])] = answer.getvalue()
    return made


def rated(folder: Path, name: str, currency: str) -> bytes:
    """What `manage.py rate` writes."""
    rows: dict[str, list[Sequence[str]]] = {
        "usage": [
            USAGE,
            (
                "u",
                name,
                "w",
                name,
                "gpu_held",
                "on_demand",
                "1",
                *("2026-10-05T10:00:00Z", "2026-10-05T11:00:00Z"),
            ),
        ],
        "rates": [RATES, (name, "gpu_held", "on_demand", "2026-01-01T00:00:00Z", "", "240")],
    }
    for file, cells in rows.items():
        with (folder / f"{file}.csv").open("w", newline="") as written:
            csv.writer(written, quoting=csv.QUOTE_ALL).writerows(cells)
    out = folder / "lines.csv"
    usage, rates = folder / "usage.csv", folder / "rates.csv"
    files_rate(usage=usage, rates=rates, zone=billing_zone(), currency=currency, month=OCTOBER, out=out)
    return out.read_bytes()
