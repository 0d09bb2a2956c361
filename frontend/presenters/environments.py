"""An environment as its pages show it: rows of the list, the page of one, and the way to it."""

from dataclasses import dataclass

from django.urls import reverse

from frontend import formats
from frontend.components import Fact, Notice
from frontend.forms import sentence_of
from frontend.place import ProjectPlace
from frontend.presenters import held, inside, operations
from frontend.presenters.machines import may_run
from gpuaas.core import clock
from gpuaas.core.looks import Tone
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import Environment, EnvironmentLog, EnvironmentOperation
from gpuaas.environments.selectors import (
    SshWay,
    address_of,
    counter_of,
    hours_of,
    hours_words,
    operations_of,
    ssh_way_of,
    tokens_of,
    use_of,
)
from gpuaas.environments.services.idle import USE
from gpuaas.environments.services.rows import CROWDED
from gpuaas.environments.states import Access, EnvironmentState
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.operations import StepRow
from gpuaas.workspaces.states import ALLOWED as WORKSPACE_ALLOWED

S = EnvironmentState
NOT_NOW = "It cannot be {verb} while it is {word}."
DEEDS = ("start", "stop", "restart", "keep", "idle", "access", "files", "clone", "delete", "log", "gpus")


@dataclass(frozen=True)
class Row(inside.Row):
    kind: str


@dataclass(frozen=True)
class _Step:
    step: StepRow
    usual_seconds: float | None = None


@dataclass(frozen=True)
class _Operation:
    operation: EnvironmentOperation
    steps: tuple[_Step, ...]
    remaining_seconds: float | None = None


@dataclass(frozen=True)
class Way:
    """How it is reached now: a command, and the address that answers while the command runs, "" where that is a shell."""

    command: str
    address: str


@dataclass(frozen=True)
class Rights:
    """The buttons, and the log. `start_why`: why it cannot be started now, in a sentence; "" if it can, or need not. log: to
    fetch it; read: to see what was fetched."""

    start: bool
    stop: bool
    restart: bool
    keep: bool
    idle: bool
    clone: bool
    delete: bool
    log: bool
    read: bool
    start_why: str


@dataclass(frozen=True)
class Page:
    tone: Tone
    word: str
    moving: bool
    gone: bool
    may: Rights
    failure: Notice | None
    idle: Notice | None
    operation: operations.OperationShown | None
    way: Way | None
    address: str
    ssh: SshWay | None
    files: bool
    facts: tuple[Fact, ...]
    conditions: tuple[held.ConditionRow, ...]
    log: EnvironmentLog | None
    start_word: str
    why_not: str


def row_of(row: Environment) -> Row:
    return Row(**inside.fields_of(row), kind=row.made_of.kind.name)


def page_of(row: Environment, here: ProjectPlace) -> Page:
    tone, word = held.look_of(row)
    may = _rights(row, here)
    opens, address = may.log and row.state == S.READY, address_of(row)
    ssh = ssh_way_of(row) if opens else None
    enters = address or (ssh and not _has_port(row))
    return Page(
        tone=tone,
        word=word,
        moving=held.is_moving(row),
        gone=row.state == S.DELETED,
        may=may,
        failure=_failure(row),
        idle=_idle(row),
        operation=operations.operation_of(
            [
                _Operation(each, tuple(map(_Step, each.steps.all())))
                for each in operations_of(environment=row)[:4]
            ],
            now=here.now,
            history="",
            may_retry=may.start and row.state == S.FAILED,
        ),
        way=_way(row) if opens and not enters else None,
        address=address if opens else "",
        ssh=ssh,
        files=opens and (row.access != Access.PRIVATE or here.actor.owns(row.created_by_id)),
        facts=(*_facts(row), *inside.cost_facts(row, here)),
        conditions=held.conditions_of(row),
        log=EnvironmentLog.objects.filter(environment=row).first() if may.read else None,
        start_word="Try again" if row.state == S.FAILED else "Start",
        why_not="" if row.state == S.DELETED else inside.why_not(row, here),
    )


def urls_of(row: Environment) -> dict[str, str]:
    at = [row.project.slug, row.pk]
    urls = {name: reverse(f"frontend:environment_{name}", args=at) for name in DEEDS}
    workspace = held.url_of(row.workspace)
    return {**urls, "page": held.url_of(row), "workspace": workspace}


def _rights(row: Environment, here: ProjectPlace) -> Rights:
    """What the services decide, for showing buttons."""
    allowed, runs = held.allowed_now(row), may_run(row.workspace, here)
    awake = row.workspace.state in WORKSPACE_ALLOWED[Verb.RUN].states
    asleep = f"Its workspace {row.workspace.name} is {held.look_of(row.workspace)[1].lower()}."
    start = Verb.RESUME in allowed and row.state != S.READY
    return Rights(
        start=runs and start and awake,
        stop=runs and Verb.SUSPEND in allowed,
        restart=runs and Verb.RUN in allowed and awake,
        keep=runs and Verb.RUN in allowed,
        idle=runs and Verb.MANAGE in allowed,
        clone=runs and awake and row.state not in {S.DELETING, S.DELETED},
        delete=runs and Verb.DELETE in allowed,
        log=runs and Verb.ENTER in allowed,
        read=runs,
        start_why=asleep if runs and start and not awake else "",
    )


def _failure(row: Environment) -> Notice | None:
    """What failed, and what stays taken: its pod may be there, and start late."""
    if row.state != S.FAILED or not row.failure:
        return None
    taken = "GPUs, vCPUs and memory" if row.has_gpus else "vCPUs and memory"
    text = f"{sentence_of(row.failure)} It keeps its {taken} until it is stopped."
    return Notice(Tone.BAD, "The last change failed", text)


def _idle(row: Environment) -> Notice | None:
    """That nobody uses it, that it will be stopped for that, or that it was."""
    told, use = row.conditions.get(USE, {}), use_of(row)
    if row.state == S.READY and told.get("status") == "False":
        title = "It is about to be stopped" if use is not None and use.stop_at else "Nobody uses it"
        return Notice(Tone.WARN, title, sentence_of(formats.local_times(told["message"])))
    if row.state in {S.STOPPING, S.STOPPED} and use is not None and use.stopped_at:
        by = " or a request with a key" if row.access == Access.PUBLIC else ""
        again = (
            f"Opening its address{by} starts it again."
            if address_of(row)
            else "Its home is kept: start it again when you need it."
        )
        if CROWDED in row.conditions:
            text = f"Stopped again on {formats.when(use.stopped_at)}. {again}"
            return Notice(Tone.WARN, "A request with a key found no room for it", text)
        text = f"Stopped on {formats.when(use.stopped_at)}, since nobody used it. {again}"
        return Notice(Tone.OFF, "It was stopped for want of use", text)
    return None


def _use_facts(row: Environment) -> list[Fact]:
    use, hours = use_of(row), hours_of(row)
    used = formats.NONE if use is None else formats.when(use.used_at)
    if use is not None and use.unknown:
        used = f"Not known: {use.unknown}"
    facts = [
        Fact("Last used", used),
        Fact("Stopped without use", f"after {hours_words(hours)}" if hours else "never"),
    ]
    return [*facts, Fact("Kept until", formats.when(row.kept_until))] if row.kept_until else facts


def _count_facts(row: Environment) -> list[Fact]:
    """By the days and months of charges."""
    if not definition_read(row.made_of.document).metrics:
        return []
    today, month = tokens_of(environment=row)
    named = ("Requests", "requests"), ("Tokens in", "tokens_in"), ("Tokens out", "tokens_out")
    facts = [
        Fact(name, f"{getattr(today, key):,} today, {getattr(month, key):,} this month")
        for name, key in named
    ]
    facts.append(Fact("Counted by days of", clock.billing_zone().key))
    counter = counter_of(row)
    if counter is None:
        return facts
    until = f"until {formats.when(counter.read_at)}" if counter.read_at else formats.NONE
    is_lost = counter.failure and row.state == S.READY
    return [*facts, Fact("Counted", f"Not now: {counter.failure}" if is_lost else until)]


def _has_port(row: Environment) -> bool:
    return definition_read(row.made_of.document).port is not None


def _way(row: Environment) -> Way:
    port = definition_read(row.made_of.document).port
    command = f"kubectl --kubeconfig {row.workspace.name}.yaml -n {row.workspace.external_name}"
    if port is None:
        return Way(f"{command} exec -it {row.external_name} -- sh -l", "")
    return Way(
        f"{command} port-forward service/{row.external_name} {port}:{port}", f"http://localhost:{port}/"
    )


def _worker_facts(row: Environment) -> list[Fact]:
    """What is above is of all together."""
    if not row.workers:
        return []
    gpus = f"{row.worker_gpus} GPU, " if row.worker_gpus else ""
    of_each = f"{gpus}{row.worker_vcpus:,} vCPU, {row.worker_memory_gib:,} GiB"
    runs = f"; {row.observed.get('workers', 0)} running" if row.state == S.READY else ""
    return [
        Fact(
            "Of that, the main pod",
            f"{f'{row.gpus} GPU, ' if row.gpus else ''}{row.vcpus:,} vCPU, {row.memory_gib:,} GiB",
        ),
        Fact("Workers", f"{row.workers}, each {of_each}{runs}"),
    ]


def _facts(row: Environment) -> tuple[Fact, ...]:
    facts = [
        Fact("Kind", f"{row.made_of.kind.name}, version {row.made_of.number}"),
        Fact("GPUs", inside.gpus_of(row)),
        Fact("vCPU and memory", f"{row.takes['vcpus']:,} vCPU, {row.takes['memory_gib']:,} GiB"),
        *_worker_facts(row),
        *inside.spot_facts(row),
        Fact("Home", f"{row.home_gib} GiB"),
        Fact("Who may open it", str(Access(row.access).label)),
        *_use_facts(row),
        *_count_facts(row),
        Fact("Node", str(row.observed.get("node") or formats.NONE)),
        Fact("Name at the site", row.external_name),
    ]
    if restarts := row.observed.get("restarts"):
        facts.append(Fact("Restarts of its container", str(restarts)))
    facts += [Fact(name.replace("_", " "), str(value)) for name, value in row.parameters.items()]
    return tuple(facts)
