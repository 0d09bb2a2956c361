"""From our rows to what a driver is asked for. Always computed anew."""

import secrets
from collections.abc import Iterable, Sequence

from django.conf import settings

from gpuaas.catalog.models import Flavor
from gpuaas.clusters.definition import Definition
from gpuaas.clusters.models import Cluster, ClusterPool
from gpuaas.clusters.selectors import definition_of
from gpuaas.clusters.states import ClusterState
from gpuaas.core.crypto import decrypt_json, encrypt_json
from gpuaas.providers.base import Boots, ClusterSpec, ControlPlane, FlavorAmount, NodePool, NodeReport, Stage
from quotas.amounts import amounts_of

REPORTS_PATH = "/api/v1/node-reports"  # of the portal's own address: where machines report


def is_asleep(cluster: Cluster) -> bool:
    """Whether it has no workers now; a resumption that failed leaves it asleep."""
    falling = {ClusterState.SUSPENDING, ClusterState.SUSPENDED}
    woken_in_vain = cluster.state == ClusterState.FAILED and cluster.suspended_at is not None
    return cluster.state in falling or woken_in_vain


def pools_of(cluster: Cluster) -> list[ClusterPool]:
    return list(cluster.pools.select_related("flavor__pool__gpu_type").order_by("pk"))


def spec_of(cluster: Cluster) -> ClusterSpec:
    """What is wanted now."""
    asleep = is_asleep(cluster)
    pools = [_pool(row, 0 if asleep else row.count, row.release) for row in pools_of(cluster)]
    return _spec(cluster, definition_of(cluster.template_version), cluster.release, pools)


def confirmed_of(cluster: Cluster) -> ClusterSpec | None:
    """What the site confirmed last; None before it was ready for the first time."""
    if cluster.ready_at is None:
        return None
    rows = [row for row in pools_of(cluster) if row.confirmed_release]
    pools = [_pool(row, row.confirmed, row.confirmed_release) for row in rows]
    return _spec(cluster, definition_of(cluster.template_version), cluster.confirmed_release, pools)


def spec_first(cluster: Cluster, pools: Iterable[ClusterPool], definition: Definition) -> ClusterSpec:
    """Of one that is not saved yet."""
    return _spec(cluster, definition, cluster.release, [_pool(row, row.count, row.release) for row in pools])


def held_amounts(
    pools: Iterable[tuple[Flavor, int]], *, control_count: int, definition: Definition
) -> dict[str, int]:
    """What it takes of limits and capacity: its workers by their flavors, its control plane by its sizes."""
    return amounts_of(
        pools,
        vcpus=definition.vcpus * control_count,
        memory_gib=definition.memory_gib * control_count,
        storage_gib=definition.disk_gib * control_count,
    )


def _spec(cluster: Cluster, definition: Definition, release: str, pools: Sequence[NodePool]) -> ClusterSpec:
    return ClusterSpec(
        id=cluster.pk,
        external_name=cluster.external_name,
        project_slug=cluster.project.slug,
        organization_slug=cluster.project.organization.slug,
        kind=definition.kind,
        release=release,
        control_plane=ControlPlane(
            cluster.control_count, definition.vcpus, definition.memory_gib, definition.disk_gib
        ),
        pools=tuple(pools),
        addons=tuple(cluster.addons),
        parameters=cluster.parameters,
        settings=definition.settings,
        boots=boots_of(cluster),
        closed=tuple(sorted({*cluster.site.gpu_names} - {pool.flavor.resource_name for pool in pools})),
    )


def boots_of(cluster: Cluster) -> Boots:
    """Of one that is not saved yet, or is gone, there is no seed and nothing was told."""
    url = f"{settings.PUBLIC_URL.rstrip('/')}{REPORTS_PATH}"
    if not cluster.seed:
        return Boots(url)
    told = {row.boot: NodeReport(Stage(row.stage), row.message, row.passed) for row in cluster.boots.all()}
    return Boots(url, str(decrypt_json(cluster.seed)["seed"]), told)


def seed_make() -> str:
    return encrypt_json({"seed": secrets.token_hex(32)})


def _pool(row: ClusterPool, count: int, release: str) -> NodePool:
    flavor = row.flavor
    amount = FlavorAmount(
        slug=flavor.slug,
        count=count,
        gpus=flavor.gpus,
        vcpus=flavor.vcpus,
        memory_gib=flavor.memory_gib,
        disk_gib=flavor.disk_gib,
        resource_name=flavor.pool.resource_name,
        selector=flavor.pool.selector,
    )
    return NodePool(row.name, amount, release)
