"""What every service does: lock the row, check the version, open an operation, notify."""

from functools import partial
from typing import Any

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterOperation, ClusterOperationStep, ClusterTransition
from gpuaas.clusters.selectors import cluster_require
from gpuaas.clusters.site import cluster_driver_of
from gpuaas.clusters.spec import confirmed_of, parts_of
from gpuaas.clusters.states import ALLOWED, MACHINE, OVERTAKEN, STATE_OF, ClusterState, change_of
from gpuaas.clusters.steps import plan_whole, sites_held
from gpuaas.core import clock
from gpuaas.lifecycle.kind import EndWords, Kind
from gpuaas.lifecycle.operations import StepState, steps_write
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
ADMISSION = StepSpec("admission", "Check the limits and reserve")

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
)
cluster_lock, state_require, operation_end = CLUSTER.lock, CLUSTER.state_require, CLUSTER.operation_end
cluster_announce, cluster_wake = CLUSTER.announce, CLUSTER.wake


def driver_of(cluster: Cluster, site: Site | None = None) -> ClusterDriver:
    """The driver of its own site, or of a burst site."""
    return cluster_driver_of(cluster.template_version.template, site or cluster.site)


def signals_driver_of(cluster: Cluster) -> ClusterSignalsCapability | None:
    """The driver that reports demand; None if clusters of this kind cannot."""
    driver = driver_of(cluster)
    kind = ClusterKind(cluster.template_version.template.kind)
    return driver if isinstance(driver, ClusterSignalsCapability) and driver.has_signals(kind) else None


def operation_start(
    cluster: Cluster,
    kind: str,
    actor_name: str,
    *,
    steps: tuple[StepSpec, ...],
    summary: str = "",
    admission: str = "",
) -> ClusterOperation:
    """`admission`: what was reserved; then the operation starts with that step already done."""
    moment = clock.now()
    operation = ClusterOperation.objects.create(
        cluster=cluster,
        kind=str(kind),
        requested_by=actor_name,
        requested_at=moment,
        summary=summary[:200],
    )
    listed = (ADMISSION, *steps) if admission else steps
    elsewhere = {step.site for step in steps if step.site}
    sites = {site.slug: site for site in Site.objects.filter(slug__in=elsewhere)} if elsewhere else {}
    rows = [
        ClusterOperationStep(
            operation=operation,
            key=step.key,
            site=sites.get(step.site),
            label=step.label,
            makes=[[made.kind, made.name] for made in step.makes],
        )
        for step in listed
    ]
    steps_write(rows, admission=admission, now=moment)
    return operation


def operation_begin(
    cluster: Cluster,
    actor: Actor,
    change: Change,
    *,
    summary: str = "",
    admission: str = "",
    reason: str = "",
    **changes: Any,
) -> None:
    """Moves the row to the change's state, due at once, with the operation whose steps lead out of it.

    After a failure, or of a change that is overtaken, the progress is unknown: then every step counts, whatever was
    confirmed before.
    """
    unknown = cluster.state == ClusterState.FAILED or cluster.state in OVERTAKEN
    _move(cluster, actor, change, reason, **changes)
    parts, before = parts_of(cluster), () if unknown else confirmed_of(cluster)
    held = sites_held(cluster, parts)
    plan = plan_whole(change, parts, partial(driver_of, cluster), before=before, held=held)
    operation_start(cluster, change, actor.name, steps=plan.steps, summary=summary, admission=admission)


def operation_repeat(cluster: Cluster, actor: Actor, failed: ClusterOperation) -> None:
    """The steps of a failed operation, once more: finished ones stay done."""
    change = change_of(failed.kind)
    steps = list(failed.steps.all())
    _move(cluster, actor, change, "retried")
    again = ClusterOperation.objects.create(
        cluster=cluster,
        kind=failed.kind,
        requested_by=actor.name,
        requested_at=clock.now(),
        summary=failed.summary,
    )
    for step in steps:
        step.pk, step.operation = None, again
        if step.state != StepState.DONE:
            step.state, step.detail, step.attempts, step.refusals = StepState.WAITING, "", 0, 0
            step.started_at = step.finished_at = None
    ClusterOperationStep.objects.bulk_create(steps)


def _move(cluster: Cluster, actor: Actor, change: Change, reason: str, **changes: Any) -> None:
    CLUSTER.move(
        cluster,
        STATE_OF[change],
        actor=actor.name,
        reason=reason,
        due_at=clock.now(),
        attempts=0,
        trouble={},
        **changes,
    )
