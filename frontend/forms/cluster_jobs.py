"""Submitting a job to a Slurm cluster."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django import forms

from frontend.forms import RequiredText, choices_set, refuse_readable
from frontend.forms.inside import whole
from frontend.forms.transfers import TransferRows
from gpuaas.clusters.job_order import BOUNDS, LABELS, SCRIPT_MOST, USUAL
from gpuaas.staging.transfers import FIELDS, Way

HELP = {
    "tasks": "On all nodes together; srun in the script starts as many.",
    "memory_gib": "Empty: Slurm's share for the GPUs or vCPUs.",
    "minutes": "After which Slurm ends it. Empty: none.",
}


def _size(name: str) -> forms.IntegerField:
    least, most = BOUNDS[name]
    usual = USUAL[name]
    return whole(
        LABELS[name], least, most, initial=usual, required=usual is not None, help_text=HELP.get(name, "")
    )


class ClusterJobForm(TransferRows):
    """partitions: of the cluster. wrong: what the service would refuse, by field. rows, credentials: as of `TransferRows`."""

    parts = tuple(part for part in FIELDS if part != "volume")
    hints = {
        Way.IN: "Moved to a folder of your home before the job is submitted to Slurm: from s3://bucket/prefix with a credential of "
        "the project, or one file from https://….",
        Way.OUT: "Moved from a folder of your home to s3://bucket/prefix after the job has succeeded.",
    }

    name = RequiredText(
        "Enter a name.", 300, label="Name", help_text="Lower-case letters, digits and hyphens."
    )
    script = RequiredText(
        "Enter the script.",
        2 * SCRIPT_MOST,
        label="Script",
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
        help_text="Run as your account by bash, as if you had signed in, unless the first line names another program: for that it begins "
        "with #!. Without lines of #SBATCH. "
        "Everybody in the project can read it: enter no passwords.",
    )
    partition = forms.ChoiceField(label="Partition")
    nodes = _size("nodes")
    tasks = _size("tasks")
    gpus_per_node = _size("gpus_per_node")
    cpus_per_task = _size("cpus_per_task")
    memory_gib = _size("memory_gib")
    minutes = _size("minutes")

    def __init__(
        self,
        *args: Any,
        partitions: Sequence[tuple[str, str]],
        wrong: Callable[..., Mapping[str, Sequence[str]]],
        rows: Mapping[Way, int],
        credentials: Sequence[str],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.wrong = wrong
        self.rows_make(rows, credentials)
        choices_set(self, "partition", partitions)

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        wrong = self.wrong(**self.asked())
        refuse_readable(self, {self.field_of(name): texts for name, texts in wrong.items()})
        return found

    def asked(self) -> dict[str, Any]:
        """What the service takes; what cannot be read is left out."""
        own = {name: each for name, each in self.cleaned_data.items() if name in self.base_fields}
        return own | self.transfers()

    def sizes(self) -> list[forms.BoundField]:
        return [self[name] for name in BOUNDS]
