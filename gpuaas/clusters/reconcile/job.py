"""Everything a run needs to know about one cluster, read in short queries with no transaction held."""

from dataclasses import dataclass

from gpuaas.clusters.models import Cluster, ClusterOperation, ClusterOperationStep
from gpuaas.clusters.reconcile.plan import Desired
from gpuaas.clusters.spec import spec_of
from gpuaas.clusters.states import ClusterState
from gpuaas.core.operations import StepState
from gpuaas.core.visits import LeaseLost
from gpuaas.providers.base import ClusterSpec


@dataclass(frozen=True)
class Job:
    row: Cluster
    operation: ClusterOperation | None
    steps: tuple[ClusterOperationStep, ...]
    spec: ClusterSpec

    @property
    def desired(self) -> Desired:
        pending = tuple(step.key for step in self.steps if step.state != StepState.DONE)
        return Desired(state=ClusterState(self.row.state), pending=pending)

    def step(self, key: str) -> ClusterOperationStep:
        return next(step for step in self.steps if step.key == key)


def job_load(claimed: Cluster) -> Job:
    """The row anew, if it is still leased to us."""
    rows = Cluster.objects.select_related("project__organization", "site", "template_version__template")
    row = rows.filter(pk=claimed.pk, claim_token=claimed.claim_token).first()
    if row is None:
        raise LeaseLost("another process works on this cluster")
    operation = row.operations.filter(finished_at__isnull=True).prefetch_related("steps").first()
    return Job(
        row=row,
        operation=operation,
        steps=tuple(operation.steps.all()) if operation else (),
        spec=spec_of(row),
    )
