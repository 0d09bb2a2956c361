"""Reads of jobs, limited to what the actor may see: an outsider gets NotFound."""

import uuid
from collections.abc import Iterable
from typing import Any

from django.db.models import Case, Count, F, Q, QuerySet, SmallIntegerField, Sum, When

from gpuaas.core.errors import Invalid, NotFound
from gpuaas.core.plain_yaml import odd
from gpuaas.core.ranges import ranges_read
from gpuaas.core.rows import first_of, one_or_none
from gpuaas.jobs.models import DataCredential, Job, JobLog, JobTemplate, TaskLog
from gpuaas.jobs.mover import TAKES
from gpuaas.jobs.states import LIVE, STAGING, JobState, OperationKind, Priority
from gpuaas.lifecycle.selectors import seen_by
from gpuaas.providers.base import TASKS_SEEN
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import Taken
from gpuaas.workspaces.selectors import workspace_require
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import project_require

# relations of what pages and serializers show
SHOWN = (
    *("project__organization", "site", "workspace__project__organization", "workspace__site"),
    *("pool__gpu_type", "created_by", "again", "place"),
)


def jobs_loaded() -> QuerySet[Job]:
    """With everything that pages and serializers use."""
    return Job.objects.select_related(*SHOWN)


def jobs_for(
    *,
    actor: Actor,
    project: Project | None = None,
    states: Iterable[JobState] = LIVE,
    search: str = "",
) -> QuerySet[Job]:
    """Those that the actor may see, newest first."""
    return seen_by(actor, jobs_loaded(), project=project, states=states, search=search)


def job_get_for(
    *, actor: Actor, job_id: uuid.UUID, permission: Permission = Permission.WORKSPACE_VIEW, own: bool = False
) -> Job:
    """NotFound for an outsider, Forbidden for somebody of the project who may not do this."""
    row = first_of(jobs_loaded().filter(pk=job_id), "job")
    workspace_require(actor=actor, workspace=row.workspace, permission=permission, own=own)
    return row


def queued_in(workspace: Workspace) -> QuerySet[Job]:
    """In the order in which they start."""
    return in_turn(Job.objects.filter(workspace=workspace, state=JobState.QUEUED))


def queues_in(project: Project) -> list[tuple[uuid.UUID, str, int]]:
    """The workspaces of a project in whose queue jobs wait: id, name, and how many, by their names."""
    rows = Job.objects.filter(project=project, state=JobState.QUEUED).order_by("workspace__name", "workspace")
    return list(rows.values_list("workspace", "workspace__name").annotate(count=Count("pk")))


def waiting_in(workspace: Workspace) -> QuerySet[Job]:
    """The same, and those whose files wait to be moved, which takes room of the workspace as well."""
    return in_turn(waiting().filter(workspace=workspace))


def waiting() -> QuerySet[Job]:
    return Job.objects.filter(Q(state=JobState.QUEUED) | Q(state__in=list(STAGING), moving=False))


def in_turn(rows: QuerySet[Job]) -> QuerySet[Job]:
    """By priority, and of one priority by submission."""
    ranks = (When(priority=each, then=rank) for rank, each in enumerate(Priority))
    return rows.annotate(rank=Case(*ranks, output_field=SmallIntegerField())).order_by(
        "rank", "created_at", "pk"
    )


def behind(row: Job) -> Q:
    """Those of `in_turn` whose turn is later."""
    rank = list(Priority).index(Priority(row.priority))
    later = Q(created_at__gt=row.created_at) | Q(created_at=row.created_at, pk__gt=row.pk)
    return Q(rank__gt=rank) | Q(rank=rank) & later


def ahead_of(row: Job) -> QuerySet[Job]:
    """Of the queue of its workspace."""
    return queued_in(row.workspace).exclude(behind(row)).exclude(pk=row.pk)


def unread(rows: QuerySet[Job]) -> QuerySet[Job]:
    """Without what they run and move, which may be long, for those who only ask how large they are and in which state."""
    return rows.defer("command", "arguments", "variables", "inputs", "outputs", "moved")


def position_of(row: Job) -> int | None:
    """Its place in the queue of its workspace, from 1; None for one that does not wait there."""
    return ahead_of(row).count() + 1 if row.state == JobState.QUEUED else None


def log_of(row: Job, task: int = 0) -> JobLog | TaskLog | None:
    """None while nothing has been taken of it. task: of several."""
    if row.tasks == 1:
        return one_or_none(JobLog.objects.filter(job=row))
    return one_or_none(TaskLog.objects.filter(job=row, task=task))


def log_chosen(row: Job, task: int | None = None) -> tuple[int, JobLog | TaskLog | None]:
    """The log of that task; without one of a task that failed, else of the one that is followed, else of any. Raises Invalid on a
    task that it does not have."""
    if task is not None:
        task_require(row, task)
    elif row.tasks > 1:
        taken, failed = logs_taken(row), ranges_read(row.observed.get("failed", ""))
        best = sorted(taken, key=lambda each: (each not in failed, each != row.followed, each))
        task = next(iter(best), row.followed or 0)
    return task or 0, log_of(row, task or 0)


def task_require(row: Job, task: int) -> None:
    if not 0 <= task < row.tasks:
        known = f"its tasks are 0 to {row.tasks - 1:,}" if row.tasks > 1 else "its only task is 0"
        raise Invalid.field("task", known)


def logs_taken(row: Job) -> list[int]:
    """The tasks of several whose logs there are."""
    return list(TaskLog.objects.filter(job=row).values_list("task", flat=True))


def held_in(workspace: Workspace) -> QuerySet[Job]:
    """Those that take of what a workspace has bought: its own that run in it, and its guests."""
    return Job.objects.filter(Q(place=workspace) | Q(place=None, workspace=workspace), holding=True)


def starts_before(row: Job) -> Job | None:
    """Of one that starts, and whose tasks run together: another such one in the same workspace that began to start before it, is no
    less urgent, and not all of whose pods have been seen."""
    if not row.together:
        return None
    begun: dict[str, Any] = {"operations__finished_at": None, "operations__kind": OperationKind.CREATE}
    ranks = list(Priority)
    no_less_urgent = ranks[: ranks.index(Priority(row.priority)) + 1]
    rows = held_in(row.runs_in).filter(
        together=True, state=JobState.STARTING, priority__in=no_less_urgent, **begun
    )
    rows = rows.annotate(begun_at=F("operations__requested_at")).order_by("begun_at", "pk")
    for each in rows:
        if each.pk == row.pk:
            break
        pods = [pod for pod in each.observed.get("tasks", []) if pod.get("attempt") == max(each.attempt, 1)]
        if len(pods) < min(each.tasks, TASKS_SEEN):
            return each
    return None


def guests_of(workspace: Workspace) -> QuerySet[Job]:
    """Jobs of the project's other workspaces that are in this one, the newest first. The caller has checked access."""
    rows = unread(Job.objects.filter(place=workspace, holding=True))
    rows = rows.select_related("project", "workspace", "pool__gpu_type", "created_by")
    return rows.order_by("-placed_at", "-pk")


def taken_by(workspace: Workspace, besides: Any = None) -> Taken:
    """What jobs take of a workspace, without `besides`: those that have left its queue, and its guests, until the site has confirmed
    their end; and its movers. Three queries."""
    others, moving = held_in(workspace).order_by(), Job.objects.filter(workspace=workspace, moving=True)
    if besides is not None:
        others, moving = others.exclude(pk=besides.pk), moving.exclude(pk=besides.pk)
    movers = moving.count()
    sums = others.aggregate(
        **{name: Sum(F(name) * F("at_once"), default=0) for name in ("vcpus", "memory_gib")}
    )
    gpus = (
        others.filter(pool__isnull=False).values_list("pool").annotate(all_gpus=Sum(F("gpus") * F("at_once")))
    )
    return Taken({name: each + TAKES[name] * movers for name, each in sums.items()}, dict(gpus))


def credentials_for(
    *, actor: Actor, project: Project, permission: Permission = Permission.WORKSPACE_VIEW
) -> QuerySet[DataCredential]:
    """By their names; what is secret of them is never shown."""
    project_require(actor=actor, project=project, permission=permission)
    return (
        DataCredential.objects.filter(project=project).select_related("project", "created_by").defer("secret")
    )


def credential_get_for(
    *,
    actor: Actor,
    project: Project,
    credential_id: uuid.UUID,
    permission: Permission = Permission.WORKSPACE_VIEW,
) -> DataCredential:
    rows = credentials_for(actor=actor, project=project, permission=permission)
    return first_of(rows.filter(pk=credential_id), "data credential")


def templates_for(
    *, actor: Actor, project: Project, permission: Permission = Permission.WORKSPACE_VIEW
) -> QuerySet[JobTemplate]:
    """By their names."""
    project_require(actor=actor, project=project, permission=permission)
    return JobTemplate.objects.filter(project=project).select_related("project", "created_by")


def template_get_for(
    *,
    actor: Actor,
    project: Project,
    template_id: uuid.UUID,
    permission: Permission = Permission.WORKSPACE_VIEW,
) -> JobTemplate:
    rows = templates_for(actor=actor, project=project, permission=permission)
    return first_of(rows.filter(pk=template_id), "template")


def template_named(*, actor: Actor, project: Project, name: Any) -> JobTemplate:
    """As an order names it, which may be anything. Raises NotFound where the project has none of that name."""
    text = name if type(name) is str and not odd(name) else ""
    row = one_or_none(templates_for(actor=actor, project=project).filter(name=text))
    if row is None:
        raise NotFound(f"the project has no template {text[:40]}".rstrip())
    return row
