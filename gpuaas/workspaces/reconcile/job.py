"""Everything that a run needs to know about one workspace, read in short queries with no transaction open."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gpuaas.core.rows import one_or_none
from gpuaas.lifecycle.operations import StepState
from gpuaas.lifecycle.visits import PROGRESSING, row_again
from gpuaas.providers.base import ObservedWorkspace, WorkspaceSpec, storage_key
from gpuaas.workspaces.models import Operation, Step, Workspace
from gpuaas.workspaces.reconcile.drifts import NO_DRIFTS, Drifts, drifts_load, is_watched
from gpuaas.workspaces.reconcile.plan import Desired, Observed
from gpuaas.workspaces.spec import spec_digest, spec_of
from gpuaas.workspaces.states import WorkspaceState


@dataclass(frozen=True)
class Job:
    row: Workspace
    operation: Operation | None
    steps: tuple[Step, ...]
    spec: WorkspaceSpec
    digest: str
    drifts: Drifts = NO_DRIFTS

    @property
    def desired(self) -> Desired:
        return Desired(
            state=WorkspaceState(self.row.state),
            pending=tuple(step.key for step in self.steps if step.state != StepState.DONE),
            hard=hard_of(self.spec),
            never_bought=frozenset(map(storage_key, self.spec.closed_classes)),
            filled=self._filled,
            last=self._last,
            digest=self.digest,
            ensured=self.operation.spec_digest if self.operation else self.row.ensured_digest,
            was_ready=self.row.ready_at is not None,
            watched=is_watched(self.row.site),
            compare_at=self.row.drift_due_at,
            repairs=self.drifts.repairs(self.row.site),
            hold_until=self.drifts.hold_until,
            hold_limits_until=self.drifts.hold_limits_until,
            drifted=self.drifts.open is not None,
        )

    @property
    def _last(self) -> Observed:
        hard, used = (self.row.observed.get(each, {}) for each in ("hard", "used"))
        return Observed(exists=True, hard=hard, used=used)

    @property
    def _filled(self) -> Mapping[str, int]:
        hard, used = self._last.hard, self._last.used
        keys = map(storage_key, self.spec.closed_classes)
        return {key: hard[key] for key in keys if key in hard and hard[key] == used.get(key)}

    @property
    def waits_since(self) -> datetime | None:
        """Since when something of the tenant's is waited for."""
        since = self.row.conditions.get(PROGRESSING, {}).get("since")
        return datetime.fromisoformat(since) if since else None

    def step(self, key: str) -> Step:
        return next(step for step in self.steps if step.key == key)


def hard_of(spec: WorkspaceSpec) -> Mapping[str, int]:
    """By the names of `ObservedWorkspace.hard`: what was not bought is 0, not absent."""
    hard = dict.fromkeys(spec.closed, 0)
    for gpu in spec.gpus:
        hard[gpu.resource_name] = hard.get(gpu.resource_name, 0) + gpu.count
    hard |= {storage_key(name): gib for name, gib in spec.storage_limits.items()}
    return {**hard, "cpu": spec.vcpus, "memory": spec.memory_gib, "storage": spec.storage_gib}


def enforced(spec: WorkspaceSpec, seen: ObservedWorkspace) -> Mapping[str, int]:
    """As wanted for storage classes that are not at the site any more, where it says which it has."""
    gone = {storage_key(name): gib for name, gib in spec.storage_limits.items() if seen.all_classes}
    return {**gone, **seen.hard}


def job_load(claimed: Workspace) -> Job:
    """The row, read again, if it is still claimed by us; for a failed resize the wanted state is what was confirmed
    before."""
    rows = Workspace.objects.select_related("project__organization", "site__watch")
    row = row_again(rows, claimed)
    operation = one_or_none(row.operations.filter(finished_at__isnull=True).prefetch_related("steps"))
    spec = spec_of(row, confirmed=row.state == WorkspaceState.FAILED)
    return Job(
        row=row,
        operation=operation,
        steps=tuple(operation.steps.all()) if operation else (),
        spec=spec,
        digest=spec_digest(spec),
        drifts=drifts_load(row) if operation is None else NO_DRIFTS,
    )
