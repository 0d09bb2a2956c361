"""The calls to a site that an adoption needs: the scan, the plan, and the step that marks it as ours.

Each claims its row, calls with no transaction open, and writes the result if the claim still holds.
"""

import uuid

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.claims import claimed, release, rest, retry, retry_at
from gpuaas.core.errors import PASSING, Conflict, GpuaasError, Permanent
from gpuaas.providers.base import AdoptionCapability, AdoptionStep, Driver, StepOutcome, WorkspaceSpec
from gpuaas.workspaces.adoption_plan import blocking, found_stored, plan_digest, steps_stored
from gpuaas.workspaces.models import Adoption, AdoptionScan, AdoptionTransition
from gpuaas.workspaces.reconcile import record
from gpuaas.workspaces.reconcile.job import Job
from gpuaas.workspaces.services import workspace_delete
from gpuaas.workspaces.services.adoption import (
    VALID_FOR,
    adoption_announce,
    adoption_people,
    adoption_scan_announce,
    workspace_of,
)
from gpuaas.workspaces.services.request import workspace_rows
from gpuaas.workspaces.services.validation import items_resolve
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.spec import ref_of, spec_of
from gpuaas.workspaces.states import ADOPTION, AdoptionState, WorkspaceState
from tenants.actors import SYSTEM
from tenants.audit import audit_record

CHANGED = "it has changed since the plan was made: plan again"
# the site may answer later


def scan(site_id: uuid.UUID) -> bool:
    """Does the scan that is due at the site; False if none is, or if it failed."""
    return claimed(AdoptionScan, site_id, _scan, failed=_scan_failed, only_due=True)


def _scan(row: AdoptionScan) -> bool:
    found = found_stored(_able(driver_of(row.site)).adoptable())
    with transaction.atomic():
        written = release(row, due_at=None, attempts=0, found=found, failure="", taken_at=clock.now())
        if written:
            adoption_scan_announce(AdoptionScan.objects.get(pk=row.pk))
    return written


def _scan_failed(row: AdoptionScan, error: GpuaasError) -> None:
    due_at = retry_at(row, error) if isinstance(error, PASSING) else None
    if release(row, due_at=due_at, attempts=row.attempts + 1, failure=error.message[:500]):
        adoption_scan_announce(row)


def plan(adoption_id: uuid.UUID) -> bool:
    """Asks the site for the plan; False if none is wanted any more, or if it failed."""
    return claimed(Adoption, adoption_id, _plan, failed=_plan_failed)


def _plan(row: Adoption) -> bool:
    if row.state != AdoptionState.PLANNING:
        return rest(row)
    return _planned(row, _able(driver_of(row.site)).adoption_plan(_spec(row)))


def _planned(row: Adoption, steps: tuple[AdoptionStep, ...]) -> bool:
    moment = clock.now()
    with transaction.atomic():
        if not release(row, due_at=None, attempts=0):
            return False
        return _move(
            row,
            AdoptionState.PLANNED,
            steps=steps_stored(steps),
            digest=plan_digest(steps),
            planned_at=moment,
            expires_at=moment + VALID_FOR,
            failure="",
        )


def _plan_failed(row: Adoption, error: GpuaasError) -> None:
    words = error.message[:500]
    if isinstance(error, PASSING):
        retry(row, error, failure=words)
        adoption_announce(row)
    elif release(row, due_at=None):
        _move(row, AdoptionState.FAILED, reason=words, failure=words)


def _spec(row: Adoption) -> WorkspaceSpec:
    """Exactly what a confirmation would request from the site: its rows are written, read as usual, and rolled back."""
    with transaction.atomic():
        workspace = workspace_of(row, created_by=row.requested_by, moment=clock.now())
        workspace_rows(workspace, items_resolve(list(row.items.items())), adoption_people(row))
        spec = spec_of(workspace)
        transaction.set_rollback(True)
    return spec


def perform(driver: Driver, job: Job) -> StepOutcome:
    """The first step of an adopting workspace. Once it carries our mark, it is not compared any more."""
    adoption = Adoption.objects.get(workspace=job.row)
    if adoption.state == AdoptionState.DONE:
        return StepOutcome(done=True, detail=f"adopted at {adoption.adopted_at:%H:%M:%S} UTC")
    able = _able(driver)
    if not driver.observe(ref_of(job.row)).exists:
        steps = able.adoption_plan(job.spec)
        if blocking(steps_stored(steps)) or plan_digest(steps) != adoption.digest:
            raise Permanent(CHANGED)
    outcome = able.adopt(job.spec)
    if outcome.done:
        with transaction.atomic():
            _move(adoption, AdoptionState.DONE, adopted_at=clock.now())
    return outcome


def refused(job: Job, error: GpuaasError) -> None:
    """The site was not changed: the workspace is deleted, its reservation released, and the operator sees the
    reason. Raises ClaimLost or Overtaken: what another worker has adopted meanwhile stays."""
    with record.guarded(job):
        adoption = Adoption.objects.get(workspace=job.row)
        if _move(adoption, AdoptionState.FAILED, reason=error.message, failure=error.message[:500]):
            audit_record(
                actor=SYSTEM,
                action="adoption.fail",
                target=adoption,
                project=adoption.project,
                after={"failure": error.message[:500]},
            )
        workspace_delete(actor=SYSTEM, workspace=job.row, reason=f"not adopted: {error.message}")
        release(job.row, due_at=clock.now(), attempts=0)


def adoptions_close() -> int:
    """Plans that are too old, and confirmed ones whose workspace was deleted before the adoption."""
    old = Adoption.objects.filter(state=AdoptionState.PLANNED, expires_at__lte=clock.now())
    gone = {WorkspaceState.DELETING, WorkspaceState.DELETED}
    deleted = Adoption.objects.filter(state=AdoptionState.CONFIRMED, workspace__state__in=gone)
    words = "the workspace was deleted before the adoption"
    with transaction.atomic():
        closed = [_move(row, AdoptionState.DISCARDED, reason="too old") for row in old[:500]]
        closed += [_move(row, AdoptionState.FAILED, reason=words, failure=words) for row in deleted[:500]]
    return sum(closed)


def _move(row: Adoption, to: AdoptionState, *, reason: str = "", **changes: object) -> bool:
    """False if another process changed it first: that change counts."""
    try:
        ADOPTION.transition(
            row, to=to, history=AdoptionTransition, actor=SYSTEM.name, reason=reason, **changes
        )
    except Conflict:
        return False
    adoption_announce(row)
    return True


def _able(driver: Driver) -> AdoptionCapability:
    if not isinstance(driver, AdoptionCapability):
        raise Permanent(f"sites of the driver {driver.name} do not support adoption")
    return driver
