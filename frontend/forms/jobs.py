"""Submitting a job, and submitting one again."""

import shlex
from typing import Any

from django import forms

from frontend.forms import RequiredText
from frontend.forms.inside import InsideForm, whole
from gpuaas.jobs.models import Job
from gpuaas.jobs.order import AT_ONCE_MOST, DEADLINE_MOST, RETRIES_MOST, TASKS_MOST, USUAL
from gpuaas.workspaces.room import LABELS, MOST

LINES = {"rows": 3, "spellcheck": "false"}
VARIABLES = "Enter each variable on a line of its own, as NAME=value."


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


class JobForm(InsideForm):
    asks = Job.asks

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
    gpus = whole(LABELS["gpus"], 0, MOST["gpus"], initial=USUAL["gpus"])
    vcpus = whole(LABELS["vcpus"], 1, MOST["vcpus"], initial=USUAL["vcpus"])
    memory_gib = whole(LABELS["memory_gib"], 1, MOST["memory_gib"], initial=USUAL["memory_gib"])
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
    deadline_seconds = whole(
        "Deadline in seconds",
        1,
        DEADLINE_MOST,
        required=False,
        help_text="After its start at the site, retries included. Empty: none.",
    )
    retries = whole(
        "Retries",
        0,
        RETRIES_MOST,
        initial=USUAL["retries"],
        help_text="How often it is started anew after it failed. Tasks that do not run together have these each.",
    )
    tasks = whole(
        "Tasks",
        1,
        TASKS_MOST,
        initial=USUAL["tasks"],
        help_text="How many of it run, each with all of the above. Each finds its number, from 0, in JOB_COMPLETION_INDEX.",
    )
    together = forms.BooleanField(
        label="Run them together",
        required=False,
        help_text="All start together and find one another by name, as for torchrun and MPI; one that fails ends the others.",
    )
    at_once = whole(
        "Tasks at once",
        1,
        AT_ONCE_MOST,
        required=False,
        help_text="How many run at the same time. Empty: as many as fit in what the workspace has bought.",
    )


def again(row: Job) -> dict[str, Any]:
    """What the form of a repetition begins with."""
    kept = {name: getattr(row, name) for name in JobForm.base_fields if name not in {"workspace", "gpu"}}
    gpu = row.pool.gpu_type.slug if row.pool is not None else ""
    at_once = row.at_once if row.tasks > 1 and not row.together else None
    return {**kept, "workspace": str(row.workspace_id), "gpu": gpu, "at_once": at_once}
