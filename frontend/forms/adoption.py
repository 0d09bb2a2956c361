"""Adopting resources from before the portal: their project, the name of the workspace, and its size."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from frontend.forms import Form, RequiredText
from frontend.forms.workspaces import COUNT_MAX, STORAGE_MAX
from gpuaas.catalog.models import Flavor


class AdoptionForm(Form):
    """One count per flavor on sale at the site; the proposal is the initial value."""

    project = RequiredText("Enter a project.", 40, label="Project", help_text="the project's short name")
    name = RequiredText(
        "Enter a name for the workspace.",
        300,
        label="Name",
        help_text="of the workspace; the name at the site stays",
    )
    storage_gib = forms.IntegerField(
        label="Shared storage",
        min_value=0,
        max_value=STORAGE_MAX,
        required=False,
        error_messages={"invalid": "Enter a whole number of GiB."},
        help_text="for volumes",
    )
    members = forms.CharField(
        label="Members",
        required=False,
        max_length=2000,
        help_text="User names from the project, separated by commas. They can run workloads; project admins are admins here.",
    )

    def __init__(
        self, *args: Any, flavors: Sequence[Flavor], proposed: Mapping[str, int], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.flavors = flavors
        for flavor in flavors:
            self.fields[self.key(flavor.slug)] = forms.IntegerField(
                label=flavor.name,
                initial=proposed.get(flavor.slug, 0),
                min_value=0,
                max_value=COUNT_MAX,
                required=False,
                help_text=flavor.slug,
                error_messages={"invalid": "Enter a whole number."},
            )

    @staticmethod
    def key(slug: str) -> str:
        return f"count-{slug}"

    def counts(self) -> list[forms.BoundField]:
        return [self[self.key(flavor.slug)] for flavor in self.flavors]

    def wanted(self) -> list[tuple[str, int]]:
        pairs = [(flavor.slug, self.cleaned_data[self.key(flavor.slug)]) for flavor in self.flavors]
        return [(slug, count) for slug, count in pairs if count]

    def member_roles(self) -> list[tuple[str, str]]:
        text = str(self.cleaned_data["members"]).replace(",", " ")
        return [(name, "edit") for name in dict.fromkeys(text.split())]
