"""What a tenant asks for: order, start, stop, restart, clone, delete. The reconciler does it at the site."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.core.errors import Conflict, Invalid, Mistakes
from gpuaas.core.queue import poke
from gpuaas.core.rows import one_or_none
from gpuaas.core.schema import document_check
from gpuaas.environments.definition import definition_read
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
from gpuaas.providers.base import Change
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import room_of, size_check
from gpuaas.workspaces.services.inside import place_judge, place_take, workspace_awake
from tenants.actors import SYSTEM, Actor

LOG_TASK = "environments.log"


@transaction.atomic
def environment_create(
    *, actor: Actor, workspace: Workspace, kind: str, name: str, **given: Any
) -> Environment:
    """Ordered from the newest version of the kind; its site makes it within seconds.

    given: gpu, the slug of the GPU type, where the workspace has several; parameters; idle_hours, as `environment_idle_set` takes
    it; access, who may open it; gpus, vcpus, memory_gib, home_gib. Those that are left out or None are the kind's. Raises Invalid
    with all mistakes at their fields; QuotaRefused or Conflict at them, where it is only more than is free or a name in use;
    Conflict for a workspace that is not ready.
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
    return _placed(row, workspace, name, gpu, wrong)


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
    room.judge(wrong, row.pool, row.sizes)
    return row, wrong


@transaction.atomic
def environment_clone(*, actor: Actor, environment: Environment, name: str) -> Environment:
    """Another one of the same version, size and parameters, with an empty home of its own."""
    made_of = environment.made_of
    newest_version(EnvironmentKind.objects.get(pk=made_of.kind_id))
    kept = {"parameters": environment.parameters, "idle_hours": environment.idle_hours}
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
    room_of(workspace=place, besides=row).judge(wrong, row.pool, row.sizes)
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
def environment_log_ask(*, actor: Actor, environment: Environment) -> None:
    """Its last lines are fetched by a task. Raises Conflict while nothing runs that could have any."""
    permit(actor, environment)
    row = ENVIRONMENT.lock(environment.pk)
    ENVIRONMENT.require(row, Verb.ENTER)
    EnvironmentLog.objects.update_or_create(environment=row, defaults={"due_at": clock.now(), "attempts": 0})
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
