"""What a month has cost so far, and is expected to."""

from billing.selectors import statement
from billing.selectors.running import rest_of_month
from tests.frontend.figures import reading
from tests.frontend.figures.places import (
    Figure,
    Place,
    csv_sum,
    eur,
    expected,
    json_of,
    page,
)

MONTH = (
    Figure(
        "project, month so far",
        lambda r, s: statement(actor=r.as_alice, project=s.project).total,
        (
            Place(
                "home",
                lambda r, s: reading.value(page(r.alice, "home", s.project.slug), "November so far"),
                eur,
            ),
            Place(
                "costs",
                lambda r, s: reading.value(page(r.alice, "costs", s.project.slug), "November so far"),
                eur,
            ),
            Place("usage", lambda r, s: reading.value(page(r.alice, "usage", s.project.slug), "So far"), eur),
            Place(
                "organization's projects",
                lambda r, s: reading.cell(
                    page(r.alice, "projects", s.project.organization.slug), s.project.slug, "So far"
                ),
                eur,
            ),
            Place(
                "operator's usage",
                lambda r, s: reading.cell(page(r.olga, "operator_usage"), s.project.slug, "Amount"),
                eur,
            ),
            Place(
                "costs.csv",
                lambda r, s: csv_sum(r.alice, "costs_csv", "amount", s.project.slug, by="workspace"),
                str,
            ),
            Place("API", lambda r, s: json_of(r.alice, f"projects/{s.project.slug}/costs", "total"), str),
            Place(
                "API, statement",
                lambda r, s: json_of(r.alice, f"projects/{s.project.slug}/statements/2026-11", "total"),
                str,
            ),
            Place(
                "API, budget",
                lambda r, s: json_of(r.alice, f"projects/{s.project.slug}/budgets/{s.budget.pk}", "spent"),
                str,
            ),
        ),
    ),
    Figure(
        "project, month expected",
        lambda r, s: (
            statement(actor=r.as_alice, project=s.project).total
            + rest_of_month(actor=r.as_alice, project=s.project)
        ),
        (
            Place(
                "home",
                lambda r, s: reading.value(page(r.alice, "home", s.project.slug), "November expected"),
                eur,
            ),
            Place(
                "costs",
                lambda r, s: reading.value(page(r.alice, "costs", s.project.slug), "November expected"),
                eur,
            ),
            Place(
                "budgets",
                lambda r, s: expected(page(r.alice, "budgets", s.project.slug), "autumn"),
                eur,
            ),
            Place(
                "API, budget",
                lambda r, s: json_of(r.alice, f"projects/{s.project.slug}/budgets/{s.budget.pk}", "forecast"),
                str,
            ),
        ),
    ),
    Figure(
        "organization, month expected",
        lambda r, s: (
            statement(actor=r.as_alice, organization=s.project.organization).total
            + rest_of_month(actor=r.as_alice, organization=s.project.organization)
        ),
        (
            Place(
                "costs",
                lambda r, s: reading.value(
                    page(r.alice, "organization_costs", s.project.organization.slug), "November expected"
                ),
                eur,
            ),
            Place(
                "budgets",
                lambda r, s: expected(
                    page(r.alice, "organization_budgets", s.project.organization.slug), "whole"
                ),
                eur,
            ),
            Place(
                "operator's budgets",
                lambda r, s: expected(page(r.olga, "operator_budgets"), "whole"),
                eur,
            ),
        ),
    ),
)
