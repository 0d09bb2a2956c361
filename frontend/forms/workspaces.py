"""Requesting a workspace, changing it, and its members."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from frontend import formats
from frontend.forms import WHOLE, Form, RequiredText, choices_set, counts_of, sentence_of
from frontend.forms.lease import LeaseForm, moment_field, moment_typed
from frontend.presenters.tuning import PLACEMENTS
from gpuaas.catalog.selectors import storage_classes_sold
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.lifecycle.grants import lifetime_max
from gpuaas.lifecycle.lease import LEASE_MAX, lease_validate
from gpuaas.providers.base import Placement
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import AccessRole
from quotas.resources import STORAGE

LIFETIMES = (1, 8, 24)
COUNT_MAX = 1000
STORAGE_MAX = 1_000_000
UNCHANGED = "unchanged"


class RequestForm(LeaseForm):
    """`token` makes a second press of the button the same request."""

    flavor = RequiredText("Choose a GPU from the list.", 64)
    count = forms.IntegerField(
        label="Count",
        initial=1,
        error_messages=WHOLE,
    )
    storage_gib = forms.IntegerField(
        label="Shared storage",
        initial=100,
        required=False,
        help_text="For volumes, shared by everything in the workspace.",
        error_messages={"invalid": "Enter a whole number of GiB."},
    )
    storage_class = forms.ChoiceField(
        label="Storage class",
        required=False,
        help_text="Storage of a class of its own, beside the shared storage.",
        error_messages={"invalid_choice": "Choose one of the storage classes."},
    )
    class_gib = forms.IntegerField(
        label="Storage of that class",
        required=False,
        error_messages={"invalid": "Enter a whole number of GiB."},
    )
    placement = forms.ChoiceField(
        label="Placement",
        choices=lambda: [(place.value, PLACEMENTS[place][0]) for place in Placement],
        required=False,
        help_text="How close together pods are placed when there is room. Machines are placed by their cloud.",
        error_messages={"invalid_choice": "Choose one of the placements."},
    )
    name = RequiredText("Enter a name.", 300, help_text="1 to 40 lower-case letters, digits and hyphens.")
    members = forms.CharField(
        label="Other members",
        required=False,
        max_length=2000,
        help_text="User names from this project, separated by commas. You are the workspace's admin; they can run workloads.",
    )
    token = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sold = [(row.slug, f"{row.slug} at {row.site.slug}") for row in storage_classes_sold()]
        self.has_classes = bool(sold)
        choices_set(self, "storage_class", [("", "none"), *sold])

    def member_names(self) -> list[str]:
        text = str(self.cleaned_data.get("members", "")).replace(",", " ")
        return list(dict.fromkeys(text.split()))

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("storage_class") and not found.get("class_gib") and "class_gib" not in self.errors:
            self.add_error("class_gib", "Enter how many GiB of it, or choose no storage class.")
        if found.get("class_gib") and not found.get("storage_class") and "storage_class" not in self.errors:
            self.add_error("storage_class", "Choose the class, or leave its amount empty.")
        return found

    def classes(self) -> list[tuple[str, int]]:
        slug, gib = self.cleaned_data.get("storage_class"), self.cleaned_data.get("class_gib")
        return [(slug, gib)] if slug and gib is not None else []

    def wanted(self, *, now: datetime) -> dict[str, Any]:
        """As the service takes it; people are the view's, who knows the reader."""
        data = self.cleaned_data
        return {
            "name": data["name"],
            "items": [(data["flavor"], data["count"])],
            "storage_gib": data["storage_gib"] or 0,
            "storage_classes": self.classes(),
            "lease_ends_at": self.lease_end(now=now),
            "placement": data["placement"],
        }

    def beside(self) -> list[forms.BoundField]:
        """The fields that are checked while they are typed; the lease shows its errors itself."""
        classes = ("storage_class", "class_gib") if self.has_classes else ()
        return [self[name] for name in ("count", "storage_gib", *classes, "placement", "name", "members")]


def _bounded(label: str, most: int, sentence: str, **given: Any) -> forms.IntegerField:
    """A whole number from 0, each refusal of which names both bounds."""
    errors = dict.fromkeys(("required", "invalid", "min_value", "max_value"), sentence)
    return forms.IntegerField(label=label, min_value=0, max_value=most, error_messages=errors, **given)


NOTHING_LEFT = "Nothing would be left. To release everything, delete the workspace."


class ResizeForm(Form):
    """One count per flavor of the workspace, and its storage, by class where its site sells classes. `back`: starts from the
    confirmed size, not the requested one."""

    storage_gib = _bounded(
        "Shared storage", STORAGE_MAX, f"Enter a whole number of GiB from 0 to {STORAGE_MAX:,}."
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, workspace: Workspace, back: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.items = [item for item in workspace.flavors.all() if item.count or item.confirmed]
        self.fields["storage_gib"].initial = workspace.storage_gib
        self.fields["version"].initial = workspace.version
        for item in self.items:
            self.fields[self.key(item.flavor.slug)] = _bounded(
                item.flavor.name,
                COUNT_MAX,
                f"Enter a whole number from 0 to {COUNT_MAX:,}.",
                initial=item.confirmed if back else item.count,
            )
        held = {row.storage_class.slug: row for row in workspace.storage.all()}
        sold = storage_classes_sold().filter(site=workspace.site_id).values_list("slug", flat=True)
        self.slugs = sorted({*held, *sold})
        for slug in self.slugs:
            row = held.get(slug)
            self.fields[self.class_key(slug)] = _bounded(
                f"Storage {slug}",
                STORAGE_MAX,
                f"Enter a whole number of GiB from 1 to {STORAGE_MAX:,}, or 0 for none.",
                initial=0 if row is None else row.confirmed if back else row.gib,
                required=False,
            )

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        names = [self.key(item.flavor.slug) for item in self.items]
        if all(found.get(name) == 0 for name in names):
            for name in names:
                self.add_error(name, NOTHING_LEFT)
        return found

    @staticmethod
    def key(slug: str) -> str:
        return f"count-{slug}"

    @staticmethod
    def class_key(slug: str) -> str:
        return f"storage-{slug}"

    def class_fields(self) -> list[forms.BoundField]:
        return [self[self.class_key(slug)] for slug in self.slugs]

    def classes(self) -> list[tuple[str, int]]:
        """Storage classes with an amount; empty or zero takes one away."""
        pairs = [(slug, self.cleaned_data.get(self.class_key(slug)) or 0) for slug in self.slugs]
        return [(slug, gib) for slug, gib in pairs if gib]

    def counts(self) -> list[forms.BoundField]:
        return [self[self.key(item.flavor.slug)] for item in self.items]

    def fields_of(self) -> dict[str, str]:
        """Beside which field a limit of each resource is told."""
        return {
            STORAGE: "storage_gib",
            "storage_classes": self.class_key(self.slugs[0]) if self.slugs else "storage_gib",
            **counts_of((item.flavor, self.key(item.flavor.slug)) for item in self.items),
        }

    def wanted(self) -> list[tuple[str, int]]:
        """Flavors with a count; zero takes one away."""
        pairs = [(item.flavor.slug, self.cleaned_data[self.key(item.flavor.slug)]) for item in self.items]
        return [(slug, count) for slug, count in pairs if count != 0]


class ReasonForm(Form):
    """Why, for the other members: shown in the timeline and the audit log."""

    reason = forms.CharField(label="Reason", required=False, max_length=200)


class LifetimeForm(Form):
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
        error_messages={"required": "Choose a lifetime.", "invalid_choice": "Choose one of the lifetimes."},
    )


class RobotForm(Form):
    name = RequiredText(
        "Enter a name.",
        300,
        label="Name",
        help_text="Lower-case letters, digits and hyphens, for example ci.",
    )
    role = forms.ChoiceField(label="Role", choices=AccessRole, initial=AccessRole.EDIT)


class ExtendForm(Form):
    """`ends_at`: the current end: the initial value, which is refused as UNCHANGED, and the earliest new one."""

    until = moment_field(label="New end of the lease", error_messages={"required": "Choose a date and time."})

    def __init__(self, *args: Any, ends_at: datetime, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["until"]
        field.initial = ends_at
        field.widget.attrs |= {
            "min": moment_typed(max(ends_at, clock.now())),
            "max": moment_typed(clock.now() + LEASE_MAX),
        }
        self.ends_at = ends_at

    def clean_until(self) -> datetime:
        until: datetime = self.cleaned_data["until"]
        now, ends_at = clock.now(), self.ends_at
        if until == ends_at.replace(second=0, microsecond=0):
            raise ValidationError("The lease ends then already. Choose a later time.", UNCHANGED)
        try:
            lease_validate(until, now=now)
            problem = "" if until > ends_at else "Choose a time after the current end of the lease."
        except Invalid as error:
            problem = sentence_of(error.fields["lease_ends_at"][0])
        if problem:
            bounds = f"{formats.when(max(ends_at, now))} and until {formats.when(now + LEASE_MAX)}"
            raise ValidationError(f"{problem} It must be after {bounds}.")
        return until


class MemberForm(Form):
    user = RequiredText("Enter the exact user name.", 150, label="User name")
    role = forms.ChoiceField(choices=AccessRole, initial=AccessRole.EDIT)
