"""Until when something is lent: a few usual lengths, or a day and hour; the same for workspaces and clusters."""

from datetime import datetime, timedelta
from typing import Any

from django import forms

LEASES = (("1", "1 day"), ("7", "1 week"), ("28", "4 weeks"), ("90", "90 days"), ("date", "On a date"))
DATE = "date"


class Moment(forms.DateTimeInput):
    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(format="%Y-%m-%dT%H:%M")


def moment_field(**kwargs: Any) -> forms.DateTimeField:
    """A date and time in the reader's zone, which the middleware has made the current one."""
    return forms.DateTimeField(
        widget=Moment(), input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"], **kwargs
    )


class LeaseForm(forms.Form):
    lease = forms.ChoiceField(
        label="Lease ends after", choices=LEASES, initial="28", widget=forms.RadioSelect
    )
    lease_ends_at = moment_field(
        label="Date and time",
        required=False,
        error_messages={"invalid": "Write it as year-month-day and hour."},
    )

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if (
            found.get("lease") == DATE
            and not found.get("lease_ends_at")
            and "lease_ends_at" not in self.errors
        ):
            self.add_error("lease_ends_at", "Choose the day and hour on which it ends.")
        return found

    def lease_end(self, *, now: datetime) -> datetime | None:
        lease = self.cleaned_data.get("lease")
        if lease == DATE:
            found: datetime | None = self.cleaned_data.get("lease_ends_at")
            return found
        return now + timedelta(days=int(lease)) if lease else None
