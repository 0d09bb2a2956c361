"""What a tenant can ask for; what to do next, a pure function; and one run: plan, act, write, plan again."""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from django.db import transaction

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.errors import GpuaasError
from gpuaas.lifecycle import actions, lease, visits
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.kind import GOING, EndWords, Kind
from gpuaas.lifecycle.operations import StepState
from gpuaas.providers.base import Change, Connection
from quotas import services as quotas
from quotas.resources import VCPU
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import project_require
from tests.lifecycle.toy import models
from tests.lifecycle.toy.driver import STEPS, DeskDriver, NotebookSpec
from tests.lifecycle.toy.models import CHANGING, Notebook, NotebookStep, S

ENDS = {S.PROVISIONING: S.READY, S.SUSPENDING: S.SUSPENDED, S.RESUMING: S.READY, S.DELETING: S.DELETED}


def notebook_require(actor: Actor, row: Notebook, need: Permission = Permission.WORKSPACE_CREATE) -> None:
    project_require(actor=actor, project=row.project, permission=need, noun="notebook")


NOTEBOOK: Kind[Notebook] = Kind(
    "notebook",
    Notebook._default_manager,
    machine=models.MACHINE,
    history=models.NotebookTransition,
    operations=models.NotebookOperation._default_manager,
    task="notebooks.reconcile",
    allowed=models.ALLOWED,
    permit=notebook_require,
    overtaken=frozenset({"resuming"}),
    end=EndWords("it is closed", "the notebook"),
    changing=CHANGING,
    steps=lambda _row, change, _was: STEPS[change],
)

RECORD: visits.Record[Notebook] = visits.Record(NOTEBOOK, "project", "site")


@transaction.atomic
def notebook_request(*, actor: Actor, project: Project, site: Site, name: str, vcpus: int) -> Notebook:
    now = clock.now()
    about = {"project": project, "site": site, "name": name, "vcpus": vcpus}
    row = Notebook(**about, created_at=now, due_at=now, lease_ends_at=lease.lease_validate(None, now=now))
    notebook_require(actor, row)
    row.save(force_insert=True)
    NOTEBOOK.operation_start(row, "create", actor, steps=STEPS[Change.CREATE], admission="reserved")
    NOTEBOOK.audit(row, actor, "request", after={"vcpus": vcpus})
    NOTEBOOK.wake(row)
    reserve(row)
    return row


def holder(row: Notebook) -> dict[str, Any]:
    return {"holder_kind": NOTEBOOK.noun, "holder_id": row.pk}


def reserve(row: Notebook) -> None:
    amounts = {VCPU: row.vcpus}
    quotas.reservation_reserve(**holder(row), project=row.project, site=row.site, amounts=amounts)


def _take_down(
    verb: Verb, *, actor: Actor, notebook: Notebook, expected_version: int | None = None, reason: str = ""
) -> Notebook:
    return NOTEBOOK.take_down(actor, notebook, verb, expected_version, reason)


notebook_suspend, notebook_delete = partial(_take_down, Verb.SUSPEND), partial(_take_down, Verb.DELETE)


@transaction.atomic
def notebook_resume(*, actor: Actor, notebook: Notebook) -> Notebook:
    row = NOTEBOOK.asked(actor, notebook, Verb.RESUME)
    if not NOTEBOOK.is_already(row, Verb.RESUME):
        with NOTEBOOK.changing(row, actor, Verb.RESUME):
            NOTEBOOK.begin(row, actor, Change.RESUME, admission="reserved")
        reserve(row)
    return row


def leases_enforce(*, now: datetime) -> int:
    held, awake = NOTEBOOK.rows.exclude(state__in=GOING), NOTEBOOK.awake(now)
    return lease.lease_round(NOTEBOOK, held, awake, now=now, suspend=notebook_suspend, delete=notebook_delete)


def plan(state: S, pending: Iterable[str], *, exists: bool) -> Any:
    """An action, or the key of the step to do. `pending`: steps that are not done; `exists`: something is at the site."""
    if state not in CHANGING:
        return actions.Rest(None)
    if state == S.REQUESTED:
        return actions.Begin()
    if step := next(iter(pending), ""):
        return step
    kept = exists != (state == S.DELETING)
    return actions.Finish(ENDS[state]) if kept else actions.Restart("the desk has not kept what was done")


class Job(NamedTuple):
    row: Notebook
    operation: models.NotebookOperation | None
    steps: tuple[NotebookStep, ...]


def driver_at(row: Notebook) -> tuple[DeskDriver, NotebookSpec]:
    return DeskDriver(Connection(row.site.pk, row.site.slug, "", {})), NotebookSpec(row.name, row.vcpus)


def work(claimed: Notebook) -> None:
    more = True
    while more:
        row = visits.row_again(NOTEBOOK.rows.select_related("project", "site"), claimed)
        (driver, spec), operations = driver_at(row), models.NotebookOperation._default_manager
        operation = operations.filter(notebook=row, finished_at=None).first()
        job = Job(row, operation, tuple(operation.steps.all()) if operation else ())
        pending = {step.key: step for step in job.steps if step.state != StepState.DONE}
        action = plan(S(row.state), pending, exists=driver.exists(spec))
        step = pending.get(action) if isinstance(action, str) else None
        more = visits.attempt(partial(act, job, action, step), partial(refused, job, step))


run = partial(visits.visit, NOTEBOOK, work=work)


def act(job: Job, action: Any, step: NotebookStep | None) -> bool:
    match action:
        case actions.Begin():
            with RECORD.guarded(job) as row:
                NOTEBOOK.move(row, S.PROVISIONING)
        case actions.Finish(state=state):
            finish(job, state)
        case actions.Restart(reason=reason):
            RECORD.steps_restart(job, reason, due_at=visits.soon(), refused=job.steps[-1])
        case _ if step is None:
            RECORD.rest(job, None)
        case _:
            driver, spec = driver_at(job.row)
            outcome = visits.step_perform(driver, CHANGING[S(job.row.state)], spec, step.key)
            if outcome.done:
                RECORD.step_done(job, step, outcome.detail, visits.reachable())
                return True
            RECORD.step_wait(job, step, outcome.detail, visits.reachable(), due_at=visits.soon())
    return isinstance(action, actions.Begin | actions.Finish)


def finish(job: Job, state: S) -> None:
    now = clock.now()
    with RECORD.guarded(job) as row:
        RECORD.operation_end(job, now, succeeded=True)
        changes: dict[str, Any] = {"ready_at": row.ready_at or now, "suspended_at": None}
        if state != S.READY:
            quotas.reservation_release(**holder(row))
            changes = lease.asleep(NOTEBOOK, row, at=now) if state == S.SUSPENDED else {"deleted_at": now}
        NOTEBOOK.move(row, state, **changes)
        NOTEBOOK.announce(row)


def refused(job: Job, step: NotebookStep | None, error: GpuaasError) -> None:
    fail = partial(RECORD.give_up, job, message=error.message)
    RECORD.refused(job, error, step=step, change=CHANGING.get(S(job.row.state)), fail=fail)
