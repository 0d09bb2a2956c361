"""The steps of an operation, written in batches: each write is one transaction, guarded by claim, state and
operation.

Fast steps are performed back to back and written together; after a quarter of a second, or before waiting, the
progress is written, so that the page shows it. A kill in between repeats finished steps, which changes nothing.
"""

import time
from datetime import datetime

from gpuaas.core import claims, clock
from gpuaas.core.conditions import Status
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.lifecycle.operations import ADMISSION, StepState
from gpuaas.lifecycle.visits import PROGRESSING, reachable
from gpuaas.workspaces.grants import grants_end
from gpuaas.workspaces.holdings import holdings_end, holdings_set, storage_confirmed
from gpuaas.workspaces.models import Operation, Step, Workspace
from gpuaas.workspaces.reconcile.job import Job
from gpuaas.workspaces.reconcile.record import ACCESS, guarded
from gpuaas.workspaces.services.rows import WORKSPACE, workspace_announce
from gpuaas.workspaces.states import WorkspaceState

FLUSH_SECONDS = 0.25
# the one step of each driver's release and suspension after which nothing of the workspace runs
CONSUMERS_STEPS = frozenset({"pods", "servers", "devices"})
ACCESS_STEP = "access"
COLUMNS = ["state", "started_at", "finished_at", "attempts", "detail"]


def begin(job: Job) -> None:
    """Started: the page shows the first step as running."""
    first = next((step for step in job.steps if step.state == StepState.WAITING), None)
    with guarded(job) as row:
        WORKSPACE.move(row, WorkspaceState.PROVISIONING)
        if first is not None:
            _run(first)
            first.save(update_fields=COLUMNS)
        workspace_announce(row)
    job.row.state = WorkspaceState.PROVISIONING


class Timeline:
    """What one visit does with an operation's steps, in order."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._changed: list[Step] = []
        self._done: list[Step] = []
        self._written_at = time.monotonic()

    def start(self, step: Step) -> None:
        """Raises ClaimLost or Overtaken if the visit has to end, at most a quarter of a second late."""
        news = step.state != StepState.RUNNING and not self._changed
        _run(step)
        step.attempts += 1
        self._changed.append(step)
        if news or self.is_old:
            self.write()

    def done(self, step: Step, detail: str) -> None:
        step.state, step.finished_at, step.detail = StepState.DONE, clock.now(), detail[:500]
        if step not in self._changed:
            self._changed.append(step)
        self._done.append(step)

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self._written_at > FLUSH_SECONDS

    def write(self) -> None:
        if not self._changed:
            return
        with guarded(self.job) as row:
            self._write(row)
            workspace_announce(row)
        self._clear()

    def wait(self, step: Step, detail: str, *, due_at: datetime) -> None:
        """The site is working on it: the claim is released until then."""
        with guarded(self.job) as row:
            news = step.detail != detail[:500] or bool(self._done)
            step.detail = detail[:500]
            if step not in self._changed:
                self._changed.append(step)
            news = self._write(row) or news
            claims.release(row, due_at=due_at, attempts=0)
            if news:
                workspace_announce(row)
        self._clear()

    def _write(self, row: Workspace) -> bool:
        Step.objects.bulk_update(self._changed, COLUMNS)
        for step in self._done:
            self._finished(row, step, step.finished_at or clock.now())
        if self._done and row.attempts:
            Workspace.objects.filter(pk=row.pk).update(attempts=0)
        return conditions_write(row, reachable(), drop=(PROGRESSING,)) if self._done else False

    def _finished(self, row: Workspace, step: Step, at: datetime) -> None:
        """Ends the holdings when nothing runs any more, and records from which spec the site was ensured."""
        if row.state == WorkspaceState.DELETING:
            _released(row, step, at)
        elif row.state == WorkspaceState.SUSPENDING:
            if step.key in CONSUMERS_STEPS:
                holdings_set(workspace=row, items=(), storage=storage_confirmed(row), at=at)
        else:
            self._digest_note()

    def _digest_note(self) -> None:
        """All steps of one digest, or "mixed": then the site is ensured once more as soon as it is ready."""
        operation = self.job.operation
        if operation is None or operation.spec_digest == self.job.digest:
            return
        ours = {step.pk for step in self._changed}
        others = [step for step in self.job.steps if step.pk not in ours and step.key != ADMISSION]
        first = not operation.spec_digest and not any(step.refusals or step.attempts for step in others)
        operation.spec_digest = self.job.digest if first else "mixed"
        Operation.objects.filter(pk=operation.pk).update(spec_digest=operation.spec_digest)

    def _clear(self) -> None:
        self._changed, self._done, self._written_at = [], [], time.monotonic()


def _run(step: Step) -> None:
    step.state = StepState.RUNNING
    step.started_at = step.started_at or clock.now()


def _released(row: Workspace, step: Step, at: datetime) -> None:
    if step.key in CONSUMERS_STEPS:
        holdings_end(workspace=row, at=at)
    if step.key == ACCESS_STEP:
        grants_end(workspace=row, at=at)
        message = "access ended with the deletion"
        conditions_write(
            row, {"type": ACCESS, "status": Status.FALSE, "reason": "Deleting", "message": message}
        )
