"""Holdings become intervals of the held meters: once, and again without change."""

from datetime import timedelta

import pytest

from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.metering.models import EndedBy, UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.metering.tasks import held_sync as held_sync_task
from gpuaas.workspaces.models import Holding, Workspace
from tests.metering.stage import utc

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
