"""A budget as a person types it: its terms, and one row per threshold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django import forms

from billing.models import Budget, BudgetAction, Measure, Period
from billing.services.budgets import THRESHOLDS_MOST, BudgetTerms
from frontend.forms import Form, RequiredText, choices_set, refuse
from gpuaas.core.errors import Invalid

ROWS = 4
FIELDS = {"thresholds": "percent_1"}
FIRST = ((50, BudgetAction.NOTIFY), (80, BudgetAction.NOTIFY), (100, BudgetAction.BLOCK))


def day_field(label: str, help_text: str) -> forms.DateField:
    return forms.DateField(
        label=label,
        help_text=help_text,
        required=False,
        widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
        error_messages={"invalid": "Enter a date as year-month-day."},
    )


class BudgetForm(Form):
    """Thresholds are `percent_1`, `action_1` and so on; a row without a percentage is none."""

    name = RequiredText("Enter a name.", 60)
    measure = forms.ChoiceField(label="Measure", choices=Measure)
    amount = RequiredText("Enter an amount.", 24)
    period = forms.ChoiceField(
        choices=Period, help_text="in the billing time zone; spending starts at zero in each period"
    )
    starts_on = day_field("First day", "only for a fixed period")
    ends_on = day_field("Last day", "inclusive")
    holder = forms.ChoiceField(label="For", required=False)
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        *args: Any,
        wrong: Callable[[BudgetTerms], Mapping[str, Sequence[str]]],
        rows: int = ROWS,
        holders: Sequence[tuple[str, str]] = (),
        **kwargs: Any,
    ) -> None:
        """wrong: what the service would refuse of the terms; holders: ids of workspaces and clusters of the project, and what the
        list calls them."""
        super().__init__(*args, **kwargs)
        self.wrong = wrong
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

    def clean(self) -> dict[str, Any]:
        """What the service would refuse is said together with what cannot be read."""
        found = super().clean() or {}
        unread = set(self.errors)
        if any(name.startswith("percent_") for name in unread):
            unread.add("thresholds")
        for name, sentences in self.wrong(self.terms()).items():
            if name not in unread:
                refuse(self, Invalid("", fields={name: sentences}), fields=FIELDS)
        return found

    def terms(self) -> BudgetTerms:
        """Thresholds in the order of their percentages, wherever they were typed."""
        asked = {name: self.cleaned_data.get(name) for name in self.fields}
        rows = [(asked[f"percent_{row}"], asked[f"action_{row}"]) for row in self.rows]
        thresholds = sorted(
            (percent, action or BudgetAction.NOTIFY.value) for percent, action in rows if percent is not None
        )
        return BudgetTerms(
            name=asked["name"] or "",
            measure=asked["measure"] or "",
            amount=asked["amount"] or "",
            period=asked["period"] or "",
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
