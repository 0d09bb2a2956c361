"""What every service does: lock the row, check the version, open an operation, tell the world."""

import uuid
from functools import partial
from typing import Any

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterOperation, ClusterOperationStep, ClusterTransition
from gpuaas.clusters.site import cluster_driver_of
from gpuaas.clusters.spec import confirmed_of, parts_of
from gpuaas.clusters.states import MACHINE, STATE_OF, ClusterState, change_of
from gpuaas.clusters.steps import plan_whole, sites_held
from gpuaas.core import clock, events
from gpuaas.core.errors import Conflict, NotFound, StaleVersion
from gpuaas.core.operations import StepState
from gpuaas.core.queue import poke
from gpuaas.providers.base import ClusterChange, ClusterDriver, ClusterStep
from tenants.actors import Actor

HOLDER = "cluster"
ADMISSION = ClusterStep("admission", "Check the limits and reserve")


def cluster_lock(*, cluster_id: uuid.UUID, expected_version: int | None = None) -> Cluster:
    """The row as it is now, ours until the transaction ends. The row comes before everything else that is locked."""
    rows = Cluster.objects.select_for_update(of=("self",), no_key=True)
    row = (
        rows.select_related("project__organization", "site", "template_version__template")
        .filter(pk=cluster_id)
        .first()
    )
    if row is None:
        raise NotFound("there is no such cluster")
    if expected_version is not None and expected_version != row.version:
        raise StaleVersion(
            "the cluster was changed meanwhile; look at it again", detail={"version": row.version}
        )
    return row


def state_require(cluster: Cluster, *states: ClusterState) -> None:
    if cluster.state not in states:
        label = MACHINE.looks[ClusterState(cluster.state)].label.lower()
        raise Conflict(f"this cannot be done while the cluster is {label}", detail={"state": cluster.state})


def driver_of(cluster: Cluster, site: Site | None = None) -> ClusterDriver:
    """At its own site, or at a burst site."""
    return cluster_driver_of(cluster.template_version.template, site or cluster.site)


def operation_start(
    cluster: Cluster,
    kind: str,
    actor_name: str,
    *,
    steps: tuple[ClusterStep, ...],
    summary: str = "",
    admission: str = "",
) -> ClusterOperation:
    """`admission` says what was reserved; then the operation begins with that step already done."""
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
    ClusterOperationStep.objects.bulk_create(
        ClusterOperationStep(
            operation=operation,
            position=position,
            key=step.key,
            site=sites.get(step.site),
            label=step.label,
            makes=[[made.kind, made.name] for made in step.makes],
            state=StepState.DONE if step.key == ADMISSION.key else StepState.WAITING,
            started_at=moment if step.key == ADMISSION.key else None,
            finished_at=moment if step.key == ADMISSION.key else None,
            attempts=int(step.key == ADMISSION.key),
            detail=admission[:500] if step.key == ADMISSION.key else "",
        )
        for position, step in enumerate(listed)
    )
    return operation


def operation_begin(
    cluster: Cluster,
    actor: Actor,
    change: ClusterChange,
    *,
    summary: str = "",
    admission: str = "",
    reason: str = "",
    **changes: Any,
) -> None:
    """Move the row to the change's state, due at once, with the operation whose steps lead out of it.

    Of what has failed nobody knows how far it came: then every step counts, whatever was confirmed before.
    """
    failed = cluster.state == ClusterState.FAILED
    _move(cluster, actor, change, reason, **changes)
    parts, before = parts_of(cluster), () if failed else confirmed_of(cluster)
    held = sites_held(cluster, parts)
    plan = plan_whole(change, parts, partial(driver_of, cluster), before=before, held=held)
    operation_start(cluster, change, actor.name, steps=plan.steps, summary=summary, admission=admission)


def operation_repeat(cluster: Cluster, actor: Actor, failed: ClusterOperation) -> None:
    """The steps of an operation that failed, once more: those that were done stay done."""
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


def _move(cluster: Cluster, actor: Actor, change: ClusterChange, reason: str, **changes: Any) -> None:
    MACHINE.transition(
        cluster,
        to=STATE_OF[change],
        history=ClusterTransition,
        actor=actor.name,
        reason=reason,
        due_at=clock.now(),
        attempts=0,
        trouble={},
        **changes,
    )


def operation_end(cluster: Cluster, summary: str) -> None:
    """Whatever is under way ends here; the worker on it finds that it was overtaken."""
    cluster.operations.filter(finished_at__isnull=True).update(
        finished_at=clock.now(), succeeded=False, summary=summary
    )


def cluster_announce(cluster: Cluster) -> None:
    """Tell the pages of the project and the operators, on commit."""
    events.publish(
        kind="cluster",
        id=cluster.pk,
        groups=(events.project_group(cluster.project_id), events.OPERATORS_GROUP),
    )


def cluster_wake(cluster: Cluster) -> None:
    """Tell the world and let the reconciler look at once. The caller has set `due_at` in the same transaction."""
    cluster_announce(cluster)
    poke("clusters.reconcile", str(cluster.pk))
