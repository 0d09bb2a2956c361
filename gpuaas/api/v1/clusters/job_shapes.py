"""The shapes of jobs on Slurm clusters."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from gpuaas.api.fields import Input, MovedOutput, Output, PageQuery, Text, TextOrEmpty, Whole
from gpuaas.clusters.job_order import BOUNDS, SCRIPT_MOST, USUAL
from gpuaas.clusters.models import ClusterJob
from gpuaas.clusters.states import ClusterJobState
from gpuaas.staging.rclone import moved_of
from gpuaas.staging.transfers import FOLDER_MOST, TRANSFERS_MOST, URL_MOST, Way


class ClusterJobQuery(PageQuery):
    state = serializers.ChoiceField(choices=ClusterJobState.choices, required=False)
    search = Text(required=False, max_length=40, help_text="Part of the name.")
    created_by = Text(required=False, max_length=150, help_text="Username of the person who submitted it.")


def _size(name: str, words: str) -> Whole:
    least, most = BOUNDS[name]
    words = f"{words} Default: {USUAL[name]}." if USUAL[name] is not None else words
    return Whole(
        required=False, allow_null=USUAL[name] is None, min_value=least, max_value=most, help_text=words
    )


class ClusterTransferInput(Input):
    url = Text(
        max_length=URL_MOST,
        help_text="`s3://bucket/prefix`; of inputs also `https://…`, which names one file.",
    )
    credential = TextOrEmpty(
        max_length=40, help_text="Name of a data credential of the project; empty for `https://…`."
    )
    folder = Text(max_length=FOLDER_MOST, help_text="Of your home on the cluster, such as `data/digits`.")


class ClusterTransferOutput(MovedOutput):
    url = serializers.CharField()
    credential = serializers.CharField(allow_blank=True)
    folder = serializers.CharField()


def _transfers(words: str) -> serializers.ListField:
    return serializers.ListField(
        child=ClusterTransferInput(), required=False, max_length=TRANSFERS_MOST, help_text=words
    )


class ClusterJobInput(Input):
    name = Text(max_length=40, help_text="Lower-case letters, digits and hyphens.")
    script = Text(
        max_length=SCRIPT_MOST,
        trim_whitespace=False,
        help_text="What it runs, by `bash -l` unless its first line names another program by #!. Without lines of #SBATCH.",
    )
    partition = TextOrEmpty(max_length=20, help_text="A pool of the cluster. Default: the first.")
    nodes = _size("nodes", "Number of nodes.")
    tasks = _size("tasks", "Number of tasks on all nodes together.")
    gpus_per_node = _size("gpus_per_node", "GPUs on each node.")
    cpus_per_task = _size("cpus_per_task", "vCPUs of each task.")
    memory_gib = _size("memory_gib", "Memory on each node in GiB. Null: Slurm's share for its GPUs or vCPUs.")
    minutes = _size("minutes", "Time limit, after which Slurm ends it. Null: none.")
    inputs = _transfers(
        "Files that are moved to your home before the job is submitted to Slurm. Default: none."
    )
    outputs = _transfers("Files that are moved from your home after it has succeeded. Default: none.")


class ClusterJobOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    cluster = serializers.UUIDField(source="cluster_id")
    state = serializers.ChoiceField(
        choices=ClusterJobState.choices,
        help_text="queued: the cluster has not confirmed yet that Slurm has it. staging_in, staging_out: its files are moved, before it "
        "is submitted and after it has succeeded.",
    )
    cancelling = serializers.SerializerMethodField(help_text="Whether it is asked to end and has not ended.")
    slurm_id = serializers.IntegerField(allow_null=True, help_text="Its number in Slurm.")
    login = serializers.CharField(
        source="login.name", default="", help_text="As whom it runs on the cluster."
    )
    reason = serializers.CharField(
        allow_blank=True,
        help_text="While it is queued, why Slurm does not have it yet; while it is pending, Slurm's word for why; afterwards how it "
        "ended.",
    )
    exit_code = serializers.IntegerField(allow_null=True)
    partition = serializers.CharField()
    nodes = serializers.IntegerField()
    tasks = serializers.IntegerField()
    gpus_per_node = serializers.IntegerField()
    cpus_per_task = serializers.IntegerField()
    memory_gib = serializers.IntegerField(allow_null=True)
    minutes = serializers.IntegerField(allow_null=True)
    inputs = serializers.SerializerMethodField()
    outputs = serializers.SerializerMethodField()
    mover_slurm_id = serializers.IntegerField(
        allow_null=True, help_text="Number in Slurm of the job that moves its files; the last one."
    )
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField(
        allow_null=True,
        help_text="When Slurm was last known to have it. Everything else of a job that has not ended is as of then.",
    )
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    emptied_at = serializers.DateTimeField(
        allow_null=True, help_text="Since when its script and log are not kept any more."
    )

    @extend_schema_field(ClusterTransferOutput(many=True))
    def get_inputs(self, row: ClusterJob) -> list[dict[str, Any]]:
        return moved_of(row.inputs, row.moved.get(Way.IN, {}))

    @extend_schema_field(ClusterTransferOutput(many=True))
    def get_outputs(self, row: ClusterJob) -> list[dict[str, Any]]:
        return moved_of(row.outputs, row.moved.get(Way.OUT, {}))

    def get_cancelling(self, row: ClusterJob) -> bool:
        return row.is_open and row.cancel_asked_at is not None


class ClusterJobDetailOutput(ClusterJobOutput):
    script = serializers.CharField()


class ClusterJobLogOutput(Output):
    text = serializers.CharField(allow_blank=True, help_text="Its last 16 KiB at most.")
    taken_at = serializers.DateTimeField(
        source="log_taken_at", allow_null=True, help_text="Null while nothing was taken."
    )

    def to_representation(self, instance: ClusterJob) -> Any:
        return super().to_representation({"text": instance.log, "log_taken_at": instance.log_taken_at})
