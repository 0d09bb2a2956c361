"""Holdings of clusters become intervals as those of workspaces do: once, whoever syncs, and of one holder each."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, ClusterHolding
from gpuaas.metering.models import EndedBy, UsageInterval
from gpuaas.metering.selectors import UsageFilters, intervals_for
from gpuaas.metering.services import held_sync
from gpuaas.workspaces.models import Holding, Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.stage import cluster_make
from tests.metering.stage import utc, workspace_make

START, END = utc("2026-11-02 10:00:00"), utc("2026-11-02 11:00:00")
ROWS = 20


@pytest.fixture
def cluster(project: Project, h100: Flavor, alice: User) -> Cluster:
    return cluster_make(project, h100, alice)


def hold(cluster: Cluster, flavor: Flavor | None, meter: str, quantity: int) -> ClusterHolding:
    return ClusterHolding.objects.create(
        cluster=cluster,
        project=cluster.project,
        flavor=flavor,
        meter=meter,
        quantity=quantity,
        started_at=START,
    )


def test_an_open_holding_is_an_open_interval_until_it_ends(cluster: Cluster, h100: Flavor) -> None:
    gpus = hold(cluster, h100, "gpu_held", 8)
    hold(cluster, None, "vcpu_held", 68)
    hold(cluster, None, "storage_held", 0)
    assert [held_sync(now=START), held_sync(now=END)] == [2, 0]
    ClusterHolding.objects.filter(pk=gpus.pk).update(ended_at=END)
    assert [held_sync(now=END), held_sync(now=END)] == [1, 0]
    rows = UsageInterval.objects.order_by("meter").values_list(
        "cluster", "workspace", "project", "site", "meter", "flavor__slug", "resource_name", "consumer_name"
    )
    about: tuple[Any, ...] = (cluster.pk, None, cluster.project_id, cluster.site_id)
    assert list(rows) == [
        (*about, "gpu_held", "h100.1", "nvidia.com/gpu", "sim"),
        (*about, "vcpu_held", None, "vcpu_held", "sim"),
    ]
    made = UsageInterval.objects.get(meter="gpu_held")
    assert (made.quantity, made.started_at, made.ended_at, made.ended_by) == (8, START, END, EndedBy.OBSERVED)


def test_rows_of_the_same_number_are_not_taken_for_each_other(
    cluster: Cluster, workspace: Workspace, h100: Flavor
) -> None:
    """A workspace's and a cluster's holdings are numbered apart."""
    Holding.objects.create(
        pk=77, workspace=workspace, flavor=h100, meter="gpu_held", quantity=1, started_at=START
    )
    ClusterHolding.objects.create(
        pk=77,
        cluster=cluster,
        project=cluster.project,
        flavor=h100,
        meter="gpu_held",
        quantity=2,
        started_at=START,
    )
    assert [held_sync(now=START), held_sync(now=START)] == [2, 0]
    Holding.objects.update(ended_at=END)
    assert held_sync(now=END) == 1
    assert [row.holder for row in UsageInterval.objects.filter(ended_at=None)] == [cluster]


def test_an_interval_has_one_holder(cluster: Cluster, workspace: Workspace, h100: Flavor) -> None:
    hold(cluster, h100, "gpu_held", 8)
    held_sync(now=START)
    for wrong in ({"workspace": workspace}, {"cluster": None}):
        with pytest.raises(IntegrityError, match="interval_has_one_holder"), transaction.atomic():
            UsageInterval.objects.update(**wrong)


def test_who_may_see_what_a_cluster_held(
    cluster: Cluster, workspace: Workspace, h100: Flavor, as_alice: Actor, as_bob: Actor, as_charlie: Actor
) -> None:
    hold(cluster, h100, "gpu_held", 8)
    Holding.objects.create(workspace=workspace, flavor=h100, meter="gpu_held", quantity=1, started_at=START)
    held_sync(now=START)
    wanted = UsageFilters(cluster=cluster)
    for actor, seen in ((as_alice, [cluster]), (as_bob, [cluster]), (as_charlie, [])):
        assert [row.holder for row in intervals_for(actor=actor, filters=wanted)] == seen


def at_once(count: int, work: Callable[[], int]) -> list[int]:
    gate = threading.Barrier(count)

    def one(_: int) -> int:
        try:
            connection.ensure_connection()
            gate.wait()
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.django_db(transaction=True)
def test_many_at_once_write_each_row_and_each_end_once(project: Project, h100: Flavor, alice: User) -> None:
    for number in range(ROWS):
        hold(cluster_make(project, h100, alice, name=f"sim-{number}"), h100, "gpu_held", 1)
        room = workspace_make(project, h100, alice, name=f"room-{number}")
        Holding.objects.create(workspace=room, flavor=h100, meter="gpu_held", quantity=1, started_at=START)
    with transaction.atomic():  # killed before the commit
        held_sync(now=START)
        transaction.set_rollback(True)
    assert not UsageInterval.objects.exists()
    at_once(4, lambda: held_sync(now=START))
    assert UsageInterval.objects.count() == 2 * ROWS
    ClusterHolding.objects.update(ended_at=END)
    Holding.objects.update(ended_at=END + timedelta(hours=1))
    at_once(4, lambda: held_sync(now=END))
    assert held_sync(now=END) == 0
    assert UsageInterval.objects.filter(cluster__isnull=False, ended_at=END).count() == ROWS
    assert (
        UsageInterval.objects.filter(workspace__isnull=False, ended_at=END + timedelta(hours=1)).count()
        == ROWS
    )
