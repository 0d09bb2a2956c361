"""The calls to a site that taking over needs: the look, the plan, and the step that marks it as ours.

Each takes the lease of its row, calls with no transaction open, and writes what it found if the lease is still its own.
"""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import structlog
from django.db import transaction
from django.db.models import F

from gpuaas.catalog.models import Site
from gpuaas.core import clock, leases
from gpuaas.core.backoff import delay
from gpuaas.core.errors import Conflict, GpuaasError, Permanent, Unauthorized, Unavailable
from gpuaas.providers.base import AdoptionCapability, AdoptionStep, Driver, StepOutcome, WorkspaceSpec
from gpuaas.workspaces.models import Adoption, AdoptionScan, AdoptionTransition
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
from gpuaas.workspaces.site import driver_of, outside_transaction
from gpuaas.workspaces.spec import ref_of, spec_of
from gpuaas.workspaces.states import ADOPTION, AdoptionState, WorkspaceState
from gpuaas.workspaces.takeover import blocking, found_stored, plan_digest, steps_stored
from tenants.actors import SYSTEM
from tenants.audit import audit_record

log = structlog.get_logger(__name__)

LEASE_SECONDS = 120
CHANGED = "it is no longer as it was when it was planned: plan again"
# the site may answer later
PASSING = (Unavailable, Unauthorized)
Answer = TypeVar("Answer")


def scan(site_id: uuid.UUID) -> bool:
    """Take the look that is due at the site; False where none is, or it failed."""
    outside_transaction()
    row = leases.claim_wanted(AdoptionScan, site_id, now=clock.now(), seconds=LEASE_SECONDS)
    if row is None:
        return False
    try:
        found = found_stored(_asked(row.site, lambda able: able.adoptable()))
    except GpuaasError as error:
        _scan_failed(row, error)
        return False
    with transaction.atomic():
        kept = leases.release(row, due_at=None, attempts=0, found=found, failure="", taken_at=clock.now())
        if kept:
            adoption_scan_announce(AdoptionScan.objects.get(pk=row.pk))
    return kept


@transaction.atomic
def _scan_failed(row: AdoptionScan, error: GpuaasError) -> None:
    again = isinstance(error, PASSING)
    due_at = clock.now() + timedelta(seconds=delay(row.attempts + 1)) if again else None
    if leases.release(row, due_at=due_at, attempts=row.attempts + 1, failure=error.message[:500]):
        adoption_scan_announce(row)


def plan(adoption_id: uuid.UUID) -> bool:
    """Ask the site for the plan; False where none is wanted (any more), or it failed."""
    outside_transaction()
    row = leases.claim(Adoption, adoption_id, now=clock.now(), seconds=LEASE_SECONDS)
    if row is None:
        return False
    if row.state != AdoptionState.PLANNING:
        leases.release(row, due_at=None)
        return False
    try:
        spec = _spec(row)
        steps = _asked(row.site, lambda able: able.adoption_plan(spec))
    except GpuaasError as error:
        _plan_failed(row, error)
        return False
    return _planned(row, steps)


def _planned(row: Adoption, steps: tuple[AdoptionStep, ...]) -> bool:
    moment = clock.now()
    with transaction.atomic():
        if not leases.release(row, due_at=None, attempts=0):
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
    with transaction.atomic():
        if isinstance(error, PASSING):
            due_at = clock.now() + timedelta(seconds=delay(row.attempts + 1))
            leases.release(row, due_at=due_at, attempts=F("attempts") + 1, failure=words)
            adoption_announce(row)
        elif leases.release(row, due_at=None):
            _move(row, AdoptionState.FAILED, reason=words, failure=words)


def _spec(row: Adoption) -> WorkspaceSpec:
    """Exactly what a confirmation would ask of the site: its rows are written, read as always, and taken back."""
    with transaction.atomic():
        workspace = workspace_of(row, created_by=row.requested_by, moment=clock.now())
        workspace_rows(workspace, items_resolve(list(row.items.items())), adoption_people(row))
        spec = spec_of(workspace)
        transaction.set_rollback(True)
    return spec


def perform(driver: Driver, job: Job) -> StepOutcome:
    """The first step of a workspace that takes over. Once it carries our mark, nothing is compared any more."""
    adoption = Adoption.objects.get(workspace=job.row)
    if adoption.state == AdoptionState.DONE:
        return StepOutcome(done=True, detail=f"taken over at {adoption.adopted_at:%H:%M:%S} UTC")
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
    """Nothing was done to the site: the workspace goes, what it reserved is given back, and the operator reads why."""
    with transaction.atomic():
        adoption = Adoption.objects.get(workspace=job.row)
        if _move(adoption, AdoptionState.FAILED, reason=error.message, failure=error.message[:500]):
            audit_record(
                actor=SYSTEM,
                action="adoption.fail",
                target=adoption,
                project=adoption.project,
                after={"failure": error.message[:500]},
            )
        workspace_delete(actor=SYSTEM, workspace=job.row, reason=f"not taken over: {error.message}")
        leases.release(job.row, due_at=clock.now(), attempts=0)


def adoptions_close() -> int:
    """Plans that are too old, and confirmed ones whose workspace was deleted before it took over."""
    old = Adoption.objects.filter(state=AdoptionState.PLANNED, expires_at__lte=clock.now())
    gone = {WorkspaceState.DELETING, WorkspaceState.DELETED}
    deleted = Adoption.objects.filter(state=AdoptionState.CONFIRMED, workspace__state__in=gone)
    words = "the workspace was deleted before it took over"
    with transaction.atomic():
        closed = [_move(row, AdoptionState.DISCARDED, reason="too old") for row in old[:500]]
        closed += [_move(row, AdoptionState.FAILED, reason=words, failure=words) for row in deleted[:500]]
    return sum(closed)


def _move(row: Adoption, to: AdoptionState, *, reason: str = "", **changes: object) -> bool:
    """False where somebody else moved it first: theirs counts."""
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
        raise Permanent(f"nothing can be taken over at a site of the kind {driver.name}")
    return driver


def _asked(site: Site, ask: Callable[[AdoptionCapability], Answer]) -> Answer:
    """A driver's bug must not leave what was asked open for ever: it is a refusal too."""
    try:
        return ask(_able(driver_of(site)))
    except GpuaasError:
        raise
    except Exception as error:
        log.exception("adoption_failed", site=site.slug)
        words = f"the portal met an unexpected error ({type(error).__name__}); operators find it in the log"
        raise Permanent(words) from error
