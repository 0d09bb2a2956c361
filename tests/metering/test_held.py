"""Holdings become intervals of the held meters: once, and again without change."""

import re
from datetime import timedelta

import pytest
from django.db import connection

from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.clusters.models import ClusterHolding
from gpuaas.core.sql import sql_read
from gpuaas.metering.models import EndedBy, UsageInterval
from gpuaas.metering.services import SQL, held_sync
from gpuaas.metering.tasks import held_sync as held_sync_task
from gpuaas.metering.tasks import held_sync_all
from gpuaas.workspaces.models import Holding, Workspace
from tenants.models import Project, User
from tests.billing.stage import cluster_make
from tests.metering.stage import utc

OLD = 5_000
START, END = utc("2026-11-02 10:00:00"), utc("2026-11-02 11:00:00")


def hold(workspace: Workspace, flavor: Flavor | None, meter: str, quantity: int) -> Holding:
    return Holding.objects.create(
        workspace=workspace, flavor=flavor, meter=meter, quantity=quantity, started_at=START
    )


def test_an_open_holding_is_an_open_interval(workspace: Workspace, h100: Flavor) -> None:
    hold(workspace, h100, "gpu_held", 8)
    hold(workspace, None, "storage_held", 500)
    assert held_sync(now=START) == 2
    rows = UsageInterval.objects.order_by("meter").values_list(
        "meter", "flavor__slug", "resource_name", "quantity", "started_at", "ended_at", "project"
    )
    assert list(rows) == [
        ("gpu_held", "h100.1", "nvidia.com/gpu", 8, START, None, workspace.project_id),
        ("storage_held", None, "storage_held", 500, START, None, workspace.project_id),
    ]


def test_again_changes_nothing_and_an_end_is_carried_over_once(workspace: Workspace, h100: Flavor) -> None:
    row = hold(workspace, h100, "gpu_held", 8)
    assert [held_sync(now=START), held_sync(now=END)] == [1, 0]
    Holding.objects.filter(pk=row.pk).update(ended_at=END)
    assert [held_sync(now=END), held_sync(now=END)] == [1, 0]
    made = UsageInterval.objects.get()
    assert (made.consumer_uid, made.ended_at, made.ended_by) == (f"holding:{row.pk}", END, EndedBy.OBSERVED)


def test_what_ended_long_ago_waits_for_the_round_that_reads_all(workspace: Workspace, h100: Flavor) -> None:
    """A worker that was away for days loses nothing; what is open is never left out."""
    row = hold(workspace, h100, "gpu_held", 8)
    later = END + timedelta(days=3)
    assert held_sync(now=later, since=later) == 1
    Holding.objects.filter(pk=row.pk).update(ended_at=END)
    assert [held_sync(now=later, since=later), held_sync(now=later, since=START)] == [0, 1]
    hold(workspace, None, "storage_held", 500)
    Holding.objects.filter(meter="storage_held").update(ended_at=END)
    held_sync_task()
    assert UsageInterval.objects.count() == 1
    held_sync_all()
    assert UsageInterval.objects.count() == 2


def test_the_frequent_round_reads_what_is_open_by_an_index(
    workspace: Workspace, h100: Flavor, project: Project, alice: User
) -> None:
    """Not every holding that ever was, nor every interval: it runs after each change of a workspace. Planned for a portal that is
    some years old; what an empty one is planned to do depends on what else its tables have seen."""
    cluster = cluster_make(project, h100, alice)
    ended = {
        "meter": "gpu_held",
        "flavor": h100,
        "quantity": 8,
        "started_at": START - timedelta(days=9),
        "ended_at": START,
    }
    Holding.objects.bulk_create(Holding(workspace=workspace, **ended) for _ in range(OLD))
    ClusterHolding.objects.bulk_create(
        ClusterHolding(cluster=cluster, project=project, **ended) for _ in range(OLD)
    )
    held_sync(now=END)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workspaces_holding, clusters_clusterholding, metering_usageinterval")
        cursor.execute("EXPLAIN " + sql_read(SQL, "held_sync"), {"now": END, "since": END})
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert re.findall(r"Index Scan (?:using|on) (\w*holding_ended_idx)", plan) == [
        "holding_ended_idx",
        "cluster_holding_ended_idx",
    ]
    assert "interval_once_per_consumer" in plan
    assert not re.findall(
        r"Seq Scan on (workspaces_holding|clusters_clusterholding|metering_usageinterval)", plan
    )


def test_a_resize_is_two_intervals_that_touch(workspace: Workspace, h100: Flavor) -> None:
    first = hold(workspace, h100, "gpu_held", 8)
    held_sync(now=START)
    Holding.objects.filter(pk=first.pk).update(ended_at=END)
    Holding.objects.create(workspace=workspace, flavor=h100, meter="gpu_held", quantity=4, started_at=END)
    held_sync(now=END)
    rows = UsageInterval.objects.order_by("started_at").values_list("quantity", "started_at", "ended_at")
    assert list(rows) == [(8, START, END), (4, END, None)]


@pytest.mark.usefixtures("workspace")
def test_nothing_held_is_nothing_metered(workspace: Workspace) -> None:
    hold(workspace, None, "storage_held", 0)
    held_sync_task()
    assert not UsageInterval.objects.exists()


def test_a_site_that_counts_by_another_name_meanwhile_is_not_metered_twice(
    workspace: Workspace, h100: Flavor
) -> None:
    row = hold(workspace, h100, "gpu_held", 8)
    held_sync(now=START)
    GpuPool.objects.filter(pk=h100.pool_id).update(resource_name="nvidia.com/h100")
    Holding.objects.filter(pk=row.pk).update(ended_at=END)
    held_sync(now=END)
    made = UsageInterval.objects.get()
    assert (made.resource_name, made.ended_at) == ("nvidia.com/gpu", END)


def test_a_workspace_that_sleeps_holds_nothing_in_between(workspace: Workspace, h100: Flavor) -> None:
    """Its holdings end with its last pod and begin anew when it is woken; storage stays one interval."""
    first = hold(workspace, h100, "gpu_held", 8)
    hold(workspace, None, "storage_held", 500)
    held_sync(now=START)
    Holding.objects.filter(pk=first.pk).update(ended_at=END)
    assert held_sync(now=END) == 1
    woken = END + timedelta(hours=5)
    Holding.objects.create(workspace=workspace, flavor=h100, meter="gpu_held", quantity=8, started_at=woken)
    assert [held_sync(now=woken), held_sync(now=woken)] == [1, 0]
    rows = UsageInterval.objects.order_by("meter", "started_at").values_list(
        "meter", "started_at", "ended_at"
    )
    assert list(rows) == [
        ("gpu_held", START, END),
        ("gpu_held", woken, None),
        ("storage_held", START, None),
    ]
