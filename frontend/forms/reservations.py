"""Reserving a pool, as operators type it."""

import uuid
from collections.abc import Iterable
from typing import Any

from django import forms

from frontend.forms import WRITTEN, Form, choices_set
from frontend.forms.lease import moment_field
from quotas.models import PoolReservation

Choices = Iterable[tuple[str, str]]


class ReservationForm(Form):
    """`confirmed` is set once the operator has reviewed the effect."""

    flavor = forms.ChoiceField(
        label="Pool and price",
        error_messages={
            "required": "Choose a pool and price.",
            "invalid_choice": "This is not a flavor of the class reserved.",
        },
        help_text="reserves all GPUs of its type at its site; flavors of the class reserved",
    )
    project = forms.ChoiceField(
        label="For",
        error_messages={
            "required": "Choose the project that pays.",
            "invalid_choice": "This project does not exist.",
        },
        help_text="its organization gets the pool; the project is charged for idle GPUs",
    )
    valid_from = moment_field(
        label="From", required=False, error_messages=WRITTEN, help_text="empty means now"
    )
    valid_to = moment_field(
        label="Until", required=False, error_messages=WRITTEN, help_text="leave empty for no end"
    )
    note = forms.CharField(max_length=300, required=False, help_text="its organization reads it, too")
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, flavors: Choices = (), projects: Choices = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, found in (("flavor", flavors), ("project", projects)):
            choices_set(self, name, [("", "choose"), *found])


class ChangeForm(Form):
    """One of many on the page: `of` is the reservation. Its start stays."""

    valid_to = moment_field(
        label="Until", required=False, error_messages=WRITTEN, help_text="leave empty for no end"
    )
    note = forms.CharField(max_length=300, required=False, help_text="its organization reads it, too")

    def __init__(self, data: Any = None, *, of: PoolReservation) -> None:
        # as the field shows it, so that an end which is not touched is no change
        until = of.valid_to and of.valid_to.replace(second=0, microsecond=0)
        initial = {"valid_to": until, "note": of.note}
        super().__init__(data, initial=initial, auto_id=f"change-{of.pk}-%s")
        self.of = of.pk


class EndForm(Form):
    """One of many on the page: `of` is the reservation."""

    at = moment_field(label="End at", required=False, error_messages=WRITTEN, help_text="empty means now")

    def __init__(self, data: Any = None, *, of: uuid.UUID) -> None:
        super().__init__(data, auto_id=f"end-{of}-%s")
        self.of = of
