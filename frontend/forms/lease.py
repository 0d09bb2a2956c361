"""The lease of a workspace or cluster: one of a few usual lengths, or a date and time."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils import timezone

from frontend.forms import WRITTEN, Form, refuse
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.lifecycle.lease import LEASE_MAX, lease_validate

LEASES = (("1", "1 day"), ("7", "1 week"), ("28", "4 weeks"), ("90", "90 days"), ("date", "On a date"))
DATE = "date"
YEARS = (1970, 9998)
TYPED = "%Y-%m-%dT%H:%M"


class Moment(forms.DateTimeInput):
    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(format=TYPED)


def moment_typed(moment: datetime) -> str:
    """The value of such a field as a browser writes it, in the reader's zone."""
    return f"{timezone.localtime(moment):{TYPED}}"


def moment_field(**kwargs: Any) -> forms.DateTimeField:
    """A date and time in the reader's zone, which the middleware has made the current one."""
    given = {"input_formats": [TYPED, "%Y-%m-%dT%H:%M:%S"], "validators": [year_check], **kwargs}
    return forms.DateTimeField(widget=Moment(), **given)


def year_check(moment: datetime) -> None:
    """The first and last days that Python knows overflow in another zone."""
    if not YEARS[0] <= moment.year <= YEARS[1]:
        raise forms.ValidationError(f"Enter a year from {YEARS[0]} to {YEARS[1]}.")


class LeaseForm(Form):
    """A date that is typed wins over the length that is chosen beside it."""

    lease = forms.ChoiceField(
        label="Lease ends after", choices=LEASES, initial="28", widget=forms.RadioSelect
    )
    lease_ends_at = moment_field(
        label="Date and time",
        required=False,
        error_messages=WRITTEN,
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(_by_its_day(data), *args, **kwargs)

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if "lease_ends_at" in self.errors:
            return found
        if found.get("lease") == DATE and not found.get("lease_ends_at"):
            self.add_error("lease_ends_at", "Choose the date and time the lease ends.")
            return found
        now = clock.now()
        try:
            lease_validate(self.lease_end(now=now), now=now)
        except Invalid as error:
            refuse(self, error)
        return found

    def lease_end(self, *, now: datetime) -> datetime | None:
        lease = self.cleaned_data.get("lease")
        if lease == DATE:
            found: datetime | None = self.cleaned_data.get("lease_ends_at")
            return found
        return now + timedelta(days=int(lease)) if lease else None

    @property
    def lease_errors(self) -> str:
        return " ".join(map(str, (*self["lease_ends_at"].errors, *self["lease"].errors)))

    @property
    def earliest(self) -> str:
        return moment_typed(clock.now() + timedelta(minutes=1))

    @property
    def latest(self) -> str:
        return moment_typed(clock.now() + LEASE_MAX)


def _by_its_day(data: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if not data or not str(data.get("lease_ends_at") or "").strip():
        return data
    return {**(data.dict() if isinstance(data, QueryDict) else data), "lease": DATE}


def typed_only(form: forms.Form, *names: str) -> None:
    """While the form is filled in, fields that are still empty show no error."""
    for name in names:
        if not str(form.data.get(name) or "").strip():
            form.errors.pop(name, None)
