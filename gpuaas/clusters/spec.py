"""Converts our rows to the spec for a driver. Computed each time."""

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.spec import flavor_amount
from gpuaas.clusters.definition import Definition
from gpuaas.clusters.models import Cluster, ClusterPool, ClusterQueue
from gpuaas.clusters.selectors import definition_of
from gpuaas.clusters.states import ClusterState
from gpuaas.core.crypto import decrypt_json, encrypt_json
from gpuaas.core.rows import one_or_none
from gpuaas.providers import base
from quotas.amounts import amounts_of

# of the portal's own address: where machines report
REPORTS_PATH, QUEUE_PATH = "/api/v1/node-reports", "/api/v1/queue-reports"


def is_asleep(cluster: Cluster) -> bool:
    """Whether it has no workers now; after a failed resumption it is still suspended."""
    falling = {ClusterState.SUSPENDING, ClusterState.SUSPENDED}
    woken_in_vain = cluster.state == ClusterState.FAILED and cluster.suspended_at is not None
    return cluster.state in falling or woken_in_vain


@dataclass(frozen=True)
class Part:
    """What one site must hold of a cluster. site: a burst site, with pools only; None = its own, with the control
    plane."""

    site: Site | None
    spec: base.ClusterSpec

    @property
    def slug(self) -> str:
        return self.site.slug if self.site else ""

    @property
    def site_id(self) -> UUID | None:
        return self.site.pk if self.site else None


@dataclass(frozen=True)
class Takes:
    """What a cluster takes of limits and capacity: at its own site, and at others."""

    home: dict[str, int]
    elsewhere: dict[Site, dict[str, int]]

    @property
    def total(self) -> dict[str, int]:
        found = Counter(self.home)
        for amounts in self.elsewhere.values():
            found.update(amounts)
        return dict(found)


def pools_of(cluster: Cluster) -> list[ClusterPool]:
    return list(cluster.pools.select_related("flavor__pool__gpu_type", "flavor__pool__site").order_by("pk"))


def burst_site(cluster: Cluster, flavor: Flavor) -> Site | None:
    """The site of the flavor's pool, if it is not the cluster's own."""
    site = flavor.pool.site
    return None if site.pk == cluster.site_id else site


def parts_of(cluster: Cluster) -> tuple[Part, ...]:
    """What is wanted now, by site: its own first."""
    asleep = is_asleep(cluster)
    rows = [(row, _pool(row, 0 if asleep else row.count, row.release)) for row in pools_of(cluster)]
    return _parts(cluster, definition_of(cluster.template_version), cluster.release, rows)


def spec_of(cluster: Cluster) -> base.ClusterSpec:
    """What is wanted now at its own site."""
    return parts_of(cluster)[0].spec


def spec_whole(cluster: Cluster) -> base.ClusterSpec:
    """With the pools of all sites, as the control plane knows them, and its head's latest queue report."""
    own, *others = parts_of(cluster)
    pools = [pool for part in (own, *others) for pool in part.spec.pools]
    return replace(own.spec, pools=tuple(pools), elsewhere=(), queue=queue_of(cluster))


def queue_of(cluster: Cluster) -> base.QueueReport | None:
    """Its head's latest report."""
    row = one_or_none(ClusterQueue.objects.filter(cluster=cluster))
    if row is None:
        return None
    return base.QueueReport(
        row.told_at, tuple(base.PoolSignals(**one, **_workers(row, one["pool"])) for one in row.pools)
    )


def nodes_of(cluster: Cluster, now: datetime) -> tuple[Mapping[str, Any], ...]:
    """Its machines as last seen. One of Slurm that the head has just reported as unhealthy is not ready, for that reason."""
    nodes = tuple(cluster.observed.get("nodes", ()))
    is_slurm = cluster.template_version.template.kind == base.ClusterKind.SLURM
    queue = queue_of(cluster) if is_slurm and nodes else None
    if queue is None or not queue.is_timely(now):
        return nodes
    unhealthy = {
        f"{cluster.external_name}-{pool.pool}-{number}": reason
        for pool in queue.pools
        for number, reason in pool.unhealthy
    }
    return tuple(
        {**node, "ready": False, "reason": unhealthy[node["name"]]} if node["name"] in unhealthy else node
        for node in nodes
    )


def _workers(row: ClusterQueue, pool: str) -> dict[str, Any]:
    found = row.workers.get(pool, {})
    unhealthy = tuple((number, reason) for number, reason in found.get("unhealthy", ()))
    return {**found, "busy": tuple(found.get("busy", ())), "unhealthy": unhealthy}


def confirmed_of(cluster: Cluster) -> tuple[Part, ...]:
    """What the sites confirmed last; nothing before it was ready for the first time."""
    if cluster.ready_at is None:
        return ()
    rows = [
        (row, _pool(row, row.confirmed, row.confirmed_release))
        for row in pools_of(cluster)
        if row.confirmed_release
    ]
    return _parts(cluster, definition_of(cluster.template_version), cluster.confirmed_release, rows)


def parts_first(cluster: Cluster, pools: Iterable[ClusterPool], definition: Definition) -> tuple[Part, ...]:
    """Of a cluster that is not saved yet."""
    rows = [(row, _pool(row, row.count, row.release)) for row in pools]
    return _parts(cluster, definition, cluster.release, rows)


def takes_of(cluster: Cluster, pools: Iterable[tuple[Flavor, int]], definition: Definition) -> Takes:
    """Its workers by their flavors, each at the flavor's site; its control plane by its sizes."""
    placed: dict[Site | None, list[tuple[Flavor, int]]] = {None: []}
    for flavor, count in pools:
        placed.setdefault(burst_site(cluster, flavor), []).append((flavor, count))
    home = amounts_of(
        placed.pop(None),
        vcpus=definition.vcpus * cluster.control_count,
        memory_gib=definition.memory_gib * cluster.control_count,
        storage_gib=definition.disk_gib * cluster.control_count,
    )
    return Takes(home, {site: amounts_of(items) for site, items in placed.items() if site})


def _parts(
    cluster: Cluster, definition: Definition, release: str, rows: Sequence[tuple[ClusterPool, base.NodePool]]
) -> tuple[Part, ...]:
    placed: dict[Site | None, list[base.NodePool]] = {None: []}
    for row, pool in rows:
        placed.setdefault(burst_site(cluster, row.flavor), []).append(pool)
    elsewhere = tuple(pool for row, pool in rows if burst_site(cluster, row.flavor))
    own = replace(_spec(cluster, definition, release, placed.pop(None)), elsewhere=elsewhere)
    bare = replace(own, control_plane=replace(own.control_plane, count=0), addons=())
    others = [
        Part(site, replace(bare, pools=tuple(pools), closed=_closed(site, pools)))
        for site, pools in placed.items()
        if site
    ]
    return (Part(None, own), *sorted(others, key=lambda part: part.slug))


def _spec(
    cluster: Cluster, definition: Definition, release: str, pools: Sequence[base.NodePool]
) -> base.ClusterSpec:
    return base.ClusterSpec(
        id=cluster.pk,
        external_name=cluster.external_name,
        project_slug=cluster.project.slug,
        organization_slug=cluster.project.organization.slug,
        kind=definition.kind,
        release=release,
        control_plane=base.ControlPlane(
            cluster.control_count, definition.vcpus, definition.memory_gib, definition.disk_gib
        ),
        pools=tuple(pools),
        addons=tuple(cluster.addons),
        parameters=cluster.parameters,
        settings=definition.settings,
        boots=boots_of(cluster),
        closed=_closed(cluster.site, pools),
        spans=bool(definition.burst),
    )


def _closed(site: Site, pools: Sequence[base.NodePool]) -> tuple[str, ...]:
    bought = {name for pool in pools for name in (pool.flavor.resource_name, *pool.flavor.also)}
    return tuple(sorted({*site.gpu_names} - bought))


def boots_of(cluster: Cluster) -> base.Boots:
    """One that is not saved yet, or is deleted, has no seed and no reports."""
    home = settings.PUBLIC_URL.rstrip("/")
    url, queue_url = f"{home}{REPORTS_PATH}", f"{home}{QUEUE_PATH}"
    if not cluster.seed:
        return base.Boots(url, queue_url=queue_url, zone=settings.BILLING_TIME_ZONE)
    reports = {
        row.boot: base.NodeReport(base.Stage(row.stage), row.message, row.passed)
        for row in cluster.boots.all()
    }
    seed = str(decrypt_json(cluster.seed)["seed"])
    return base.Boots(url, seed, reports, queue_url, settings.BILLING_TIME_ZONE)


def seed_make() -> str:
    return encrypt_json({"seed": secrets.token_hex(32)})


def _pool(row: ClusterPool, count: int, release: str) -> base.NodePool:
    return base.NodePool(row.name, flavor_amount(row.flavor, count), release)
