"""Submitting a job, and submitting one again."""

import shlex
from collections.abc import Sequence
from typing import Any

from django import forms

from frontend.forms import WHOLE, Form, RequiredText, Wrong, choices_set, refuse_readable
from gpuaas.jobs.models import Job
from gpuaas.jobs.order import DEADLINE_MOST, LABELS, MOST, RETRIES_MOST, USUAL

Choices = Sequence[tuple[str, str]]
LINES = {"rows": 3, "spellcheck": "false"}
VARIABLES = "Enter each variable on a line of its own, as NAME=value."


def _whole(label: str, least: int, most: int, **kwargs: Any) -> forms.IntegerField:
    attrs = {"min": least, "max": most, "inputmode": "numeric"}
    return forms.IntegerField(
        label=label, error_messages=WHOLE, widget=forms.NumberInput(attrs=attrs), **kwargs
    )


class Words(forms.CharField):
    """Words as in a shell, where quotes keep spaces together; nothing of it is read by a shell."""

    widget = forms.Textarea(attrs={"rows": 2, "spellcheck": "false"})

    def to_python(self, value: Any) -> Any:
        try:
            return shlex.split(super().to_python(value))
        except ValueError as error:
            raise forms.ValidationError("Close the quotes, or put a \\ before a quote.") from error

    def prepare_value(self, value: Any) -> Any:
        return shlex.join(value) if isinstance(value, list | tuple) else value

    def validate(self, value: Any) -> None:
        """What may be is the service's question."""

    def run_validators(self, value: Any) -> None:
        """They are of texts."""


class Variables(forms.CharField):
    """Lines of NAME=value."""

    widget = forms.Textarea(attrs=LINES)

    def to_python(self, value: Any) -> Any:
        lines = [line.strip("\r") for line in str(super().to_python(value)).splitlines() if line.strip()]
        if not all("=" in line for line in lines):
            raise forms.ValidationError(VARIABLES)
        pairs = [(name.strip(), text) for name, _, text in (line.partition("=") for line in lines)]
        names = [name for name, _ in pairs]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise forms.ValidationError(f"{twice} is named twice. Keep one of the lines.")
        return dict(pairs)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value

    def validate(self, value: Any) -> None:
        """What may be is the service's question."""

    def run_validators(self, value: Any) -> None:
        """They are of texts."""


class JobForm(Form):
    workspace = forms.ChoiceField(
        label="Workspace",
        help_text="It uses what this workspace has bought. Only workspaces that are ready are listed.",
        error_messages={
            "required": "Choose a workspace.",
            "invalid_choice": "Choose one of the workspaces that are ready.",
        },
    )
    name = RequiredText(
        "Enter a name.", 300, label="Name", help_text="Lower-case letters, digits and hyphens."
    )
    image = RequiredText(
        "Enter the name of an image.",
        300,
        label="Container image",
        help_text="For example ghcr.io/lab/train:3.",
    )
    command = Words(
        label="Command",
        required=False,
        max_length=100_000,
        help_text="In place of the image's, such as python train.py. No shell reads it: for one, write sh -c '…'.",
    )
    arguments = Words(
        label="Arguments", required=False, max_length=100_000, help_text="Added to the command."
    )
    variables = Variables(
        label="Variables",
        required=False,
        max_length=100_000,
        help_text="One NAME=value on each line. Everybody in the project can read them: enter no passwords.",
    )
    gpu = forms.ChoiceField(
        label="GPU type", required=False, help_text="Only needed where the workspace has several."
    )
    gpus = _whole(LABELS["gpus"], 0, MOST["gpus"], initial=USUAL["gpus"])
    vcpus = _whole(LABELS["vcpus"], 1, MOST["vcpus"], initial=USUAL["vcpus"])
    memory_gib = _whole(LABELS["memory_gib"], 1, MOST["memory_gib"], initial=USUAL["memory_gib"])
    volume = forms.CharField(
        label="Volume",
        max_length=300,
        required=False,
        help_text="The name of one of the workspace. Empty: none.",
    )
    mount = forms.CharField(
        label="Folder of the volume",
        max_length=300,
        required=False,
        help_text="Where it is mounted, for example /data.",
    )
    deadline_seconds = _whole(
        "Deadline in seconds",
        1,
        DEADLINE_MOST,
        required=False,
        help_text="After its start at the site, retries included. Empty: none.",
    )
    retries = _whole(
        "Retries",
        0,
        RETRIES_MOST,
        initial=USUAL["retries"],
        help_text="How often it is started anew after it failed.",
    )

    def __init__(self, *args: Any, workspaces: Choices, gpus: Choices, wrong: Wrong, **kwargs: Any) -> None:
        """wrong: what the service would refuse of an order in the workspace of that id."""
        super().__init__(*args, **kwargs)
        self.wrong = wrong
        choices_set(self, "workspace", workspaces)
        choices_set(self, "gpu", [("", "the workspace's own"), *gpus])

    def clean(self) -> dict[str, Any]:
        """What the service would refuse is said together with what cannot be read."""
        found = super().clean() or {}
        refuse_readable(self, self.wrong(found.get("workspace", ""), self.asked()))
        return found

    def asked(self) -> dict[str, Any]:
        """What the service takes, but the workspace."""
        return {"name": "", **{name: each for name, each in self.cleaned_data.items() if name != "workspace"}}

    def sizes(self) -> list[forms.BoundField]:
        return [self[name] for name in MOST]


def again(row: Job) -> dict[str, Any]:
    """What the form of a repetition begins with."""
    kept = {name: getattr(row, name) for name in JobForm.base_fields if name not in {"workspace", "gpu"}}
    gpu = row.pool.gpu_type.slug if row.pool is not None else ""
    return {**kept, "workspace": str(row.workspace_id), "gpu": gpu}
