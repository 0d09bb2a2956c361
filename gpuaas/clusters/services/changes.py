"""Changes of existing clusters: scale, upgrade, retry, extend, delete. One open operation at a time; only deletion
replaces it."""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from gpuaas.catalog.selectors import is_sold
from gpuaas.clusters.models import Cluster, ClusterOperation, ClusterPool
from gpuaas.clusters.releases import skew_refuse
from gpuaas.clusters.selectors import definition_of, template_version_get
from gpuaas.clusters.services.order import words_of
from gpuaas.clusters.services.rows import (
    CLUSTER,
    HOLDER,
    cluster_wake,
    operation_begin,
    operation_repeat,
)
from gpuaas.clusters.spec import Takes, pools_of, queue_of, takes_of
from gpuaas.clusters.states import ClusterState, change_of
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.lease import lease_extend
from gpuaas.providers.base import Change
from quotas.holds import holds_refuse
from quotas.selectors import Preview, admission_preview
from quotas.services import reservation_grow
from tenants.actors import Actor

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
    """Requests other numbers of workers; pools that are not named stay. An increase is reserved now, a decrease is
    released once confirmed. Also after a failed scaling, as the way back."""
    row = CLUSTER.asked(actor, cluster, Verb.RESIZE, expected_version)
    pools = pools_of(row)
    before = {pool.name: pool.count for pool in pools}
    _counts_validate(row, pools, counts)
    for pool in pools:
        pool.count = counts.get(pool.name, pool.count)
    after = {pool.name: pool.count for pool in pools}
    if after == before and row.state == S.READY:
        raise Invalid.field("pools", "the cluster already has exactly this")
    ClusterPool.objects.bulk_update(pools, ["count"])
    words = words_of(pools)
    operation_begin(row, actor, Change.SCALE, summary=words, admission=f"reserved for {words}", reason=reason)
    CLUSTER.audit(row, actor, "scale", before={"pools": before}, after={"pools": after})
    cluster_wake(row)
    cluster_reserve(row, pools)
    return row


def scale_preview(*, cluster: Cluster, counts: Mapping[str, int]) -> Preview:
    """What admission would answer to a scaling now, beyond what is held; reserves nothing. Raises Invalid on the
    pools."""
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


def scale_warnings(*, cluster: Cluster, counts: Mapping[str, int]) -> list[str]:
    """What a scaling would end, as far as the cluster has reported what runs on its workers. Two queries."""
    queue = queue_of(cluster)
    if queue is None or not queue.is_timely(clock.now()):
        return []
    seen = {one.pool: one.busy for one in queue.pools}
    found = []
    for pool in pools_of(cluster):
        ending = [
            number
            for number in seen.get(pool.name, ())
            if counts.get(pool.name, pool.count) < number <= pool.count
        ]
        if ending:
            which = "worker" if len(ending) == 1 else "workers"
            numbers = " and ".join(filter(None, [", ".join(map(str, ending[:-1])), str(ending[-1])]))
            found.append(
                f"Work runs on {which} {numbers} of the pool {pool.name}: it ends when the pool shrinks."
            )
    return found


def resume_preview(*, cluster: Cluster) -> Preview:
    """What admission would answer now to waking it; its control plane is held. Reserves nothing."""
    wanted = takes_wanted(cluster, pools_of(cluster))
    held = takes_of(cluster, [], definition_of(cluster.template_version))
    return admission_preview(
        project=cluster.project,
        site=cluster.site,
        amounts=_more(wanted.home, held.home),
        elsewhere=wanted.elsewhere,
        holder_id=cluster.pk,
    )


def _more(wanted: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    return {name: wanted.get(name, 0) - held.get(name, 0) for name in {**held, **wanted}}


def takes_wanted(row: Cluster, pools: list[ClusterPool]) -> Takes:
    """The amounts of what is wanted of it."""
    items = [(pool.flavor, pool.count) for pool in pools]
    return takes_of(row, items, definition_of(row.template_version))


def cluster_reserve(row: Cluster, pools: list[ClusterPool]) -> None:
    """Raises what is held to what is wanted, at every site, or refuses all of it."""
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
    """Brings the control plane to `release`, with all pools or, to try it, with one pool first; then again without
    `first_pool` for the rest. The releases of the template's newest version are offered."""
    row = CLUSTER.asked(actor, cluster, Verb.UPGRADE, expected_version)
    offered = definition_of(template_version_get(template=row.template_version.template))
    if release not in offered.releases:
        raise Invalid.field("release", f"choose one of {', '.join(offered.releases)}")
    pools = pools_of(row)
    if first_pool is not None and first_pool not in {pool.name for pool in pools}:
        raise Invalid.field("first_pool", f"the cluster has no pool {str(first_pool)[:40]!r}")
    moved = [pool for pool in pools if first_pool in {None, pool.name} and pool.release != release]
    if not moved and release == row.release:
        raise Invalid.field("release", f"the whole cluster already runs {release}")
    before = {"release": row.release, "pools": {pool.name: pool.release for pool in pools}}
    for pool in moved:
        pool.release = release
    after = {pool.name: pool.release for pool in pools}
    skew_refuse(offered.kind, held=row.release, wanted=release, pools=after)
    ClusterPool.objects.bulk_update(moved, ["release"])
    summary = f"to {release}" + (f", the pool {first_pool} first" if first_pool else "")
    operation_begin(row, actor, Change.UPGRADE, summary=summary, release=release)
    CLUSTER.audit(row, actor, "upgrade", before=before, after={"release": release, "pools": after})
    cluster_wake(row)
    return row


@transaction.atomic
def cluster_retry(*, actor: Actor, cluster: Cluster, expected_version: int | None = None) -> Cluster:
    """Retries from the step that failed; what was reserved is still held. Raises OnHold where it would begin or wake what a hold
    refuses."""
    row = CLUSTER.asked(actor, cluster, Verb.RETRY, expected_version)
    failed = last_operation(row)
    if change_of(failed.kind) in {Change.CREATE, Change.RESUME}:
        holds_refuse(project=row.project, holder_id=row.pk)
    before = {"trouble": row.trouble}
    operation_repeat(row, actor, failed)
    CLUSTER.audit(row, actor, "retry", before=before)
    cluster_wake(row)
    return row


def last_operation(row: Cluster) -> ClusterOperation:
    found = row.operations.first()
    if found is None:
        raise Conflict("this cluster has no operations")
    return found


def cluster_extend(
    *, actor: Actor, cluster: Cluster, lease_ends_at: datetime, expected_version: int | None = None
) -> Cluster:
    """A later end of the lease, at most 365 days from now."""
    return lease_extend(CLUSTER, actor, cluster, ends_at=lease_ends_at, expected_version=expected_version)


def cluster_delete(
    *, actor: Actor, cluster: Cluster, expected_version: int | None = None, reason: str = ""
) -> Cluster:
    """Starts the deletion, from any live state; a running operation ends. Repeating it changes nothing."""
    return CLUSTER.take_down(actor, cluster, Verb.DELETE, expected_version, reason)
