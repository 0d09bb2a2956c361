"""The shapes of environments and of their kinds."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from gpuaas.api.fields import (
    ChangeInput,
    Conditions,
    Input,
    Instant,
    Output,
    PageQuery,
    Pick,
    Text,
    TextOrEmpty,
    Whole,
)
from gpuaas.api.v1.clusters.shapes import Document
from gpuaas.api.v1.shapes import SUCCEEDED
from gpuaas.core import clock
from gpuaas.environments.definition import IDLE_MOST, WORKERS_MOST, definition_read
from gpuaas.environments.models import Environment, EnvironmentKind, TokenDay
from gpuaas.environments.selectors import address_of, hours_of, ssh_command_of, use_of
from gpuaas.environments.states import Access, EnvironmentState, KindState, OperationKind
from gpuaas.lifecycle.operations import StepState
from gpuaas.workspaces.room import MOST

# people and the API read the names; the values are the frame's
STATES = [(state.name.lower(), str(state.label)) for state in EnvironmentState]


def state_of(word: str) -> EnvironmentState:
    return EnvironmentState[word.upper()]


class EnvironmentQuery(PageQuery):
    state = serializers.ChoiceField(choices=STATES, required=False)
    kind = Text(required=False, max_length=40, help_text="A kind's slug.")
    workspace = serializers.UUIDField(required=False, help_text="Id of a workspace.")
    search = Text(required=False, max_length=40, help_text="Part of the name.")


def _size(name: str, words: str) -> Whole:
    least = 0 if name == "gpus" else 1
    return Whole(
        required=False, min_value=least, max_value=MOST[name], help_text=f"{words} Default: the kind's."
    )


class IdleHours(Whole):
    def __init__(self, **kwargs: Any) -> None:
        words = (
            "Hours without use after which it is stopped, no more than the kind's; null: as the kind says."
        )
        super().__init__(min_value=1, max_value=IDLE_MOST, allow_null=True, help_text=words, **kwargs)


def _access() -> Pick:
    return Pick(
        choices=Access.choices,
        required=False,
        help_text="Who may open it at its address, one of those that its kind allows.",
    )


class EnvironmentInput(Input):
    workspace = serializers.UUIDField(help_text="Id of the workspace that it lives in.")
    kind = Text(max_length=40, help_text="A kind's slug.")
    name = Text(max_length=40, help_text="Lower-case letters, digits and hyphens; unique in the workspace.")
    gpu = TextOrEmpty(max_length=64, help_text="Slug of the GPU type, where the workspace has several.")
    gpus = _size("gpus", "Number of GPUs.")
    vcpus = _size("vcpus", "Number of vCPUs.")
    memory_gib = _size("memory_gib", "Memory in GiB.")
    home_gib = _size("home_gib", "Size of its home in GiB, out of the workspace's storage.")
    workers = Whole(
        required=False,
        min_value=0,
        max_value=WORKERS_MOST,
        help_text="Number of pods that work for it, where its kind has some. Default: the kind's.",
    )
    worker_gpus = _size("gpus", "GPUs of each worker, where the kind leaves that open.")
    worker_vcpus = _size("vcpus", "vCPUs of each worker, where the kind leaves that open.")
    worker_memory_gib = _size("memory_gib", "Memory of each worker in GiB, where the kind leaves that open.")
    parameters = Document(required=False, help_text="By the JSON Schema of the kind.")
    idle_hours = IdleHours(required=False)
    access = _access()


class EnvironmentChangeInput(ChangeInput):
    idle_hours = IdleHours(required=False)
    access = _access()


class EnvironmentKeepInput(Input):
    until = Instant(help_text="At most 7 days from now.")


class EnvironmentLogInput(Input):
    worker = Whole(
        required=False,
        min_value=0,
        max_value=WORKERS_MOST,
        help_text="Whose log: the number of a worker; 0, the default: the main pod's.",
    )


class EnvironmentCloneInput(Input):
    name = Text(max_length=40, help_text="Of the clone; unique in the workspace.")


class DoorKeyInput(Input):
    name = Text(max_length=100)


class DoorKeyOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The middle part of the key, to recognize it by.")
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="To the minute.")
    revoked_at = serializers.DateTimeField(allow_null=True)


class NewDoorKeyOutput(DoorKeyOutput):
    key = serializers.CharField(help_text="Shown once, never stored.")


class EnvironmentUseOutput(Output):
    used_at = serializers.DateTimeField(help_text="Its last use that is known of, or its start.")
    unused_since = serializers.DateTimeField(
        source="since", help_text="From then on it is known that nothing used it."
    )
    unknown = serializers.CharField(
        allow_blank=True, help_text="Why it is not known now whether it is used; empty: it is known."
    )
    stops_at = serializers.DateTimeField(
        source="stop_at", allow_null=True, help_text="Announced, unless it is used or kept before."
    )
    stopped_at = serializers.DateTimeField(
        allow_null=True,
        help_text="When it was stopped for want of use; opening it, or a request with a key of it, starts it again.",
    )


class TokenDayOutput(Output):
    day = serializers.DateField(help_text="Of `time_zone`.")
    time_zone = serializers.SerializerMethodField(help_text="In which days and months of charges begin.")
    requests = serializers.IntegerField(help_text="That its server has finished.")
    tokens_in = serializers.IntegerField(help_text="Of prompts.")
    tokens_out = serializers.IntegerField(help_text="Generated.")

    def get_time_zone(self, row: TokenDay) -> str:
        return clock.billing_zone().key


class EnvironmentOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField(source="project.slug")
    workspace = serializers.UUIDField(source="workspace_id")
    site = serializers.CharField(source="site.slug")
    external_name = serializers.CharField(help_text="Name of its pod, service and volume at the site.")
    kind = serializers.CharField(source="made_of.kind.slug")
    number = serializers.IntegerField(source="made_of.number", help_text="Version of the kind.")
    state = serializers.SerializerMethodField()
    failure = serializers.CharField(allow_blank=True, help_text="Why it failed, in words.")
    address = serializers.SerializerMethodField(
        help_text="Where it opens in a browser; empty where the portal gives none."
    )
    ssh = serializers.SerializerMethodField(
        help_text="The command that opens a shell in it; empty where the portal has no way in by SSH."
    )
    gpu = serializers.CharField(
        source="pool.gpu_type.slug", default="", allow_blank=True, help_text="Slug of the GPU type."
    )
    gpus = serializers.IntegerField()
    vcpus = serializers.IntegerField()
    memory_gib = serializers.IntegerField()
    home_gib = serializers.IntegerField()
    workers = serializers.IntegerField(help_text="Pods that work for it.")
    worker_gpus = serializers.IntegerField(help_text="Of each worker.")
    worker_vcpus = serializers.IntegerField(help_text="Of each worker.")
    worker_memory_gib = serializers.IntegerField(help_text="Of each worker.")
    workers_running = serializers.IntegerField(
        source="observed.workers", default=0, help_text="How many of them the site last saw at work."
    )
    parameters = Document()
    access = serializers.ChoiceField(choices=Access.choices, help_text="Who may open it at its address.")
    idle_hours = serializers.IntegerField(allow_null=True, help_text="As chosen; null: as the kind says.")
    stops_after_hours = serializers.SerializerMethodField(
        help_text="Hours without use after which it is stopped; null: never."
    )
    kept_until = serializers.DateTimeField(
        allow_null=True, help_text="Until then it is not stopped for want of use."
    )
    use = serializers.SerializerMethodField(help_text="What is known of its use; null before it was ready.")
    node = serializers.CharField(source="observed.node", default="", allow_blank=True)
    conditions = Conditions()
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()
    ready_at = serializers.DateTimeField(allow_null=True)
    deleted_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()

    @extend_schema_field(serializers.ChoiceField(choices=STATES))
    def get_state(self, row: Environment) -> str:
        return EnvironmentState(row.state).name.lower()

    def get_address(self, row: Environment) -> str:
        return address_of(row)

    def get_ssh(self, row: Environment) -> str:
        return ssh_command_of(row)

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_stops_after_hours(self, row: Environment) -> int | None:
        return hours_of(row)

    @extend_schema_field(EnvironmentUseOutput(allow_null=True))
    def get_use(self, row: Environment) -> Any:
        found = use_of(row)
        return EnvironmentUseOutput(found).data if found is not None else None


class EnvironmentStepOutput(Output):
    key = serializers.CharField()
    label = serializers.CharField()
    state = serializers.ChoiceField(choices=StepState.choices)
    detail = serializers.CharField(allow_blank=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class EnvironmentOperationOutput(Output):
    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=OperationKind.choices)
    requested_by = serializers.CharField()
    requested_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    succeeded = serializers.BooleanField(allow_null=True, help_text=SUCCEEDED)
    summary = serializers.CharField(allow_blank=True)
    steps = EnvironmentStepOutput(many=True)


class EnvironmentLogOutput(Output):
    text = serializers.CharField(allow_blank=True, help_text="The last 200 lines.")
    worker = serializers.IntegerField(help_text="Of which worker the text is; 0: of the main pod.")
    asked = serializers.IntegerField(help_text="Whose was asked for last, in the same numbers.")
    failure = serializers.CharField(allow_blank=True, help_text="Why there are none.")
    taken_at = serializers.DateTimeField(allow_null=True)
    fetching = serializers.SerializerMethodField(help_text="Whether the portal is asking the site for it.")

    def get_fetching(self, row: Any) -> bool:
        return row.due_at is not None


class EnvironmentKindWorkersOutput(Output):
    most = serializers.IntegerField(help_text="How many an order may have.")
    count = serializers.IntegerField(help_text="How many it has if it says nothing else.")
    sizes = serializers.DictField(
        child=serializers.IntegerField(), help_text="Of each worker, if an order says nothing else."
    )
    open = serializers.ListField(
        child=serializers.CharField(), help_text="Of these, what an order may choose."
    )
    memory_gib_least = serializers.IntegerField(help_text="Of their memory, the least that it may choose.")


class EnvironmentKindOutput(Output):
    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    number = serializers.IntegerField(source="newest", help_text="Newest version, which is ordered.")
    schema = serializers.SerializerMethodField(help_text="JSON Schema of an order's `parameters`.")
    sizes = serializers.SerializerMethodField(help_text="What an order asks for if it says nothing else.")
    idle_hours = serializers.SerializerMethodField(
        help_text="Hours without use after which it is stopped at the latest; null: never."
    )
    workers = serializers.SerializerMethodField(help_text="Pods that work for its own; null: it has none.")

    access = serializers.SerializerMethodField(
        help_text="Who may open one, of which an order chooses; the first is the default."
    )

    @extend_schema_field(serializers.ListField(child=serializers.ChoiceField(choices=Access.choices)))
    def get_access(self, row: EnvironmentKind) -> list[str]:
        return list(definition_read(row.versions.all()[0].document).access)

    @extend_schema_field(EnvironmentKindWorkersOutput(allow_null=True))
    def get_workers(self, row: EnvironmentKind) -> Any:
        found = definition_read(row.versions.all()[0].document).workers
        return EnvironmentKindWorkersOutput(found).data if found is not None else None

    @extend_schema_field({"type": "object", "additionalProperties": True})
    def get_schema(self, row: EnvironmentKind) -> dict[str, Any]:
        return definition_read(row.versions.all()[0].document).parameters

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "integer"}})
    def get_sizes(self, row: EnvironmentKind) -> dict[str, int]:
        return dict(definition_read(row.versions.all()[0].document).sizes)

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_idle_hours(self, row: EnvironmentKind) -> int | None:
        return definition_read(row.versions.all()[0].document).idle_hours


class EnvironmentKindInput(Input):
    slug = Text(max_length=40, help_text="Lower-case letters, digits and hyphens.")
    name = Text(max_length=100)
    description = TextOrEmpty(max_length=300)
    document = Document(
        help_text="Image, command, port, readiness, home, sizes, idleness, access, variables, workers, parameters."
    )
    note = TextOrEmpty(max_length=300)


class EnvironmentKindPatchInput(ChangeInput):
    state = Pick(
        choices=KindState.choices, required=False, help_text="retired: nobody can order it any more."
    )


class EnvironmentKindVersionInput(Input):
    document = Document(
        help_text="Image, command, port, readiness, home, sizes, idleness, access, variables, workers, parameters."
    )
    note = TextOrEmpty(max_length=300)


class PlatformEnvironmentKindOutput(EnvironmentKindOutput):
    state = serializers.ChoiceField(choices=KindState.choices)
    version = serializers.IntegerField()


class EnvironmentKindVersionOutput(Output):
    number = serializers.IntegerField()
    document = Document()
    note = serializers.CharField(allow_blank=True)
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
