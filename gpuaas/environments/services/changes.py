"""What a tenant asks for: order, start, stop, restart, clone, delete. The reconciler does it at the site."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.core.errors import Conflict, Invalid, Mistakes
from gpuaas.core.queue import poke
from gpuaas.core.rows import one_or_none
from gpuaas.core.schema import document_check
from gpuaas.environments.definition import Definition, definition_read
from gpuaas.environments.models import (
    DoorKey,
    Environment,
    EnvironmentKind,
    EnvironmentLog,
    EnvironmentTransition,
    EnvironmentUse,
)
from gpuaas.environments.selectors import newest_version
from gpuaas.environments.services.rows import CROWDED, END_ONE, ENVIRONMENT, MAY, permit
from gpuaas.environments.spec import ENVIRONMENTS
from gpuaas.environments.states import Access, EnvironmentState, OperationKind
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.providers.base import Change, workers_words
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import Room, room_of, size_check
from gpuaas.workspaces.services.inside import place_judge, place_take, workspace_awake
from tenants.actors import SYSTEM, Actor

LOG_TASK = "environments.log"


@transaction.atomic
def environment_create(
    *, actor: Actor, workspace: Workspace, kind: str, name: str, **given: Any
) -> Environment:
    """Ordered from the newest version of the kind; its site makes it within seconds.

    given: gpu, the slug of the GPU type, where the workspace has several; parameters; idle_hours, as `environment_idle_set` takes
    it; access, who may open it; gpus, vcpus, memory_gib, home_gib; workers, how many, and worker_gpus, worker_vcpus,
    worker_memory_gib of each. Those that are left out or None are the kind's. Raises Invalid with all mistakes at their fields;
    QuotaRefused or Conflict at them, where it is only more than is free or a name in use; Conflict for a workspace that is not
    ready.
    """
    return _order(actor, workspace, lambda place: _judged(place, kind, name, **given))


def environment_wrong(
    *, workspace: Workspace | None, kind: str, name: str, **given: Any
) -> dict[str, list[str]]:
    """All that would be refused of an order, by field; without a workspace, what every one would refuse."""
    return _judged(workspace, kind, name, **given)[1].fields


def _judged(
    workspace: Workspace | None,
    kind: str,
    name: str,
    *,
    gpu: str = "",
    parameters: Mapping[str, Any] | None = None,
    idle_hours: int | None = None,
    access: str | None = None,
    **sizes: int | None,
) -> tuple[Environment, Mistakes]:
    wrong = Mistakes()
    found = one_or_none(EnvironmentKind.objects.filter(slug=kind))
    if found is None:
        raise Invalid.field("kind", "there is no such kind of environment")
    version = newest_version(found)
    definition = definition_read(version.document)
    row = Environment(made_of=version, idle_hours=idle_hours)
    with wrong:
        definition.idle_hours_require(idle_hours)
    with wrong:
        row.parameters = _parameters(definition.parameters, parameters or {})
    with wrong:
        row.access = definition.access_require(access)
    for size in row.asks:
        given = sizes.get(size)
        setattr(row, size, 0)
        with wrong:
            setattr(row, size, size_check(size, definition.sizes[size] if given is None else given))
    _workers_judge(row, definition, wrong, sizes)
    return _placed(row, workspace, name, gpu, wrong)


def _workers_judge(
    row: Environment, definition: Definition, wrong: Mistakes, given: Mapping[str, int | None]
) -> None:
    asked = {name: each for name, each in given.items() if name.startswith("worker") and each is not None}
    found = definition.workers
    if found is None:
        for name in asked:
            with wrong:
                raise Invalid.field(name, "this kind has no workers")
        return
    with wrong:
        row.workers = found.count_require(asked.get("workers"))
    for size in row.of_worker:
        with wrong:
            judged = found.size_require(size, asked.get(f"worker_{size}"))
            setattr(row, f"worker_{size}", judged if row.workers else 0)


def _placed(
    row: Environment, workspace: Workspace | None, name: str, gpu: str, wrong: Mistakes
) -> tuple[Environment, Mistakes]:
    room = place_judge(row, workspace, wrong, name=name, gpu=gpu)
    if workspace is None or room is None:
        return row, wrong
    named = workspace.environments.filter(name=row.name).exclude(state=EnvironmentState.DELETED)
    if row.name and named.exists():
        message = f"the workspace already has an environment called {row.name}"
        with wrong:
            raise Conflict(message, detail={"field": "name"}, fields={"name": [message]})
    if workspace.is_spot:
        with wrong:
            _lent_require(row)
    _fit(room, row, wrong)
    return row, wrong


def _lent_require(row: Environment) -> None:
    """Each pod of its own: what asks for no GPU is neither counted nor charged, and no buyer's pod preempts it."""
    found = definition_read(row.made_of.document).workers
    if found is not None and row.workers and not row.worker_gpus:
        message = "this workspace borrows its GPUs, so each worker needs one"
        if "gpus" not in found.open:
            raise Invalid.field("workers", f"{message}, and those of this kind have none: ask for no workers")
        raise Invalid.field("worker_gpus", f"{message}: ask for at least one")


def _fit(room: Room, row: Environment, wrong: Mistakes) -> None:
    """What the main pod asks for is refused beside its own field, and what its workers ask for besides at their number."""
    room.judge(wrong, row.pool, row.sizes)
    left = room.less(row.pool, row.sizes)
    for found in left.shortages(row.pool, row.of_workers):
        free = found.amount.free
        with wrong:
            raise replace(found, name="workers").refusal(
                f"{workers_words(row.workers)} {'asks' if row.workers == 1 else 'ask'} for {found.asked:,} {found.what}: "
                f"{free:,} of the {found.amount.bought:,} that the workspace has bought {'is' if free == 1 else 'are'} free for them"
            )


@transaction.atomic
def environment_clone(*, actor: Actor, environment: Environment, name: str) -> Environment:
    """Another one of the same version, size and parameters, with an empty home of its own."""
    made_of = environment.made_of
    newest_version(EnvironmentKind.objects.get(pk=made_of.kind_id))
    kept = {"parameters": environment.parameters, "idle_hours": environment.idle_hours}
    kept |= {"workers": environment.workers}
    kept |= {f"worker_{name}": size for name, size in environment.of_worker.items()}
    row = Environment(made_of=made_of, access=environment.access, **kept, **environment.sizes)
    gpu = environment.pool.gpu_type.slug if environment.pool else ""
    return _order(actor, environment.workspace, lambda place: _placed(row, place, name, gpu, Mistakes()))


def _order(
    actor: Actor, workspace: Workspace, judge: Callable[[Workspace], tuple[Environment, Mistakes]]
) -> Environment:
    row = place_take(actor, workspace, judge, MAY)
    row.due_at = row.created_at
    steps = ENVIRONMENTS.steps_of(row, Change.CREATE)
    row.save(force_insert=True)
    EnvironmentTransition.objects.create(
        subject=row, old="", new=EnvironmentState.REQUESTED, actor=actor.name
    )
    ENVIRONMENT.operation_start(row, Change.CREATE, actor, steps=steps)
    after = {"name": row.name, "kind": row.made_of.kind.slug, "number": row.made_of.number, **row.sizes}
    after["access"] = str(row.access)
    if row.workers:
        after |= {"workers": row.workers, **{f"worker_{name}": size for name, size in row.of_worker.items()}}
    ENVIRONMENT.audit(row, actor, "create", after=after)
    ENVIRONMENT.wake(row)
    return row


@transaction.atomic
def environment_start(
    *, actor: Actor, environment: Environment, expected_version: int | None = None
) -> Environment:
    """A stopped one, or one that failed, as a retry. Refused where its workspace has no room for it now."""
    permit(actor, environment)
    place = workspace_awake(environment.workspace)
    row = ENVIRONMENT.asked(actor, environment, Verb.RESUME, expected_version)
    return row if ENVIRONMENT.is_already(row, Verb.RESUME) else _start(actor, place, row)


@transaction.atomic
def environment_wake(*, holder: Actor, key: DoorKey) -> Environment:
    """By somebody with a key that opens it, who is written down as `holder`: one that was stopped for want of use starts, as long
    as its workspace has room for it. Nothing changes if that is no longer so once the row is locked."""
    place = workspace_awake(key.environment.workspace)
    row = ENVIRONMENT.lock(key.environment_id)
    idle = EnvironmentUse.objects.filter(pk=row.pk, stopped_at__isnull=False)
    opens = row.access == Access.PUBLIC and DoorKey.objects.filter(pk=key.pk, revoked_at=None).exists()
    if row.state != EnvironmentState.STOPPED or not opens or not idle.exists():
        return row
    return _start(holder, place, ENVIRONMENT.asked(SYSTEM, row, Verb.RESUME))


def _start(actor: Actor, place: Workspace, row: Environment) -> Environment:
    wrong = Mistakes()
    _fit(room_of(workspace=place, besides=row), row, wrong)
    wrong.refuse()
    with ENVIRONMENT.changing(row, actor, "start"):
        conditions_write(row, drop=(CROWDED,))
        ENVIRONMENT.begin(row, actor, Change.RESUME, suspended_at=None)
        # who stops it before it is ready wants it stopped
        EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=None)
    return row


@transaction.atomic
def environment_stop(
    *, actor: Actor, environment: Environment, expected_version: int | None = None, reason: str = ""
) -> Environment:
    """Gives back all that it takes but its home; what it was doing ends. One that was stopped for want of use is no longer started
    by those who open it or show a key; else repeating it changes nothing."""
    row = ENVIRONMENT.asked(actor, environment, Verb.SUSPEND, expected_version)
    if ENVIRONMENT.is_already(row, Verb.SUSPEND):
        EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=None)
        return row
    with ENVIRONMENT.changing(row, actor, "stop", ended="ended by the stop", reason=reason):
        ENVIRONMENT.begin(row, actor, Change.SUSPEND, summary=reason, reason=reason, suspended_at=clock.now())
    return row


@transaction.atomic
def environment_sleep_on(*, environment: Environment, why: str) -> None:
    """Stopped again for want of use: a key has started it, but the site has no room for it, as it says in `why`."""
    row = environment_stop(actor=SYSTEM, environment=environment, reason=why)
    EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=clock.now())
    words = f"a request with a key started it, but there was no room for it: {why}"
    about = {"reason": "NoRoom", "message": words, "remedy": END_ONE}
    ENVIRONMENT.tell(row, {"type": CROWDED, "status": Status.FALSE, **about})


@transaction.atomic
def environment_restart(
    *, actor: Actor, environment: Environment, expected_version: int | None = None
) -> Environment:
    """Ends it and starts it anew, with its home."""
    permit(actor, environment)
    workspace_awake(environment.workspace)
    row = ENVIRONMENT.asked(actor, environment, Verb.RUN, expected_version)
    with ENVIRONMENT.changing(row, actor, "restart"):
        ENVIRONMENT.lead(row, actor, Change.RESUME, "")
        steps = ENVIRONMENTS.steps_of(row, Change.RESUME)
        ENVIRONMENT.operation_start(row, OperationKind.RESTART, actor, steps=steps)
    return row


def environment_delete(
    *, actor: Actor, environment: Environment, expected_version: int | None = None, reason: str = ""
) -> Environment:
    """Its home is deleted with it. From any live state; repeating it changes nothing."""
    return ENVIRONMENT.take_down(actor, environment, Verb.DELETE, expected_version, reason)


@transaction.atomic
def environment_log_ask(*, actor: Actor, environment: Environment, worker: int = 0) -> None:
    """Its last lines, or those of one of its workers, are fetched by a task. Raises Conflict while nothing runs that could have
    any, Invalid at `worker`."""
    permit(actor, environment)
    row = ENVIRONMENT.lock(environment.pk)
    ENVIRONMENT.require(row, Verb.ENTER)
    if type(worker) is not int or not 0 <= worker <= row.workers:
        raise Invalid.field("worker", f"it has {workers_words(row.workers)}; 0 is the main pod")
    asked = {"due_at": clock.now(), "attempts": 0, "asked": worker}
    EnvironmentLog.objects.update_or_create(environment=row, defaults=asked)
    poke(LOG_TASK, str(row.pk))


def _parameters(schema: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """By the schema of the kind. Raises Invalid at `parameters.<name>`."""
    try:
        return document_check(schema, given)
    except Invalid as error:
        fields = {
            f"parameters.{name}" if name else "parameters": words for name, words in error.fields.items()
        }
        raise Invalid(error.message, fields=fields) from error
