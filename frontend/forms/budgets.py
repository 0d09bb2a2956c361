"""A budget as a person types it: its terms, and one row per threshold."""

from collections.abc import Iterator, Sequence
from typing import Any

from django import forms

from billing.models import Budget, BudgetAction, Measure, Period
from billing.services.budgets import THRESHOLDS_MOST, BudgetTerms
from frontend.forms import Form, RequiredText, choices_set

ROWS = 4
FIRST = ((50, BudgetAction.NOTIFY), (80, BudgetAction.NOTIFY), (100, BudgetAction.BLOCK))


def day_field(label: str) -> forms.DateField:
    return forms.DateField(
        label=label,
        required=False,
        widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
        error_messages={"invalid": "Enter a date as year-month-day."},
    )


class BudgetForm(Form):
    """Thresholds are `percent_1`, `action_1` and so on; a row without a percentage is none."""

    name = RequiredText("Enter a name.", 60)
    measure = forms.ChoiceField(label="Measure", choices=Measure)
    amount = RequiredText("Enter an amount.", 24)
    period = forms.ChoiceField(choices=Period)
    starts_on = day_field("First day")
    ends_on = day_field("Last day")
    holder = forms.ChoiceField(label="For", required=False)
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, *args: Any, rows: int = ROWS, holders: Sequence[tuple[str, str]] = (), **kwargs: Any
    ) -> None:
        """holders: ids of workspaces and clusters of the project, and what the list calls them."""
        super().__init__(*args, **kwargs)
        self.rows = range(1, max(ROWS, min(rows, THRESHOLDS_MOST)) + 1)
        choices_set(self, "holder", [("", "Whole project"), *holders])
        for row in self.rows:
            self.fields[f"percent_{row}"] = forms.IntegerField(
                label=f"Threshold {row}, percent",
                required=False,
                error_messages={"invalid": "Enter a whole number."},
            )
            self.fields[f"action_{row}"] = forms.ChoiceField(
                label=f"Threshold {row}, action", choices=BudgetAction, required=False
            )

    def threshold_fields(self) -> Iterator[tuple[forms.BoundField, forms.BoundField]]:
        for row in self.rows:
            yield self[f"percent_{row}"], self[f"action_{row}"]

    def terms(self) -> BudgetTerms:
        """Thresholds in the order of their percentages, wherever they were typed."""
        asked = self.cleaned_data
        rows = [(asked[f"percent_{row}"], asked[f"action_{row}"]) for row in self.rows]
        thresholds = sorted(
            (percent, action or BudgetAction.NOTIFY.value) for percent, action in rows if percent is not None
        )
        return BudgetTerms(
            name=asked["name"],
            measure=asked["measure"],
            amount=asked["amount"].strip(),
            period=asked["period"],
            thresholds=thresholds,
            starts_on=asked["starts_on"],
            ends_on=asked["ends_on"],
        )


def initial_of(budget: Budget, amount: object) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: getattr(budget, name)
        for name in ("name", "measure", "period", "starts_on", "ends_on", "version")
    }
    thresholds = [(row.percent, row.action) for row in budget.thresholds.all()]
    return found | {"amount": amount} | thresholds_shown(thresholds)


def thresholds_shown(thresholds: Sequence[tuple[int, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row, (percent, action) in enumerate(thresholds, start=1):
        found |= {f"percent_{row}": percent, f"action_{row}": action}
    return found
