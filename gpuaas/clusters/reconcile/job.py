"""Everything that a run needs to know about one cluster, read in short queries with no transaction open."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Prefetch

from gpuaas.clusters.models import Cluster, ClusterOperation, ClusterOperationStep
from gpuaas.clusters.reconcile.plan import Desired
from gpuaas.clusters.spec import Part, parts_of
from gpuaas.clusters.states import ClusterState
from gpuaas.clusters.steps import sites_held
from gpuaas.core.rows import one_or_none
from gpuaas.lifecycle.operations import StepState
from gpuaas.lifecycle.visits import row_again
from gpuaas.providers.base import ClusterSpec


@dataclass(frozen=True)
class Job:
    row: Cluster
    operation: ClusterOperation | None
    steps: tuple[ClusterOperationStep, ...]
    parts: tuple[Part, ...]

    @property
    def spec(self) -> ClusterSpec:
        """At its own site."""
        return self.parts[0].spec

    def desired(self, away: Iterable[str] = ()) -> Desired:
        pending = tuple(step.name for step in self.steps if step.state != StepState.DONE)
        return Desired(state=ClusterState(self.row.state), pending=pending, away=frozenset(away))

    def step(self, name: str) -> ClusterOperationStep:
        return next(step for step in self.steps if step.name == name)

    def part(self, step: ClusterOperationStep) -> Part:
        return next(part for part in self.parts if part.site_id == step.site_id)

    def steps_at(self, part: Part) -> list[ClusterOperationStep]:
        return [step for step in self.steps if step.site_id == part.site_id]


def job_load(claimed: Cluster) -> Job:
    """The row, read again, if it is still claimed by us."""
    rows = Cluster.objects.select_related("project__organization", "site", "template_version__template")
    row = row_again(rows, claimed)
    steps = Prefetch("steps", queryset=ClusterOperationStep.objects.select_related("site"))
    operation = one_or_none(row.operations.filter(finished_at__isnull=True).prefetch_related(steps))
    listed = tuple(operation.steps.all()) if operation else ()
    named = {step.site_id for step in listed}
    parts = parts_of(row)
    held = sites_held(row, parts) | named
    return Job(
        row=row,
        operation=operation,
        steps=listed,
        parts=tuple(part for part in parts if part.site is None or part.spec.workers or part.site_id in held),
    )
