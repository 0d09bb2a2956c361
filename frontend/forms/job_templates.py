"""Templates of jobs: the form of a job, in which everything may be left open, and what is locked of it."""

from typing import Any

from django import forms

from frontend.forms import RequiredText
from frontend.forms.jobs import JobForm
from gpuaas.jobs.document import FIELDS, NEEDED
from gpuaas.staging.transfers import FIELDS as PARTS
from gpuaas.staging.transfers import Way
from gpuaas.workspaces.models import Workspace

LABELS = {name: str(field.label) for name, field in JobForm.base_fields.items()} | {
    f"{way}puts": str(way.label) for way in Way
}
# by its field, what the service calls it
OWN = {"saved_as": "name", "description": "description", "locked": "locked"}


class JobTemplateForm(JobForm):
    saved_as = RequiredText(
        "Enter a name.",
        300,
        label="Name of the template",
        help_text="Lower-case letters, digits and hyphens. Jobs are submitted by it.",
    )
    description = forms.CharField(
        label="Description", max_length=1000, required=False, help_text="One line, for what it is used."
    )
    locked = forms.MultipleChoiceField(
        label="Locked fields",
        required=False,
        choices=[(name, LABELS[name]) for name in FIELDS],
        widget=forms.CheckboxSelectMultiple,
        help_text="All other fields can be changed in a job that is submitted by the template.",
    )

    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, rooms: dict[str, Workspace], **kwargs: Any) -> None:
        """rooms: the workspaces of the project, ready or not."""
        super().__init__(*args, rooms=rooms, wrong=lambda **_: {}, **kwargs)
        for name in NEEDED:
            self.fields[name].required = False
        workspace = self.fields["workspace"]
        workspace.help_text = "Left open, it is chosen for each job."
        self.fields["name"].label = "Name of the jobs"
        workspace.choices = [("", "chosen for each job"), *workspace.choices]  # type: ignore[attr-defined]

    def template_fields(self) -> dict[str, Any]:
        """What the service takes."""
        asked = {**self.asked(), "workspace": self.cleaned_data.get("workspace")}
        order = {name: asked[name] for name in FIELDS if name in asked and asked[name] not in ("", None)}
        return {**{to: self.cleaned_data[name] for name, to in OWN.items()}, "order": order}

    def refused_at(self) -> dict[str, str]:
        """Beside which field stands what the service refuses, by its names."""
        found = {"name": "saved_as", **{f"order.{name}": name for name in FIELDS}}
        for way in Way:
            paths = [f"{way}puts.{at}.{part}" for at in range(len(self.filled(way))) for part in PARTS]
            found |= {f"order.{path}": self.field_of(path) for path in paths}
        return found
