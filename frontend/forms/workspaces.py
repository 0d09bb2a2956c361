"""Asking for a workspace, changing it, letting people in."""

from datetime import timedelta
from typing import Any

from django import forms

from frontend.forms.lease import LeaseForm, moment_field
from frontend.presenters.tuning import PLACEMENTS
from gpuaas.providers.base import Placement
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.access import lifetime_max
from gpuaas.workspaces.states import AccessRole

LIFETIMES = (1, 8, 24)
COUNT_MAX = 1000
STORAGE_MAX = 1_000_000


class RequestForm(LeaseForm):
    """`token` makes a second press of the button the same request."""

    flavor = forms.CharField(max_length=64, error_messages={"required": "Choose a GPU from the list."})
    count = forms.IntegerField(
        label="Count",
        initial=1,
        error_messages={"required": "Say how many.", "invalid": "A whole number, please."},
    )
    storage_gib = forms.IntegerField(
        label="Shared storage",
        initial=100,
        required=False,
        error_messages={"invalid": "A whole number of GiB, please."},
    )
    placement = forms.ChoiceField(
        label="Placement",
        choices=lambda: [(place.value, PLACEMENTS[place][0]) for place in Placement],
        required=False,
        error_messages={"invalid_choice": "Choose one of the placements."},
    )
    name = forms.CharField(max_length=300, error_messages={"required": "Give it a name."})
    members = forms.CharField(label="Also let in", required=False, max_length=2000)
    token = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)

    def member_names(self) -> list[str]:
        text = str(self.cleaned_data.get("members", "")).replace(",", " ")
        return list(dict.fromkeys(text.split()))


class ResizeForm(forms.Form):
    """One count per flavor that the workspace has, and its storage. `back`: begins at what was confirmed, not at what was asked."""

    storage_gib = forms.IntegerField(label="Shared storage", required=False)
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, workspace: Workspace, back: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.items = [item for item in workspace.flavors.all() if item.count or item.confirmed]
        self.fields["storage_gib"].initial = workspace.storage_gib
        self.fields["version"].initial = workspace.version
        for item in self.items:
            self.fields[self.key(item.flavor.slug)] = forms.IntegerField(
                label=item.flavor.name,
                initial=item.confirmed if back else item.count,
                error_messages={"required": "Say how many.", "invalid": "A whole number, please."},
            )

    @staticmethod
    def key(slug: str) -> str:
        return f"count-{slug}"

    def counts(self) -> list[forms.BoundField]:
        return [self[self.key(item.flavor.slug)] for item in self.items]

    def wanted(self) -> list[tuple[str, int]]:
        """Flavors with a count; zero takes one away."""
        pairs = [(item.flavor.slug, self.cleaned_data[self.key(item.flavor.slug)]) for item in self.items]
        return [(slug, count) for slug, count in pairs if count != 0]


class ReasonForm(forms.Form):
    """A word for the others, in the timeline and the audit log."""

    reason = forms.CharField(label="Reason", required=False, max_length=200)


class LifetimeForm(forms.Form):
    """How long a credential opens the workspace, in hours."""

    lifetime = forms.TypedChoiceField(
        label="Valid for",
        choices=lambda: [
            (str(hours), f"{hours} hour{'' if hours == 1 else 's'}")
            for hours in LIFETIMES
            if timedelta(hours=hours) <= lifetime_max()
        ],
        coerce=lambda hours: timedelta(hours=int(hours)),
        initial="8",
        error_messages={"required": "Say for how long.", "invalid_choice": "Choose one of the lifetimes."},
    )


class RobotForm(forms.Form):
    name = forms.CharField(label="Name", max_length=300, error_messages={"required": "Give it a name."})
    role = forms.ChoiceField(label="It may", choices=AccessRole, initial=AccessRole.EDIT)


class ExtendForm(forms.Form):
    until = moment_field(label="New end of the lease", error_messages={"required": "Choose a day and hour."})


class MemberForm(forms.Form):
    user = forms.CharField(
        label="User name", max_length=150, error_messages={"required": "Write the exact user name."}
    )
    role = forms.ChoiceField(choices=AccessRole, initial=AccessRole.EDIT)
