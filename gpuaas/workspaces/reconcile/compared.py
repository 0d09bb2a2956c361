"""Writing down what a comparison found: one open drift of a workspace at a time, and the condition that tells of it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.core.visits import conditions_write, reachable
from gpuaas.providers.base import Difference
from gpuaas.workspaces.models import Drift, Workspace
from gpuaas.workspaces.reconcile import record
from gpuaas.workspaces.reconcile.drifts import PORTAL, Drifts
from gpuaas.workspaces.reconcile.job import Job
from gpuaas.workspaces.services.rows import workspace_announce
from gpuaas.workspaces.states import DriftState

IN_SYNC = "InSync"
CONFIRM_WITHIN = timedelta(seconds=30)
OPERATOR_DECIDES = (
    "The site only observes drift: an operator repairs it by hand, or changes the site's policy."
)


def compared(job: Job, differences: Sequence[Difference]) -> None:
    """Differences are written down once; none closes what was open. Says when the site is compared again."""
    moment = clock.now()
    with record.guarded(job) as row:
        open_drift = row.drifts.select_for_update().filter(state=DriftState.OPEN).first()
        if differences:
            news = _found(row, open_drift, differences, moment)
        else:
            news = open_drift is not None
            _resolve(open_drift, moment)
        mends = differences and job.desired.repairs
        due_at = moment + CONFIRM_WITHIN if mends else record.compare_at(row.site, moment)
        Workspace.objects.filter(pk=row.pk).update(drift_due_at=due_at)
        news = conditions_write(row, reachable(), _in_sync(job, differences)) or news
        if news:
            workspace_announce(row)


def mending(job: Job) -> None:
    """Before it is set right, so that a kill in between leaves no doubt about who did it."""
    Drift.objects.filter(workspace=job.row.pk, state=DriftState.OPEN, resolved_by="").update(
        resolved_by=PORTAL
    )


def drift_digest(differences: Sequence[dict[str, Any]]) -> str:
    """Of what differs, whoever did it."""
    said = sorted(
        json.dumps({k: v for k, v in one.items() if k != "changed_by"}, sort_keys=True) for one in differences
    )
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def words(differences: Sequence[Difference]) -> str:
    """`ResourceQuota/gpuaas spec.hard[…] is 8, wanted 2, by kubectl-edit (…)`, and how many more."""
    first = differences[0]
    what = " ".join(filter(None, [first.object, first.path]))
    text = f"{what} is {first.found or 'not there'}, wanted {first.wanted or 'nothing'}"
    if first.changed_by:
        text += f", changed by {first.changed_by}"
    more = len(differences) - 1
    return f"{text}; and {more} more" if more else text


def _found(row: Workspace, old: Drift | None, differences: Sequence[Difference], moment: datetime) -> bool:
    """What is no longer among it was set right when a repair has begun; True where there is news."""
    found = [asdict(one) for one in differences]
    digest = drift_digest(found)
    if old is not None and old.digest == digest:
        return False
    if old is not None and old.resolved_by:
        old.differences = [one for one in old.differences if one not in found] or old.differences
        _resolve(old, moment)
        old = None
    if old is None:
        Drift.objects.create(workspace=row, found_at=moment, differences=found, digest=digest)
    else:
        old.differences, old.digest = found, digest
        old.save(update_fields=["differences", "digest"])
    return True


def _resolve(drift: Drift | None, moment: datetime) -> None:
    if drift is None:
        return
    if not drift.resolved_by and _was_ensured(drift):
        drift.resolved_by = PORTAL
    drift.state = DriftState.REPAIRED if drift.resolved_by else DriftState.GONE
    drift.resolved_at = moment
    drift.save(update_fields=["state", "differences", "resolved_at", "resolved_by"])


def _was_ensured(drift: Drift) -> bool:
    """An operation since then has set everything anew."""
    done = drift.workspace.operations.filter(finished_at__gte=drift.found_at, succeeded=True)
    return bool(done.exists())


def _in_sync(job: Job, differences: Sequence[Difference]) -> dict[str, Any]:
    if not differences:
        message = "everything at the site is as the portal has set it"
        return {"type": IN_SYNC, "status": Status.TRUE, "reason": "Compared", "message": message}
    said = words(differences)
    drifts, reason, remedy = job.drifts, "Repairing", ""
    if drifts.hold_until is not None:
        reason, said, remedy = (
            "Contested",
            _contested(drifts, said),
            "Stop whoever changes it at the site.",
        )
    elif not job.desired.repairs:
        reason, remedy = "Drifted", OPERATOR_DECIDES
    else:
        said += "; the portal sets it right"
    return {
        "type": IN_SYNC,
        "status": Status.FALSE,
        "reason": reason,
        "message": said[:500],
        "remedy": remedy,
    }


def _contested(drifts: Drifts, said: str) -> str:
    again = drifts.hold_until
    when = f"; the next try is at {again:%H:%M:%S} UTC" if again is not None else ""
    return (
        f"somebody works against the portal: {said}; set right {drifts.repaired} times within an hour{when}"
    )
