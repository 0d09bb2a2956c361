"""What a tenant asks for: submit, submit again, cancel, delete. The queue starts it, and the reconciler does it at the site."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from gpuaas.catalog.site import kind_of
from gpuaas.core import clock
from gpuaas.core.errors import UNKNOWN, Conflict, Invalid, Mistakes
from gpuaas.core.retention import EMPTIED
from gpuaas.jobs.document import FIELDS
from gpuaas.jobs.guests import over_write
from gpuaas.jobs.models import Job, JobTransition
from gpuaas.jobs.mover import credential_names
from gpuaas.jobs.order import AT_ONCE_MOST, order_read, priority_read
from gpuaas.jobs.selectors import task_require
from gpuaas.jobs.services.places import workspace_in
from gpuaas.jobs.services.queue import queue_poke
from gpuaas.jobs.services.rows import JOB, MAY, permit
from gpuaas.jobs.services.templates import order_from, template_find
from gpuaas.jobs.spec import JOBS
from gpuaas.jobs.states import ENDED, LIVE, STAGING, STAGING_OF, JobState, Priority
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import Change
from gpuaas.staging.transfers import Way
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import Room
from gpuaas.workspaces.services.inside import place_judge, place_take
from gpuaas.workspaces.services.rows import workspace_lock
from tenants.actors import SYSTEM, Actor
from tenants.models import Project

S = JobState
MOST = 5_000  # jobs of a workspace that have not ended
NOT_LENT = (
    "the workspace borrows its GPUs, and nothing keeps them until all tasks have theirs: let the tasks run independently, or choose a "
    "workspace that has bought its GPUs"
)
NOT_TWICE = "the workspace borrows its GPUs already, and what runs in it is charged by itself: leave this out"
# what a repetition takes from the job that it repeats, unless it is given anew
REPEATED = (
    *("name", "image", "command", "arguments", "variables", "gpus", "vcpus", "memory_gib"),
    *(
        "volume",
        "mount",
        "deadline_seconds",
        "retries",
        "priority",
        "tasks",
        "together",
        "launcher",
        "runtime",
        "inputs",
        "outputs",
        "mail",
        "borrow",
    ),
)


def job_submit(*, actor: Actor, project: Project, given: Mapping[str, Any]) -> Job:
    """An order of `document.FIELDS`, as a document gives it: the workspace by its id. With the name of a `template` it has that one's
    values where it is silent. Raises as `job_create`, also for fields that it does not know, and for those that the template locks."""
    wrong, asked, found, template = Mistakes(), dict(given), None, ""
    if "template" in asked:
        named = asked.pop("template")
        with wrong:
            row = template_find(actor, project, named)
            template, asked = row.name, order_from(row, asked, wrong)
    asked = {"name": "", "gpu": "", **asked}
    for name in asked.keys() - set(FIELDS):
        del asked[name]
        with wrong:
            raise Invalid.field(name, UNKNOWN)
    place = asked.pop("workspace", "")
    with wrong:
        found = workspace_in(actor, project, place)
    if type(asked["gpu"]) is not str:
        asked["gpu"] = ""
        with wrong:
            raise Invalid.field("gpu", "enter the slug of a GPU type")
    if found is not None and not wrong.found:
        return job_create(actor=actor, workspace=found, template=template, **asked)
    fields = {**job_wrong(workspace=found, **asked), **wrong.fields}
    raise Invalid(f"the order is not valid: {', '.join(fields)}", fields=fields)


@transaction.atomic
def job_create(
    *,
    actor: Actor,
    workspace: Workspace,
    name: str,
    gpu: str = "",
    again: Job | None = None,
    template: str = "",
    **given: Any,
) -> Job:
    """Queued in its workspace, where it starts once what it asks for is free; its inputs are moved before that.

    gpu: the slug of the GPU type, where the workspace has several. given: image, command, arguments, variables, gpus, vcpus,
    memory_gib, volume, mount, deadline_seconds, retries, priority, tasks, at_once, together, launcher, runtime, inputs,
    outputs, mail, borrow; those that are left out are as in `order.USUAL`. Raises Invalid with all mistakes at their fields, QuotaRefused
    where it is only more than the workspace has bought, Conflict for one that is not ready.
    """
    row = place_take(actor, workspace, lambda place: _judged(place, name, gpu, given), MAY)
    _few_require(workspace)
    row.again, row.template = again, template
    JOBS.steps_of(row, Change.CREATE)
    row.save(force_insert=True)
    JobTransition.objects.create(subject=row, old="", new=row.state, actor=actor.name)
    by: dict[str, Any] = {"template": template} if template else {}
    by |= {"priority": row.priority} if row.priority != Priority.NORMAL else {}
    by |= {name: value for name in ("launcher", "runtime", "borrow") if (value := getattr(row, name))}
    shape = ("tasks", "at_once", "together")
    several = {name: getattr(row, name) for name in shape} if row.tasks > 1 else {}
    moves = {
        name: [each["url"] for each in found]
        for name in ("inputs", "outputs")
        if (found := getattr(row, name))
    }
    after = {"name": row.name, "image": row.image, **row.sizes, **several, **moves, **by}
    JOB.audit(row, actor, "create", after=after)
    JOB.announce(row)
    queue_poke(workspace.pk)
    return row


def _few_require(workspace: Workspace) -> None:
    if Job.objects.filter(workspace=workspace, state__in=list(LIVE - ENDED)).count() >= MOST:
        raise Conflict(
            f"the workspace has {MOST:,} jobs that have not ended: try again when some of them have"
        )


def job_wrong(*, workspace: Workspace | None, name: str, gpu: str = "", **given: Any) -> dict[str, list[str]]:
    """All that would be refused of an order, by field; without a workspace, what every one would refuse."""
    return _judged(workspace, name, gpu, given)[1].fields


def _judged(
    workspace: Workspace | None, name: str, gpu: str, given: Mapping[str, Any]
) -> tuple[Job, Mistakes]:
    wrong, names = Mistakes(), None
    if workspace is not None and (given.get("inputs") or given.get("outputs")):
        names = credential_names(workspace.project_id)
    row = Job(**order_read(given, wrong, names))
    if row.inputs:
        row.state, row.staging = S.STAGING_IN, Way.IN
    room = place_judge(row, workspace, wrong, name=name, gpu=gpu)
    if workspace is None or room is None:
        return row, wrong
    if row.together and workspace.is_spot:
        with wrong:
            raise Invalid.field("together", NOT_LENT)
    if row.borrow and workspace.is_spot:
        with wrong:
            raise Invalid.field("borrow", NOT_TWICE)
    with wrong:
        _launcher_require(row, workspace)
    with wrong:
        _runtime_require(row, workspace)
    row.at_once = _at_once(row, room.empty)
    who = "a job that asks" if row.at_once == 1 else f"a job whose {row.at_once:,} tasks at once ask"
    for found in room.empty.shortages(row.pool, row.takes):
        words = f"the workspace has bought {found.amount.bought:,} {found.what}: {who} for {found.asked:,} never starts"
        with wrong:
            raise found.refusal(words)
    return row, wrong


def _launcher_require(row: Job, workspace: Workspace) -> None:
    if row.launcher and row.launcher not in getattr(kind_of(workspace.site), "launchers", ()):
        words = f"jobs at the site {workspace.site.slug} have no launcher of this kind: ask for none, and start all tasks alike"
        raise Invalid.field("launcher", words)


def _runtime_require(row: Job, workspace: Workspace) -> None:
    offered = [str(each["name"]) for each in workspace.site.runtimes]
    if not row.runtime or row.runtime in offered:
        return
    where = f"the site {workspace.site.slug}"
    if not offered:
        raise Invalid.field("runtime", f"{where} offers no training runtimes: leave this out")
    words = f"{where} offers no training runtime {row.runtime[:64]}: choose one of {', '.join(offered[:20])}, or none"
    raise Invalid.field("runtime", words)


def _at_once(row: Job, room: Room) -> int:
    """As it was asked for, or as many as fit in the empty room."""
    if row.together:
        return row.tasks
    return row.at_once or max(min(row.tasks, AT_ONCE_MOST, room.times(row.pool, row.sizes)), 1)


def job_rerun(*, actor: Actor, job: Job, gpu: str | None = None, **changes: Any) -> Job:
    """Another one in the same workspace, the same but for `changes`, which are named as for `job_create`."""
    permit(actor, job)
    if job.emptied_at is not None:
        raise Conflict(EMPTIED)
    given = {name: getattr(job, name) for name in REPEATED}
    if not job.together and not changes.keys() & {"tasks", "together"}:
        given["at_once"] = job.at_once
    given |= changes
    kept = job.pool.gpu_type.slug if job.pool is not None else ""
    return job_create(
        actor=actor, workspace=job.workspace, gpu=kept if gpu is None else gpu, again=job, **given
    )


@transaction.atomic
def job_cancel(*, actor: Actor, job: Job, expected_version: int | None = None, reason: str = "") -> Job:
    """From any state before its end, also of a guest that is leaving; what it was doing is lost. Repeating it changes nothing. Of one
    that has succeeded and is being ended the outputs stay where they are; raises Conflict for any other that has ended."""
    row = JOB.asked(actor, job, Verb.SUSPEND, expected_version)
    words = reason or f"cancelled by {actor.name}"
    if JOB.is_already(row, Verb.SUSPEND):
        return _outputs_keep(row, actor, words)
    with JOB.changing(row, actor, "cancel", ended="ended by the cancellation", reason=reason):
        if row.state == S.QUEUED or (row.state in STAGING and not row.moving):
            at = {"finished_at": clock.now(), "outcome": S.CANCELLED, "failure": words, "waiting": ""}
            JOB.move(row, S.CANCELLED, actor=actor.name, reason=words, **at)
            over_write(row)
            queue_poke(row.workspace_id)
        else:
            end_begin(row, actor, S.CANCELLED, failure=words)
    return row


def _outputs_keep(row: Job, actor: Actor, words: str) -> Job:
    """Of a locked row that is ending or cancelled. One that was to wait again does not."""
    if row.outcome == S.CANCELLED:
        return row
    if not row.outcome:
        row.waiting, row.finished_at = "", clock.now()
        return _cancelled(row, actor, words, "waiting", "finished_at")
    if row.outcome != S.SUCCEEDED or not row.unmoved:
        raise Conflict("it has ended already", detail={"state": row.state})
    return _cancelled(row, actor, words)


def _cancelled(row: Job, actor: Actor, words: str, *also: str) -> Job:
    row.outcome, row.failure = S.CANCELLED, words[:500]
    row.save(update_fields=["outcome", "failure", *also])
    over_write(row)
    JOB.audit(row, actor, "cancel", after={"reason": words})
    JOB.announce(row)
    return row


def end_begin(row: Job, actor: Actor, outcome: JobState, *, failure: str = "", **known: Any) -> None:
    """Of a locked row: how it ends is known, and what is left of it at the site is removed. `known`: cause, ready_at."""
    known |= {"failure": failure[:500], "waiting": "", "finished_at": clock.now(), "outcome": outcome}
    JOB.begin(row, actor, Change.SUSPEND, summary=failure, reason=failure, **known)
    over_write(row)


def staging_fail(row: Job, failure: str, cause: str = "") -> None:
    """Of a locked row whose mover may be at the site: it has failed, and what was to be moved can be tried again."""
    JOB.operation_end(row, "ended before its files were moved")
    end_begin(row, SYSTEM, S.FAILED, failure=failure, cause=cause)
    JOB.wake(row)


@transaction.atomic
def job_retry(*, actor: Actor, job: Job, expected_version: int | None = None) -> Job:
    """Of one whose files could not be moved: that is tried again, and what was moved stays. Raises Conflict for any other, and where
    the workspace has too many that have not ended."""
    permit(actor, job)
    workspace = workspace_lock(job.workspace_id)  # before the job, as a round of its queue does
    row = JOB.asked(actor, job, Verb.RETRY, expected_version)
    _few_require(workspace)
    way = Way(row.staging)
    outcome = S.SUCCEEDED if way is Way.OUT else ""
    with JOB.changing(row, actor, "retry"):
        JOB.move(
            row,
            STAGING_OF[way],
            actor=actor.name,
            outcome=outcome,
            failure="",
            cause="",
            waiting="",
            finished_at=None,
            mailed_at=None,
        )
    queue_poke(row.workspace_id)
    return row


@transaction.atomic
def job_prioritize(*, actor: Actor, job: Job, priority: str, expected_version: int | None = None) -> Job:
    """Of one that has not left the queue: its turn there. Raises Invalid at `priority`, Conflict for one that has left it."""
    found = priority_read(priority)
    row = JOB.asked(actor, job, Verb.MANAGE, expected_version)
    if row.priority != found:
        before, row.priority = row.priority, found
        row.version += 1
        row.save(update_fields=["priority", "version"])
        JOB.audit(row, actor, "prioritize", before={"priority": before}, after={"priority": found})
        JOB.announce(row)
        queue_poke(row.workspace_id)
    return row


def job_delete(*, actor: Actor, job: Job, expected_version: int | None = None, reason: str = "") -> Job:
    """Its log is deleted with it. From any live state; repeating it changes nothing."""
    return JOB.take_down(actor, job, Verb.DELETE, expected_version, reason)


@transaction.atomic
def job_follow(*, actor: Actor, job: Job, task: int) -> Job:
    """The log of this task of several is taken from the next look on, and kept. Raises Conflict once nothing can be taken."""
    permit(actor, job)
    row = JOB.lock(job.pk)
    task_require(row, task)
    JOB.require(row, Verb.RUN)
    row.followed = task
    if row.state != S.QUEUED:
        row.due_at = clock.now()
    row.save(update_fields=["followed", "due_at"])
    JOB.wake(row)
    return row
