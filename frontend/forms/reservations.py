"""Reserving a pool, as operators type it."""

from collections.abc import Iterable
from typing import Any

from django import forms

from frontend.forms import WRITTEN, Form, ProjectField, choices_set
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
    project = ProjectField(
        "Enter the project that pays.",
        "its organization gets the pool; the project is charged for idle GPUs",
        label="For project",
    )
    valid_from = moment_field(
        label="From", required=False, error_messages=WRITTEN, help_text="empty means now"
    )
    valid_to = moment_field(
        label="Until", required=False, error_messages=WRITTEN, help_text="leave empty for no end"
    )
    note = forms.CharField(max_length=300, required=False, help_text="its organization reads it, too")
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, flavors: Choices = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices_set(self, "flavor", [("", "choose"), *flavors])


class OfReservation(Form):
    """One of many on the page, each in a dialog of its own: `of` is the reservation, as it was read."""

    version = forms.IntegerField(required=False, widget=forms.HiddenInput)
    verb = ""

    def __init__(self, data: Any = None, *, of: PoolReservation, **initial: Any) -> None:
        super().__init__(data, initial={"version": of.version, **initial}, auto_id=f"{self.verb}-{of.pk}-%s")
        self.of = of.pk
        self.dialog, self.why_id = f"{self.verb}-{of.pk}", f"{self.verb}-{of.pk}-why"
        self.view = f"frontend:operator_reservation_{self.verb}"


class ChangeForm(OfReservation):
    """Its start stays."""

    verb = "change"
    valid_to = moment_field(
        label="Until", required=False, error_messages=WRITTEN, help_text="leave empty for no end"
    )
    note = forms.CharField(max_length=300, required=False, help_text="its organization reads it, too")

    def __init__(self, data: Any = None, *, of: PoolReservation) -> None:
        # as the field shows it, so that an end which is not touched is no change
        until = of.valid_to and of.valid_to.replace(second=0, microsecond=0)
        super().__init__(data, of=of, valid_to=until, note=of.note)


class EndForm(OfReservation):
    verb = "end"
    at = moment_field(label="End at", required=False, error_messages=WRITTEN, help_text="empty means now")
