"""Changing what is there: scale, upgrade, retry, extend, delete. One open operation at a time; only deletion takes over."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from gpuaas.clusters.models import Cluster, ClusterOperation, ClusterPool
from gpuaas.clusters.releases import skew_refuse
from gpuaas.clusters.selectors import cluster_require, definition_of, template_version_get
from gpuaas.clusters.services.order import words_of
from gpuaas.clusters.services.planning import is_sold
from gpuaas.clusters.services.rows import (
    HOLDER,
    cluster_announce,
    cluster_lock,
    cluster_wake,
    operation_begin,
    operation_end,
    operation_repeat,
    state_require,
)
from gpuaas.clusters.spec import Takes, pools_of, takes_of
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.terms import lease_extend
from gpuaas.providers.base import ClusterChange
from quotas.selectors import Preview, admission_preview
from quotas.services import reservation_grow
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission

S = ClusterState


@transaction.atomic
def cluster_scale(
    *,
    actor: Actor,
    cluster: Cluster,
    counts: Mapping[str, int],
    expected_version: int | None = None,
    reason: str = "",
) -> Cluster:
    """Ask for other numbers of workers; pools that are not named stay. What grows is reserved now, what shrinks is given
    back once confirmed. Also from a failed scaling, where it is the way back."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_CREATE)
    row = cluster_lock(cluster_id=cluster.pk, expected_version=expected_version)
    _changeable(row, ClusterChange.SCALE)
    pools = pools_of(row)
    before = {pool.name: pool.count for pool in pools}
    _counts_validate(row, pools, counts)
    for pool in pools:
        pool.count = counts.get(pool.name, pool.count)
    after = {pool.name: pool.count for pool in pools}
    if after == before and row.state == S.READY:
        raise Invalid.field("pools", "this is what the cluster already has")
    ClusterPool.objects.bulk_update(pools, ["count"])
    words = words_of(pools)
    operation_begin(
        row, actor, ClusterChange.SCALE, summary=words, admission=f"reserved for {words}", reason=reason
    )
    audit_record(
        actor=actor,
        action="cluster.scale",
        target=row,
        project=row.project,
        before={"pools": before},
        after={"pools": after},
    )
    cluster_wake(row)
    cluster_reserve(row, pools)
    return row


def scale_preview(*, cluster: Cluster, counts: Mapping[str, int]) -> Preview:
    """What admission would say to a scaling now, beyond what is held; reserves nothing. Raises Invalid beside the pools."""
    pools = pools_of(cluster)
    _counts_validate(cluster, pools, counts)
    # what shrinks is held until the site has confirmed it
    for pool in pools:
        pool.count = max(pool.count, pool.confirmed)
    held = takes_wanted(cluster, pools)
    for pool in pools:
        pool.count = counts.get(pool.name, pool.count)
    wanted = takes_wanted(cluster, pools)
    return admission_preview(
        project=cluster.project,
        site=cluster.site,
        amounts=_more(wanted.home, held.home),
        elsewhere={
            site: _more(asked, held.elsewhere.get(site, {})) for site, asked in wanted.elsewhere.items()
        },
        holder_id=cluster.pk,
    )


def _more(wanted: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    return {name: wanted.get(name, 0) - held.get(name, 0) for name in {**held, **wanted}}


def takes_wanted(row: Cluster, pools: list[ClusterPool]) -> Takes:
    """What is wanted of it takes."""
    items = [(pool.flavor, pool.count) for pool in pools]
    return takes_of(row, items, definition_of(row.template_version))


def cluster_reserve(row: Cluster, pools: list[ClusterPool]) -> None:
    """Raise what is held to what is wanted, at every site, or refuse all of it."""
    takes = takes_wanted(row, pools)
    reservation_grow(
        holder_kind=HOLDER,
        holder_id=row.pk,
        amounts=takes.home,
        site=row.site,
        elsewhere=takes.elsewhere,
    )


def _grows(row: Cluster, pool: ClusterPool) -> bool:
    return row.site.takes_new and pool.flavor.pool.site.takes_new and is_sold(pool.flavor)


def _counts_validate(row: Cluster, pools: list[ClusterPool], counts: Mapping[str, int]) -> None:
    known = {pool.name: pool for pool in pools}
    definition = definition_of(row.template_version)
    wrong: dict[str, list[str]] = {}
    for name, count in counts.items():
        if name not in known:
            wrong["pools"] = [f"the cluster has no pool {str(name)[:40]!r}"]
            continue
        bounds = definition.pool(name)
        if type(count) is not int or not bounds.minimum <= count <= bounds.maximum:
            wrong[f"pools.{name}"] = [f"a whole number from {bounds.minimum} to {bounds.maximum}"]
        elif count > max(known[name].count, known[name].confirmed) and not _grows(row, known[name]):
            wrong[f"pools.{name}"] = [
                f"{known[name].flavor.slug} is not on offer now, so the pool cannot grow"
            ]
    if wrong:
        raise Invalid(next(iter(wrong.values()))[0], fields=wrong)


@transaction.atomic
def cluster_upgrade(
    *,
    actor: Actor,
    cluster: Cluster,
    release: str,
    first_pool: str | None = None,
    expected_version: int | None = None,
) -> Cluster:
    """Bring the control plane to `release`, with all pools or, to try it, with one pool first; then again without
    `first_pool` for the rest. Offered are the releases of the template's newest version."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_CREATE)
    row = cluster_lock(cluster_id=cluster.pk, expected_version=expected_version)
    state_require(row, S.READY)
    offered = definition_of(template_version_get(template=row.template_version.template))
    if release not in offered.releases:
        raise Invalid.field("release", f"choose one of {', '.join(offered.releases)}")
    pools = pools_of(row)
    if first_pool is not None and first_pool not in {pool.name for pool in pools}:
        raise Invalid.field("first_pool", f"the cluster has no pool {str(first_pool)[:40]!r}")
    moved = [pool for pool in pools if first_pool in {None, pool.name} and pool.release != release]
    if not moved and release == row.release:
        raise Invalid.field("release", f"all of it runs {release} already")
    before = {"release": row.release, "pools": {pool.name: pool.release for pool in pools}}
    for pool in moved:
        pool.release = release
    after = {pool.name: pool.release for pool in pools}
    skew_refuse(offered.kind, held=row.release, wanted=release, pools=after)
    ClusterPool.objects.bulk_update(moved, ["release"])
    summary = f"to {release}" + (f", the pool {first_pool} first" if first_pool else "")
    operation_begin(row, actor, ClusterChange.UPGRADE, summary=summary, release=release)
    audit_record(
        actor=actor,
        action="cluster.upgrade",
        target=row,
        project=row.project,
        before=before,
        after={"release": release, "pools": after},
    )
    cluster_wake(row)
    return row


@transaction.atomic
def cluster_retry(*, actor: Actor, cluster: Cluster, expected_version: int | None = None) -> Cluster:
    """Try what failed again, from the step that failed; what was reserved is still held."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_CREATE)
    row = cluster_lock(cluster_id=cluster.pk, expected_version=expected_version)
    state_require(row, S.FAILED)
    failed = last_operation(row)
    before = {"trouble": row.trouble}
    operation_repeat(row, actor, failed)
    audit_record(actor=actor, action="cluster.retry", target=row, project=row.project, before=before)
    cluster_wake(row)
    return row


def last_operation(row: Cluster) -> ClusterOperation:
    found = row.operations.first()
    if found is None:
        raise Conflict("nothing was ever asked of this cluster")
    return found


@transaction.atomic
def cluster_extend(
    *, actor: Actor, cluster: Cluster, lease_ends_at: datetime, expected_version: int | None = None
) -> Cluster:
    """A later end of the lease, at most 365 days from now."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_CREATE)
    row = cluster_lock(cluster_id=cluster.pk, expected_version=expected_version)
    state_require(row, *(LIVE - {S.DELETING}))
    before, after = lease_extend(row, lease_ends_at)
    audit_record(
        actor=actor,
        action="cluster.extend",
        target=row,
        project=row.project,
        before=before,
        after=after,
    )
    cluster_announce(row)
    return row


@transaction.atomic
def cluster_delete(
    *, actor: Actor, cluster: Cluster, expected_version: int | None = None, reason: str = ""
) -> Cluster:
    """Begin the deletion, from any live state; whatever was under way ends. Asking again changes nothing."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_CREATE)
    row = cluster_lock(cluster_id=cluster.pk)
    if row.state in {S.DELETING, S.DELETED}:
        return row
    row = cluster_lock(cluster_id=cluster.pk, expected_version=expected_version)
    operation_end(row, "ended by the deletion")
    before: dict[str, Any] = {"state": row.state}
    operation_begin(row, actor, ClusterChange.DELETE, summary=reason, reason=reason)
    audit_record(actor=actor, action="cluster.delete", target=row, project=row.project, before=before)
    cluster_wake(row)
    return row


def _changeable(row: Cluster, change: ClusterChange) -> None:
    """Ready, or failed at the same change."""
    state_require(row, S.READY, S.FAILED)
    if row.state == S.FAILED and last_operation(row).kind != change:
        raise Conflict("something else has failed before: retry that, or delete the cluster")
