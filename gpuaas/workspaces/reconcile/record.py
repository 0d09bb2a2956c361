"""Writes the results of a run: each function is one transaction, guarded by the claim and by the state we acted on."""

import random
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F

from gpuaas.catalog.models import Site
from gpuaas.core import claims, clock
from gpuaas.core.conditions import Status
from gpuaas.lifecycle.enforce import ENFORCED
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.lifecycle.lease import LEASE_ENDING, asleep
from gpuaas.lifecycle.operations import StepRow
from gpuaas.lifecycle.visits import LEFTOVERS_AFTER, PROGRESSING, Record, reachable
from gpuaas.providers.base import ObjectBound, ObservedWorkspace
from gpuaas.workspaces.amounts import amounts_of
from gpuaas.workspaces.grants import grants_end
from gpuaas.workspaces.holdings import holdings_end, holdings_set, storage_confirmed, storage_wanted
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile.drifts import is_watched
from gpuaas.workspaces.reconcile.job import Job
from gpuaas.workspaces.reconcile.plan import (
    COMPARE_EVERY,
    COMPARE_UNWATCHED,
    OBSERVE_EVERY,
)
from gpuaas.workspaces.selectors import IN_USE
from gpuaas.workspaces.services.rows import HOLDER, SUSPENDED, WORKSPACE, workspace_announce
from gpuaas.workspaces.states import DriftState, WorkspaceState
from quotas.services import reservation_release, reservation_shrink

QUOTA = "QuotaInSync"
ACCESS = "AccessGranted"
OBJECTS, NEARLY_FULL = "RoomForObjects", 80  # the condition, and the percentage from which it warns

RECORD: Record[Workspace] = Record(WORKSPACE, "project", "site__watch")
guarded, later, rest = RECORD.guarded, RECORD.later, RECORD.rest
steps_restart = partial(RECORD.steps_restart, spec_digest="")


def waiting(job: Job, reason: str, *, due_at: datetime) -> None:
    """Everything is set at the site; something of the tenant's has to end before the change is complete."""
    condition = {"type": PROGRESSING, "status": Status.FALSE, "reason": IN_USE, "message": reason}
    with guarded(job) as row:
        if row.state == WorkspaceState.RESIZING:
            _both_held(row)
        news = conditions_write(row, condition)
        claims.release(row, due_at=due_at, attempts=0)
        if news:
            workspace_announce(row)


def _both_held(row: Workspace) -> None:
    """What a resize adds can be used from now on, and what it takes away is used still: both are held, as they are reserved."""
    rows = row.flavors.select_related("flavor")
    wanted, had = storage_wanted(row), storage_confirmed(row)
    holdings_set(
        workspace=row,
        items=[(item.flavor, max(item.count, item.confirmed)) for item in rows],
        storage={key: max(wanted.get(key, 0), had.get(key, 0)) for key in {**wanted, **had}},
        at=clock.now(),
    )


def give_up(job: Job, step: StepRow, message: str) -> None:
    """A failed resize is checked again at once: the previously confirmed state is maintained, and held. So is the sleep of what
    could not be resumed: its GPUs are still reserved, and not charged."""
    moment = clock.now()
    due_at = moment if job.row.ready_at else None
    with transaction.atomic():
        RECORD.give_up(job, step, message, due_at=due_at, failure=message[:500], ensured_digest="")
        row, storage = job.row, storage_confirmed(job.row)
        if row.state == WorkspaceState.RESIZING:
            items = [(item.flavor, item.confirmed) for item in row.flavors.select_related("flavor")]
            holdings_set(workspace=row, items=items, storage=storage, at=moment)
        elif row.state == WorkspaceState.RESUMING:
            holdings_set(workspace=row, items=(), storage=storage, at=moment)


def finish_ready(job: Job) -> None:
    """The site has confirmed: counts, holdings and reservation become what was requested, and the claim is released."""
    moment = clock.now()
    with guarded(job) as row:
        RECORD.operation_end(job, moment, succeeded=True)
        digest = job.operation.spec_digest if job.operation else ""
        items = [(item.flavor, item.count) for item in row.flavors.select_related("flavor__pool__gpu_type")]
        row.flavors.update(confirmed=F("count"))
        row.storage.update(confirmed=F("gib"))
        storage = storage_wanted(row)
        holdings_set(workspace=row, items=items, storage=storage, at=moment)
        grants_end(workspace=row, at=moment, keep=_subjects(job))
        conditions_write(row, reachable(), quota_in_sync(), _access(job), drop=(PROGRESSING, SUSPENDED))
        WORKSPACE.move(
            row,
            WorkspaceState.READY,
            ready_at=row.ready_at or moment,
            ensured_digest=digest,
            suspended_at=None,
            drift_due_at=compare_at(row.site, moment),
            failure="",
            attempts=0,
        )
        amounts = amounts_of(items, storage_gib=sum(storage.values()))
        reservation_shrink(holder_kind=HOLDER, holder_id=row.pk, amounts=amounts)
        row.due_at = job.row.due_at  # the transition has read the row anew
        again = _next_look(row, moment) if digest == job.digest else moment
        claims.release(row, due_at=again)
        workspace_announce(row)


def _next_look(row: Workspace, moment: datetime) -> datetime:
    if is_watched(row.site) and row.drift_due_at is not None:
        return row.drift_due_at
    return moment + OBSERVE_EVERY


def finish_suspended(job: Job) -> None:
    """Nothing runs and nothing can be started: everything but the storage is released."""
    moment = clock.now()
    with guarded(job) as row:
        RECORD.operation_end(job, moment, succeeded=True)
        row.flavors.update(confirmed=0)
        row.storage.update(confirmed=F("gib"))
        storage = storage_wanted(row)
        holdings_set(workspace=row, items=(), storage=storage, at=moment)
        conditions_write(row, reachable(), quota_in_sync(), _access(job), drop=(PROGRESSING,))
        WORKSPACE.move(
            row,
            WorkspaceState.SUSPENDED,
            ensured_digest=job.digest,
            attempts=0,
            **asleep(WORKSPACE, row, at=moment),
        )
        amounts = amounts_of((), storage_gib=sum(storage.values()))
        reservation_shrink(holder_kind=HOLDER, holder_id=row.pk, amounts=amounts)
        workspace_announce(row)


def compare_at(site: Site, moment: datetime) -> datetime:
    """When it is compared with the site field by field again."""
    every = COMPARE_EVERY if is_watched(site) else COMPARE_UNWATCHED
    return moment + every * random.uniform(0.8, 1.2)  # noqa: S311  spreads load, hides nothing


def finish_deleted(job: Job) -> None:
    """Nothing is left at the site: the reservation is released, exactly once. A last check follows later."""
    moment = clock.now()
    with guarded(job) as row:
        RECORD.operation_end(job, moment, succeeded=True)
        holdings_end(workspace=row, at=moment)
        row.flavors.update(confirmed=0)
        row.storage.update(confirmed=0)
        row.drifts.filter(state=DriftState.OPEN).update(state=DriftState.GONE, resolved_at=moment)
        conditions_write(
            row, reachable(), drop=(PROGRESSING, QUOTA, OBJECTS, SUSPENDED, "InSync", LEASE_ENDING, ENFORCED)
        )
        WORKSPACE.move(
            row,
            WorkspaceState.DELETED,
            deleted_at=moment,
            observed={},
            ensured_digest="",
        )
        reservation_release(holder_kind=HOLDER, holder_id=row.pk)
        claims.release(row, due_at=moment + LEFTOVERS_AFTER, attempts=0)
        workspace_announce(row)


def observation(job: Job, seen: ObservedWorkspace, *, in_sync: str) -> None:
    """The site's observation for the page; `in_sync`: the differences, '' for none. Notifies pages only of changes."""
    facts = observed_facts(seen)
    with guarded(job) as row:
        old = {key: value for key, value in row.observed.items() if key != "at"}
        row.observed = {**facts, "at": clock.now().isoformat()}
        row.save(update_fields=["observed"])
        changes = [reachable(), quota_in_sync(in_sync)]
        if row.state in {WorkspaceState.READY, WorkspaceState.SUSPENDED}:
            changes.append(_access(job))
        fullest = objects_nearly_full(seen.bounds)
        news = conditions_write(row, *changes, *fullest, drop=() if fullest else (OBJECTS,))
        if news or old != facts:
            workspace_announce(row)


def ensured(job: Job) -> None:
    with guarded(job) as row:
        grants_end(workspace=row, at=clock.now(), keep=_subjects(job))
        if job.operation is not None:
            job.operation.spec_digest = job.digest
            job.operation.save(update_fields=["spec_digest"])
        else:
            Workspace.objects.filter(pk=row.pk).update(ensured_digest=job.digest)
        Workspace.objects.filter(pk=row.pk).update(attempts=0)


def extend(job: Job) -> None:
    """Extends the claim during a long pass; raises ClaimLost or Overtaken if the pass has to end."""
    with guarded(job):
        pass


def observed_facts(seen: ObservedWorkspace) -> dict[str, Any]:
    return {
        "hard": dict(seen.hard),
        "used": dict(seen.used),
        "bounds": [asdict(one) for one in seen.bounds],
        "volumes": [
            {**asdict(one), "created_at": one.created_at.isoformat()}
            for one in sorted(seen.volumes, key=lambda one: (one.name, one.uid))
        ],
        "consumers": [
            {
                "uid": one.uid,
                "name": one.name,
                "phase": one.phase,
                "node": one.node,
                "gpus": dict(one.gpus),
                "created_at": one.created_at.isoformat(),
                "started_at": one.started_at.isoformat() if one.started_at else None,
                "ended_at": one.ended_at.isoformat() if one.ended_at else None,
                "waiting_for": one.waiting_for,
            }
            for one in sorted(seen.consumers, key=lambda one: (one.created_at, one.name))
        ],
    }


def objects_nearly_full(bounds: Sequence[ObjectBound]) -> list[dict[str, Any]]:
    """A warning if one of the bounds is nearly used up; the fullest comes first, and its remedy counts."""
    full = [one for one in bounds if one.most and one.used * 100 >= one.most * NEARLY_FULL]
    if not full:
        return []
    full.sort(key=lambda one: one.used / one.most, reverse=True)
    words = "; ".join(f"{one.used:,} of {one.most:,} {one.label}" for one in full)
    reason = "Full" if full[0].used >= full[0].most else "NearlyFull"
    return [
        {
            "type": OBJECTS,
            "status": Status.FALSE,
            "reason": reason,
            "message": words,
            "remedy": full[0].remedy,
        }
    ]


def quota_in_sync(difference: str = "") -> dict[str, Any]:
    if difference:
        message = f"{difference}; the portal is repairing it"
        return {"type": QUOTA, "status": Status.FALSE, "reason": "Drifted", "message": message}
    message = "the site enforces exactly what was requested"
    return {"type": QUOTA, "status": Status.TRUE, "reason": "Confirmed", "message": message}


def _subjects(job: Job) -> frozenset[str]:
    return frozenset(member.subject for member in job.spec.members)


def _access(job: Job) -> dict[str, Any]:
    count = sum(not member.robot for member in job.spec.members)
    message = f"{count} {'person has' if count == 1 else 'people have'} access"
    if not count:
        return {"type": ACCESS, "status": Status.FALSE, "reason": "NoMembers", "message": "nobody has access"}
    return {"type": ACCESS, "status": Status.TRUE, "reason": "Granted", "message": message}
