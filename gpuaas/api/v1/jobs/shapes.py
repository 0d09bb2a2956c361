"""The shapes of jobs and their logs."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from gpuaas.api.fields import (
    Conditions,
    Input,
    MovedOutput,
    Output,
    PageQuery,
    QueryWhole,
    Switch,
    Text,
    TextOrEmpty,
    Whole,
)
from gpuaas.jobs.models import Job
from gpuaas.jobs.order import (
    AT_ONCE_MOST,
    DEADLINE_MOST,
    RETRIES_MOST,
    TASKS_MOST,
    TEXT_MOST,
    USUAL,
    VARIABLES_MOST,
    WORDS_MOST,
)
from gpuaas.jobs.outlook import starts_by
from gpuaas.jobs.seen import moved_of, ranges_of
from gpuaas.jobs.selectors import position_of
from gpuaas.jobs.states import JobState, Launcher, Priority, TaskState
from gpuaas.staging.transfers import FOLDER_MOST, TRANSFERS_MOST, URL_MOST, Way
from gpuaas.workspaces.room import MOST

# people and the API read the names; the values are the frame's
STATES = [(state.name.lower(), str(state.label)) for state in JobState]


def state_of(word: str) -> JobState:
    return JobState[word.upper()]


class JobQuery(PageQuery):
    state = serializers.ChoiceField(choices=STATES, required=False)
    workspace = serializers.UUIDField(required=False, help_text="Id of a workspace.")
    place = serializers.UUIDField(
        required=False, help_text="Id of a workspace: jobs of others that run in it, or ran in it last."
    )
    search = Text(required=False, max_length=40, help_text="Part of the name.")


@extend_schema_field({"type": "array", "items": {"type": "string"}, "maxItems": WORDS_MOST})
class Words(serializers.ListField):
    def __init__(self, **kwargs: Any) -> None:
        word = Text(max_length=TEXT_MOST, allow_blank=True, trim_whitespace=False)
        super().__init__(child=word, max_length=WORDS_MOST, required=False, **kwargs)


@extend_schema_field(
    {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": VARIABLES_MOST}
)
class Variables(serializers.DictField):
    def __init__(self, **kwargs: Any) -> None:
        word = Text(max_length=TEXT_MOST, allow_blank=True, trim_whitespace=False)
        super().__init__(child=word, required=False, **kwargs)


def _size(name: str, words: str) -> Whole:
    least = 0 if name == "gpus" else 1
    words = f"{words} Default: {USUAL[name]}."
    return Whole(required=False, min_value=least, max_value=MOST[name], help_text=words)


def _deadline() -> Whole:
    words = "Seconds after its start at the site at which it is ended, retries included; null: never."
    return Whole(required=False, allow_null=True, min_value=1, max_value=DEADLINE_MOST, help_text=words)


class TransferInput(Input):
    url = Text(
        max_length=URL_MOST,
        help_text="`s3://bucket/prefix`; of inputs also `https://…`, which names one file.",
    )
    credential = TextOrEmpty(
        max_length=40, help_text="Name of a data credential of the project; empty for `https://…`."
    )
    volume = Text(max_length=253, help_text="Name of a volume of the workspace.")
    folder = TextOrEmpty(
        max_length=FOLDER_MOST, help_text="From the root of the volume, which is the default."
    )


def _transfers(words: str) -> serializers.ListField:
    return serializers.ListField(
        child=TransferInput(), required=False, max_length=TRANSFERS_MOST, help_text=words
    )


class JobRerunInput(Input):
    name = Text(required=False, max_length=40, help_text="Lower-case letters, digits and hyphens.")
    image = Text(required=False, max_length=255)
    command = Words(help_text="In place of the image's.")
    arguments = Words()
    variables = Variables(help_text="Of its environment, by name. Readable by everybody in the project.")
    gpu = Text(
        required=False,
        max_length=64,
        allow_blank=True,
        help_text="Slug of the GPU type, where the workspace has several.",
    )
    gpus = _size("gpus", "Number of GPUs.")
    vcpus = _size("vcpus", "Number of vCPUs.")
    memory_gib = _size("memory_gib", "Memory in GiB.")
    volume = Text(
        required=False,
        max_length=253,
        allow_blank=True,
        help_text="Name of a volume of the workspace to mount, such as the home of an environment.",
    )
    mount = Text(
        required=False, max_length=255, allow_blank=True, help_text="The folder where it is mounted."
    )
    deadline_seconds = _deadline()
    retries = Whole(
        required=False,
        max_value=RETRIES_MOST,
        help_text="How often it is started anew after it failed; of tasks that do not run together each for itself.",
    )
    priority = serializers.ChoiceField(
        required=False,
        choices=Priority.choices,
        help_text="Which jobs of its workspace leave the queue first. Default: normal.",
    )
    tasks = Whole(
        required=False,
        min_value=1,
        max_value=TASKS_MOST,
        help_text="How many of it run, each with all that is asked for, its number in JOB_COMPLETION_INDEX. Default: 1.",
    )
    at_once = Whole(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=AT_ONCE_MOST,
        help_text="How many tasks run at the same time; null: as many as fit in what the workspace has bought.",
    )
    together = Switch(
        required=False,
        help_text="All tasks start together, find one another by name, and one that fails ends the others. Default: false.",
    )
    launcher = serializers.ChoiceField(
        required=False,
        allow_blank=True,
        choices=Launcher.choices,
        help_text="Of tasks that run together: task 0 alone runs the command, such as mpirun, and the others serve it by SSH. "
        "Default: none; each task runs the command.",
    )
    runtime = Text(
        required=False,
        max_length=253,
        allow_blank=True,
        help_text="Of tasks that run together: name of a training runtime of the site, of which a TrainJob of Kubeflow Trainer then makes "
        "them. One that the site does not offer is refused with the names that it does. Default: none.",
    )
    mail = Switch(
        required=False,
        help_text="An e-mail to the person who submits it, when it has ended, if the portal sends e-mail. Default: false.",
    )
    borrow = Switch(
        required=False,
        help_text="While its workspace is full, it may run in another one of the project that is open to it, and starts anew if it has to "
        "leave that. Not for a job with a volume or files. Default: false.",
    )
    inputs = _transfers("Files that are moved to volumes before the job holds a GPU. Default: none.")
    outputs = _transfers("Files that are moved from volumes after it has succeeded and has given all back.")


class JobOrderInput(JobRerunInput):
    workspace = serializers.UUIDField(required=False, help_text="Id of the workspace that it runs in.")


class JobInput(JobOrderInput):
    template = Text(
        required=False,
        max_length=40,
        help_text="Name of a template of the project. Its values count where the order is silent; workspace, name and image are "
        "needed unless it has them, and a locked field may not be given another value.",
    )


class TransferOutput(MovedOutput):
    url = serializers.CharField()
    credential = serializers.CharField(allow_blank=True)
    volume = serializers.CharField()
    folder = serializers.CharField(allow_blank=True)


class JobOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField(source="project.slug")
    workspace = serializers.UUIDField(source="workspace_id")
    place = serializers.UUIDField(
        source="place_id",
        allow_null=True,
        help_text="The other workspace of the project in which it runs, or ran last; null: its own.",
    )
    site = serializers.CharField(source="site.slug")
    external_name = serializers.CharField(help_text="Name of its Job at the site.")
    again = serializers.UUIDField(source="again_id", allow_null=True, help_text="The job that it repeats.")
    template = serializers.CharField(
        allow_blank=True, help_text="Name of the template by which it was submitted, as it was then."
    )
    state = serializers.SerializerMethodField()
    waiting = serializers.CharField(allow_blank=True, help_text="Why it does not run yet, in words.")
    reason = serializers.CharField(
        source="cause", allow_blank=True, help_text="Of a failure, such as `OOMKilled` or `DeadlineExceeded`."
    )
    failure = serializers.CharField(
        allow_blank=True, help_text="Why it failed or was cancelled, in a sentence."
    )
    exit_code = serializers.IntegerField(allow_null=True, help_text="Of its newest attempt that ended.")
    attempt = serializers.IntegerField(help_text="Number of its newest attempt; 0 before the first.")
    preemptions = serializers.IntegerField(
        help_text="How often it was seen to be ended for a buyer of the GPUs that it borrows, or had to leave another workspace; it then "
        "starts again, and that is no attempt."
    )
    preempted_at = serializers.DateTimeField(allow_null=True, help_text="The last time.")
    image = serializers.CharField()
    command = serializers.ListField(child=serializers.CharField())
    arguments = serializers.ListField(child=serializers.CharField())
    variables = serializers.DictField(child=serializers.CharField())
    gpu = serializers.CharField(
        source="pool.gpu_type.slug", default="", allow_blank=True, help_text="Slug of the GPU type."
    )
    gpus = serializers.IntegerField()
    vcpus = serializers.IntegerField()
    memory_gib = serializers.IntegerField()
    volume = serializers.CharField(allow_blank=True)
    mount = serializers.CharField(allow_blank=True)
    deadline_seconds = serializers.IntegerField(allow_null=True)
    retries = serializers.IntegerField()
    priority = serializers.ChoiceField(choices=Priority.choices)
    tasks = serializers.IntegerField()
    at_once = serializers.IntegerField(help_text="How many of its tasks run at the same time.")
    together = serializers.BooleanField()
    launcher = serializers.ChoiceField(choices=Launcher.choices, allow_blank=True)
    runtime = serializers.CharField(
        allow_blank=True, help_text="Name of the training runtime that makes its tasks."
    )
    mail = serializers.BooleanField(
        help_text="Whether the person who submitted it gets an e-mail when it has ended."
    )
    borrow = serializers.BooleanField(help_text="Whether it may run in another workspace of the project.")
    tasks_running = serializers.SerializerMethodField(
        help_text="Their numbers in ranges, such as `0-3,7`; of several."
    )
    tasks_succeeded = serializers.SerializerMethodField()
    tasks_failed = serializers.SerializerMethodField(help_text="Those that failed in their last attempt.")
    inputs = serializers.SerializerMethodField()
    outputs = serializers.SerializerMethodField()
    node = serializers.CharField(source="observed.node", default="", allow_blank=True)
    conditions = Conditions()
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(source="ready_at", allow_null=True, help_text="When it first ran.")
    finished_at = serializers.DateTimeField(allow_null=True)
    emptied_at = serializers.DateTimeField(
        allow_null=True,
        help_text="Since when its command, arguments, variables and log are not kept any more.",
    )
    deleted_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()

    @extend_schema_field(serializers.ChoiceField(choices=STATES))
    def get_state(self, row: Job) -> str:
        return JobState(row.state).name.lower()

    @extend_schema_field(TransferOutput(many=True))
    def get_inputs(self, row: Job) -> list[dict[str, Any]]:
        return moved_of(row, Way.IN)

    @extend_schema_field(TransferOutput(many=True))
    def get_outputs(self, row: Job) -> list[dict[str, Any]]:
        return moved_of(row, Way.OUT)

    def get_tasks_running(self, row: Job) -> str:
        return ranges_of(row)[TaskState.RUNNING]

    def get_tasks_succeeded(self, row: Job) -> str:
        return ranges_of(row)[TaskState.SUCCEEDED]

    def get_tasks_failed(self, row: Job) -> str:
        return ranges_of(row)[TaskState.FAILED]


class JobDetailOutput(JobOutput):
    position = serializers.SerializerMethodField(
        help_text="In the queue of its workspace, from 1; null for one that is not in it."
    )
    starts_by = serializers.SerializerMethodField(
        help_text="When it starts at the latest, if what runs ends by its deadlines and nothing comes before it in the queue; null where "
        "no deadline says so."
    )

    def get_position(self, row: Job) -> int | None:
        return position_of(row)

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_starts_by(self, row: Job) -> str | None:
        at = starts_by(row)
        return serializers.DateTimeField().to_representation(at) if at is not None else None


class JobChangeInput(Input):
    priority = serializers.ChoiceField(choices=Priority.choices)


class JobTaskOutput(Output):
    number = serializers.IntegerField(help_text="From 0.")
    state = serializers.ChoiceField(choices=TaskState.choices)
    node = serializers.CharField(allow_blank=True)
    exit_code = serializers.IntegerField(allow_null=True, help_text="Of its newest attempt that ended.")
    reason = serializers.CharField(allow_blank=True)
    attempt = serializers.IntegerField(help_text="Number of its newest attempt; 0 while none is known.")


class JobLogQuery(Input):
    task = QueryWhole(
        required=False,
        min_value=0,
        max_value=TASKS_MOST - 1,
        help_text="Number of one of several; else of one that failed, or the one that is followed.",
    )


class JobFollowInput(Input):
    task = Whole(max_value=TASKS_MOST - 1, help_text="Number of the task.")


class JobLogOutput(Output):
    task = serializers.IntegerField(help_text="Of which task; 0 of a job of one.")
    text = serializers.CharField(
        allow_blank=True, help_text="Its last 64 KiB at most, of one of several tasks 16 KiB."
    )
    taken_at = serializers.DateTimeField(allow_null=True, help_text="Null while nothing was taken.")
