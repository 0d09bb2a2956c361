"""Submitting a job, and submitting one again."""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from frontend.forms import RequiredText, choices_set, keep_choice
from frontend.forms.inside import InsideForm, whole
from frontend.forms.transfers import TransferRows, filled_of, row_field
from gpuaas.jobs.document import USUALLY, order_of
from gpuaas.jobs.models import Job, JobTemplate
from gpuaas.jobs.order import AT_ONCE_MOST, DEADLINE_MOST, RETRIES_MOST, TASKS_MOST, USUAL
from gpuaas.jobs.states import Launcher, Priority
from gpuaas.staging.transfers import FILES, Way
from gpuaas.workspaces.room import LABELS, MOST

LINES = {"rows": 3, "spellcheck": "false"}
VARIABLES = "Enter each variable on a line of its own, as NAME=value."


def lines_of(sent: str, most: int | None) -> str:
    """As it was typed: browsers send each end of a line as CR LF. What is longer than `most` is refused before it is read."""
    text = sent.replace("\r\n", "\n")
    if most is not None and len(text) > most:
        raise forms.ValidationError(f"Write at most {most:,} characters; these are {len(text):,}.")
    return text


class Words(forms.CharField):
    """Words as in a shell, where quotes keep spaces together; nothing of it is read by a shell."""

    widget = forms.Textarea(attrs={"rows": 2, "spellcheck": "false"})

    def to_python(self, value: Any) -> Any:
        if isinstance(value, list | tuple):  # of a template that locks it
            return list(value)
        try:
            return shlex.split(lines_of(super().to_python(value) or "", self.max_length))
        except ValueError as error:
            raise forms.ValidationError("Close the quotes, or put a \\ before a quote.") from error

    def prepare_value(self, value: Any) -> Any:
        return shlex.join(value) if isinstance(value, list | tuple) else value

    def validate(self, value: Any) -> None:
        """What may be is the service's question."""

    def run_validators(self, value: Any) -> None:
        """They are of texts."""


class Variables(forms.CharField):
    """Lines of NAME=value; one that begins with a tab continues the value above it."""

    widget = forms.Textarea(attrs=LINES)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(strip=False, **kwargs)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, dict):  # of a template that locks it
            return value
        typed = re.split(r"\n(?!\t)", lines_of(super().to_python(value) or "", self.max_length))
        lines = [line.replace("\n\t", "\n") for line in typed if line.strip()]
        if not all("=" in line for line in lines):
            raise forms.ValidationError(VARIABLES)
        pairs = [(name.strip(), text) for name, _, text in (line.partition("=") for line in lines)]
        counted = Counter(name for name, _ in pairs)
        if twice := next((name for name, count in counted.items() if count > 1), ""):
            raise forms.ValidationError(f"{twice} is named twice. Keep one of the lines.")
        return dict(pairs)

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return "\n".join(f"{name}={text}".replace("\n", "\n\t") for name, text in value.items())

    def validate(self, value: Any) -> None:
        """What may be is the service's question."""

    def run_validators(self, value: Any) -> None:
        """They are of texts."""


class JobForm(TransferRows, InsideForm):
    asks = Job.asks
    hints = {
        Way.IN: "Moved to a volume before the job takes GPUs: from s3://bucket/prefix with a credential of the project, or one "
        "file from https://….",
        Way.OUT: "Moved to s3://bucket/prefix after the job has succeeded and given its GPUs back.",
    }

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
        help_text="One NAME=value on each line; a line that begins with a tab continues the value. "
        "Everybody in the project can read them: enter no passwords.",
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
    priority = forms.ChoiceField(
        label="Priority",
        choices=Priority.choices,
        initial=USUAL["priority"],
        help_text="Jobs of a higher priority leave the queue of the workspace first.",
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
    launcher = forms.ChoiceField(
        label="Launcher",
        choices=[("", "None: each task runs the command"), *Launcher.choices],
        required=False,
        help_text="With MPI task 0 alone runs the command, such as mpirun python train.py, and the others serve it by SSH. Needs "
        "tasks that run together, and OpenSSH in the image.",
    )
    runtime = forms.ChoiceField(
        label="Training runtime",
        required=False,
        help_text="Kubeflow Trainer starts the tasks with this runtime of the site, as a TrainJob. Needs tasks that run together; without "
        "a command they run the runtime's own.",
    )
    at_once = whole(
        "Tasks at once",
        1,
        AT_ONCE_MOST,
        required=False,
        help_text="How many run at the same time. Empty: as many as fit in what the workspace has bought.",
    )

    borrow = forms.BooleanField(
        label="May run in another workspace",
        required=False,
        help_text="In one of the project that is open to it, while this one is full. If that one needs the room for its own jobs, this job "
        "has to leave, and starts from the beginning. Not with a volume or files, which stay here.",
    )
    mail = forms.BooleanField(
        label="E-mail me when it has ended",
        required=False,
        help_text="To the address of your account, if this portal sends e-mail.",
    )

    def __init__(
        self,
        *args: Any,
        rows: Mapping[Way, int],
        credentials: Sequence[str],
        template: JobTemplate | None = None,
        **kwargs: Any,
    ) -> None:
        """rows, credentials: as of `TransferRows`. template: locks fields, which show its values and cannot be changed."""
        super().__init__(*args, **kwargs)
        self.rows_make(rows, credentials)
        self.runtimes_offer()
        self.template = template
        drawn = " ".join(template.locked) if template is not None else ""
        self.fields["drawn_locked"] = forms.CharField(required=False, widget=forms.HiddenInput)
        self.initial["drawn_locked"] = drawn
        fixed = initial_of(template.order) if template is not None else {}
        for name in self.locked_fields():
            self.fields[name].disabled, self.initial[name] = True, fixed.get(name, "")
            if name in self.base_fields:
                self.fields[name].help_text = self.why_locked
        for name, words in (("workspace", "one that is not ready"), ("gpu", self.initial.get("gpu", ""))):
            keep_choice(self, name, words)

    def runtimes_offer(self) -> None:
        """Those of all sites; where none has any, the field is left out."""
        found = {
            str(each["name"]): str(each["framework"])
            for room in self.rooms.values()
            for each in room.site.runtimes
        }
        if not found and not self.initial.get("runtime"):
            del self.fields["runtime"]
            return
        named = [(name, f"{name} ({of})" if of else name) for name, of in sorted(found.items())]
        choices_set(self, "runtime", [("", "None: the portal starts the tasks itself"), *named])
        keep_choice(self, "runtime", str(self.initial.get("runtime", "")))

    @property
    def why_locked(self) -> str:
        return f"Locked by the template {self.template}." if self.template else ""

    def locked_fields(self) -> list[str]:
        """Its own fields, of those that the template locks."""
        locked = self.template.locked if self.template else []
        rows = [
            row_field(way, row, part)
            for way, row in self.all_rows()
            for part in self.parts
            if f"{way}puts" in locked
        ]
        return [*(name for name in locked if name in self.fields), *rows]

    def clean(self) -> dict[str, Any]:
        """A browser sends nothing of a locked field: what is sent was entered before it was locked, and what is not was locked when
        the form was drawn."""
        found = super().clean()
        locked = self.template.locked if self.template else []
        if set(found.get("drawn_locked", "").split()) - set(locked):
            self.stale = True
            self.add_error(None, f"The template {self.template} locks less than when you opened this form.")
        for name in self.locked_fields():
            if self.add_prefix(name) in self.data:
                self.add_error(name, f"{self.why_locked} What you entered is not used.")
        return found

    def asked(self) -> dict[str, Any]:
        own = {row_field(way, row, part) for way, row in self.all_rows() for part in self.parts}
        found = {name: each for name, each in super().asked().items() if name not in own}
        found.pop("drawn_locked", None)
        return found | self.transfers()


def again(row: Job) -> dict[str, Any]:
    """What the form of a repetition begins with."""
    return initial_of(order_of(row))


def initial_of(order: Mapping[str, Any]) -> dict[str, Any]:
    """What a form begins with that has the values of an order."""
    found = {**USUALLY, **order}
    files = filled_of({name: found.pop(name) for name in FILES})
    return found | files
