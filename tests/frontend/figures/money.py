"""What holders, organizations and the platform have cost and used so far, and budgets with their mails."""

from decimal import Decimal

from django.urls import reverse

from billing.readings import reading_of
from billing.selectors import statement
from billing.selectors.budgets import amount_shown
from billing.selectors.costs import HolderCost, cost_by_holder
from frontend.formats import money
from tests.frontend.figures import reading
from tests.frontend.figures.places import (
    Figure,
    Place,
    Readers,
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
