"""Reserving a pool, as operators type it."""

from collections.abc import Iterable
from typing import Any

from django import forms

from frontend.forms.lease import moment_field

Choices = Iterable[tuple[str, str]]
WRITTEN = {"invalid": "Write it as year-month-day and hour."}


class ReservationForm(forms.Form):
    """`confirmed` is set once what it means has been looked at."""

    flavor = forms.ChoiceField(
        label="Pool and price",
        error_messages={
            "required": "Choose what is reserved.",
            "invalid_choice": "There is no such flavor of the class reserved.",
        },
    )
    project = forms.ChoiceField(
        label="For",
        error_messages={"required": "Choose who pays for it.", "invalid_choice": "There is no such project."},
    )
    valid_from = moment_field(label="From", required=False, error_messages=WRITTEN)
    valid_to = moment_field(label="Until", required=False, error_messages=WRITTEN)
    note = forms.CharField(max_length=300, required=False)
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, flavors: Choices = (), projects: Choices = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, found in (("flavor", flavors), ("project", projects)):
            chosen = self.fields[name]
            if isinstance(chosen, forms.ChoiceField):
                chosen.choices = [("", "choose"), *found]


class EndForm(forms.Form):
    at = moment_field(label="At", required=False, error_messages=WRITTEN)
