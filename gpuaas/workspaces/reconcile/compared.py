"""Records the result of a comparison: one open drift per workspace at a time, and the condition that reports it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.lifecycle.kind import PORTAL, conditions_write
from gpuaas.lifecycle.visits import reachable
from gpuaas.providers.base import Difference
from gpuaas.workspaces.models import Drift, Workspace
from gpuaas.workspaces.reconcile import record
from gpuaas.workspaces.reconcile.drifts import Drifts
from gpuaas.workspaces.reconcile.job import Job
from gpuaas.workspaces.services.rows import workspace_announce
from gpuaas.workspaces.states import DriftState

IN_SYNC = "InSync"
CONFIRM_WITHIN = timedelta(seconds=30)
OPERATOR_DECIDES = (
    "The site only observes drift: an operator repairs it by hand, or changes the site's policy."
)

OPERATOR_CONFIRMS = (
    "Nothing is changed at the site until an operator has compared it with the portal and confirmed it."
)


def compared(job: Job, differences: Sequence[Difference]) -> None:
    """Differences are recorded once; finding none closes the open drift. Returns when the site is compared again."""
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
    """Called before the repair, so that a kill in between leaves no doubt about who made it."""
    Drift.objects.filter(workspace=job.row.pk, state=DriftState.OPEN, resolved_by="").update(
        resolved_by=PORTAL
    )


def drift_digest(differences: Sequence[dict[str, Any]]) -> str:
    """A digest of what differs, whoever caused it."""
    fields = sorted(
        json.dumps({k: v for k, v in one.items() if k != "changed_by"}, sort_keys=True) for one in differences
    )
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


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
    """Differences that are gone were repaired if a repair had started; True if something changed."""
    fields = [asdict(one) for one in differences]
    digest = drift_digest(fields)
    if old is not None and old.digest == digest:
        return False
    if old is not None and old.resolved_by:
        old.differences = [one for one in old.differences if one not in fields] or old.differences
        _resolve(old, moment)
        old = None
    if old is None:
        Drift.objects.create(workspace=row, found_at=moment, differences=fields, digest=digest)
    else:
        old.differences, old.digest = fields, digest
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
    """An operation since then has set everything again."""
    done = drift.workspace.operations.filter(finished_at__gte=drift.found_at, succeeded=True)
    return bool(done.exists())


def _not_as_sold(job: Job) -> dict[str, Any] | None:
    """Everything is set as sold, and the site has something else under that name, or nothing."""
    held = job.row.flavors.filter(count__gt=0).exclude(flavor__pool__trouble="")
    rows = held.order_by("flavor__slug").values_list("flavor__pool__gpu_type__name", "flavor__pool__trouble")
    if not rows:
        return None
    troubles = "; ".join(f"{name}: {trouble}" for name, trouble in dict(rows).items())
    message = f"what was sold is not what is at the site: {troubles}"[:500]
    remedy = "The provider brings it back at the site; the workspace is not changed meanwhile."
    return {
        "type": IN_SYNC,
        "status": Status.FALSE,
        "reason": "NotAsSold",
        "message": message,
        "remedy": remedy,
    }


def _in_sync(job: Job, differences: Sequence[Difference]) -> dict[str, Any]:
    if not differences and (breach := _not_as_sold(job)):
        return breach
    if not differences:
        message = "everything at the site is as the portal has set it"
        return {"type": IN_SYNC, "status": Status.TRUE, "reason": "Compared", "message": message}
    text = words(differences)
    drifts, reason, remedy = job.drifts, "Repairing", ""
    if drifts.hold_until is not None:
        reason, text, remedy = (
            "Contested",
            _contested(drifts, text),
            "Stop the client that changes it at the site.",
        )
    elif not job.row.site.confirmed:
        reason, remedy = "Unconfirmed", OPERATOR_CONFIRMS
    elif not job.desired.repairs:
        reason, remedy = "Drifted", OPERATOR_DECIDES
    else:
        text += "; the portal repairs it"
    return {
        "type": IN_SYNC,
        "status": Status.FALSE,
        "reason": reason,
        "message": text[:500],
        "remedy": remedy,
    }


def _contested(drifts: Drifts, text: str) -> str:
    again = drifts.hold_until
    when = f"; the next try is at {again:%H:%M:%S} UTC" if again is not None else ""
    return f"another client keeps changing it: {text}; repaired {drifts.repaired} times within an hour{when}"
