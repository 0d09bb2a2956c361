"""What every service does: lock the row, check the version, open an operation, notify."""

from functools import partial

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterOperation, ClusterOperationStep, ClusterTransition
from gpuaas.clusters.selectors import cluster_require
from gpuaas.clusters.site import cluster_driver_of
from gpuaas.clusters.spec import confirmed_of, parts_of
from gpuaas.clusters.states import ALLOWED, CHANGING, MACHINE, OVERTAKEN, ClusterState, change_of
from gpuaas.clusters.steps import plan_whole, sites_held
from gpuaas.lifecycle.kind import EndWords, Kind
from gpuaas.lifecycle.operations import StepState
from gpuaas.providers.base import (
    Change,
    ClusterDriver,
    ClusterKind,
    ClusterSignalsCapability,
    StepSpec,
)
from tenants.actors import Actor
from tenants.roles import Permission

HOLDER = "cluster"


def driver_of(cluster: Cluster, site: Site | None = None) -> ClusterDriver:
    """The driver of its own site, or of a burst site."""
    return cluster_driver_of(cluster.template_version.template, site or cluster.site)


def signals_driver_of(cluster: Cluster) -> ClusterSignalsCapability | None:
    """The driver that reports demand; None if clusters of this kind cannot."""
    driver = driver_of(cluster)
    kind = ClusterKind(cluster.template_version.template.kind)
    return driver if isinstance(driver, ClusterSignalsCapability) and driver.has_signals(kind) else None


def _steps(cluster: Cluster, change: Change, was: str) -> tuple[StepSpec, ...]:
    """After a failure, or of a change that is overtaken, the progress is unknown: then every step counts, whatever was
    confirmed before."""
    unknown = was == ClusterState.FAILED or was in OVERTAKEN
    parts, before = parts_of(cluster), () if unknown else confirmed_of(cluster)
    held = sites_held(cluster, parts)
    return plan_whole(change, parts, partial(driver_of, cluster), before=before, held=held).steps


CLUSTER: Kind[Cluster] = Kind(
    "cluster",
    Cluster.objects,
    machine=MACHINE,
    history=ClusterTransition,
    operations=ClusterOperation.objects,
    reads=("project__organization", "site", "template_version__template"),
    task="clusters.reconcile",
    allowed=ALLOWED,
    permit=lambda actor, row: cluster_require(
        actor=actor, cluster=row, permission=Permission.WORKSPACE_CREATE
    ),
    overtaken=OVERTAKEN,
    end=EndWords("its workers are removed", "the whole cluster"),
    changing=CHANGING,
    steps=_steps,
    cured={"trouble": {}},
)
cluster_lock = CLUSTER.lock
operation_start, operation_begin = CLUSTER.operation_start, CLUSTER.begin
cluster_announce, cluster_wake = CLUSTER.announce, CLUSTER.wake


def operation_repeat(cluster: Cluster, actor: Actor, failed: ClusterOperation) -> None:
    """The steps of a failed operation, once more: finished ones stay done."""
    steps = list(failed.steps.all())
    CLUSTER.lead(cluster, actor, change_of(failed.kind), "retried")
    again = operation_start(cluster, failed.kind, actor, steps=(), summary=failed.summary)
    for step in steps:
        step.pk, step.operation_id = None, again.pk
        if step.state != StepState.DONE:
            step.state, step.detail, step.attempts, step.refusals = StepState.WAITING, "", 0, 0
            step.started_at = step.moved_at = step.finished_at = None
    ClusterOperationStep.objects.bulk_create(steps)
