"""Who may see what of the use of GPUs, and that nothing is said of what nobody saw."""

from datetime import timedelta

import pytest
import time_machine
from pytest_django.fixtures import DjangoAssertNumQueries

from gpuaas.catalog.models import Flavor, GpuType
from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.gpustats.advice import advice_of
from gpuaas.gpustats.models import GpuHour, GpuSample
from gpuaas.gpustats.months import month_keep
from gpuaas.gpustats.selectors import month_figures, node_figures, workspace_figures
from gpuaas.metering.models import EndedBy, FinalMonth, Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.gpustats.stage import MINUTE, keep, keep_all, reading
from tests.metering.stage import utc, workspace_make

AT = utc("2026-11-20 10:00")
START, END = utc("2026-11-01"), utc("2026-12-01")


def test_now_and_the_last_day_of_a_workspace(workspace: Workspace, as_bob: Actor) -> None:
    keep_all(
        workspace, AT, 30, [reading(workspace, device=f"GPU-{n}", utilization=40.0 * n) for n in range(2)]
    )
    found = workspace_figures(actor=as_bob, workspace=workspace, now=AT + 31 * MINUTE)
    assert [(each.device, each.pod, each.mean) for each in found.devices] == [
        ("GPU-0", "train-0", 0),
        ("GPU-1", "train-0", 40),
    ]
    first = found.devices[0]
    assert first.now is not None
    assert (first.now.temperature, first.memory_max_mib, first.energy_wh) == (60, 60_000, 300)
    assert len(found.slots) == 96
    assert [(each.utilization, each.memory) for each in found.slots[-3:]] == [(20, 75)] * 3
    assert found.slots[-4].utilization is None
    assert found.why == ""


def test_what_is_not_of_now_is_of_the_day_alone(workspace: Workspace, as_bob: Actor) -> None:
    keep_all(workspace, AT, 2, [reading(workspace)])
    later = AT + timedelta(hours=3)
    assert [each.now for each in workspace_figures(actor=as_bob, workspace=workspace, now=later).devices] == [
        None
    ]
    gone = workspace_figures(actor=as_bob, workspace=workspace, now=AT + timedelta(hours=25))
    assert (list(gone.devices), list(gone.slots)) == ([], [])


def test_nobody_sees_another_workspace_or_what_is_nobodys(
    workspace: Workspace,
    h100: Flavor,
    alice: User,
    other_project: Project,
    as_charlie: Actor,
    as_alice: Actor,
) -> None:
    theirs = workspace_make(other_project, h100, alice, name="fold")
    told = [reading(workspace), reading(theirs, device="GPU-1"), reading(None, device="GPU-2", pod="dns")]
    keep(workspace.site, AT, *told)
    with pytest.raises(NotFound):
        workspace_figures(actor=as_charlie, workspace=workspace, now=AT)
    with pytest.raises(NotFound):
        month_figures(actor=as_charlie, project=workspace.project, starts_at=START, ends_at=END)
    for actor in (as_charlie, as_alice):
        with pytest.raises(NotFound):
            node_figures(actor=actor, site=workspace.site, node="h100-01", now=AT)
    ours = workspace_figures(actor=as_alice, workspace=workspace, now=AT)
    assert {each.device for each in ours.devices} == {"GPU-0"}
    assert {
        each.device for each in workspace_figures(actor=as_charlie, workspace=theirs, now=AT).devices
    } == {"GPU-1"}


def test_operators_see_all_of_a_node(workspace: Workspace, as_olga: Actor) -> None:
    keep(workspace.site, AT, reading(workspace), reading(None, device="GPU-2"), reading(node="h100-02"))
    found = node_figures(actor=as_olga, site=workspace.site, node="h100-01", now=AT)
    assert {(each.device, each.workspace) for each in found.devices} == {("GPU-0", "train"), ("GPU-2", "")}


def test_why_there_is_nothing(workspace: Workspace, as_bob: Actor) -> None:
    site = workspace.site
    assert "reported nothing" in workspace_figures(actor=as_bob, workspace=workspace).why
    keep(site, clock.now(), reading())
    assert "No pod" in workspace_figures(actor=as_bob, workspace=workspace).why
    site.driver = "sandbox-cloud"
    assert "Machines" in workspace_figures(actor=as_bob, workspace=workspace).why


def test_queries_do_not_grow(
    workspace: Workspace, as_bob: Actor, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    keep_all(workspace, AT, 2, [reading(workspace, device=f"GPU-{n}", pod=f"train-{n}") for n in range(40)])
    workspace.refresh_from_db()
    workspace = Workspace.objects.select_related("project", "site").get(pk=workspace.pk)
    with django_assert_num_queries(5):
        found = workspace_figures(actor=as_bob, workspace=workspace, now=AT + 3 * MINUTE)
    assert len(found.devices) == 40


@pytest.mark.parametrize(
    ("bought", "at_once", "minutes", "seconds", "said"),
    [
        (4, 1, 1.0, 1.0, True),
        (4, 0, 0.8, 0.8, True),
        (4, 4, 1.0, 1.0, False),
        (4, 1, 0.79, 1.0, False),
        (4, 1, 1.0, 0.79, False),
        (4, None, 1.0, 1.0, False),
        (0, 0, 1.0, 1.0, False),
    ],
)
def test_advice_needs_enough(
    bought: int, at_once: int | None, minutes: float, seconds: float, said: bool
) -> None:
    text = advice_of(bought=bought, at_once=at_once, minutes_share=minutes, seconds_share=seconds)
    assert text.startswith(f"Used {at_once} of {bought} GPUs") == said
    assert bool(text) == said


def day_of_use(workspace: Workspace, *, minutes: int) -> None:
    """Two devices, one of them idle, each minute until AT."""
    told = [("GPU-0", 80.0), ("GPU-1", 0.5)]
    GpuSample.objects.bulk_create(
        GpuSample(
            site=workspace.site,
            workspace=workspace,
            project=workspace.project,
            node="h100-01",
            device=device,
            pod="train-0",
            at=AT - number * MINUTE,
            seconds=60,
            utilization=utilization,
        )
        for number in range(minutes)
        for device, utilization in told
    )


def allocated(
    workspace: Workspace, quantity: int, *, hours: int = 24, meter: Meter = Meter.GPU_ALLOCATED
) -> None:
    UsageInterval.objects.create(
        site=workspace.site,
        project=workspace.project,
        workspace=workspace,
        flavor=workspace.flavors.get().flavor,
        consumer_uid=f"uid-{meter}",
        consumer_name="train-0",
        meter=meter,
        resource_name="nvidia.com/gpu",
        quantity=quantity,
        started_at=AT - timedelta(hours=hours),
        ended_at=AT,
        last_seen_at=AT,
        ended_by=EndedBy.OBSERVED,
    )


@pytest.mark.parametrize(
    ("minutes", "quantity", "said"), [(1440, 2, True), (1000, 2, False), (1440, 4, False), (1440, 0, True)]
)
def test_advice_of_a_day(
    workspace: Workspace, as_bob: Actor, minutes: int, quantity: int, said: bool
) -> None:
    """Not where a fifth of the day, or of what pods had, was not seen."""
    workspace.flavors.update(count=4, confirmed=4)
    day_of_use(workspace, minutes=minutes)
    if quantity:
        allocated(workspace, quantity)
    advice = workspace_figures(actor=as_bob, workspace=workspace, now=AT).advice
    assert advice.startswith("Used 1 of 4 GPUs in the last 24 hours") == said
    assert bool(advice) == said


def test_who_borrows_has_nothing_to_give_back(workspace: Workspace, as_bob: Actor) -> None:
    workspace.flavors.update(count=4, confirmed=4)
    workspace.notice_seconds = 120
    day_of_use(workspace, minutes=1440)
    allocated(workspace, 2)
    assert workspace_figures(actor=as_bob, workspace=workspace, now=AT).advice == ""


def test_pods_that_share_cards_use_what_they_bought(workspace: Workspace, as_bob: Actor) -> None:
    """Four shares of two cards are four GPUs that were bought, each with a pod of its own."""
    workspace.flavors.update(count=4, confirmed=4)
    GpuSample.objects.bulk_create(
        GpuSample(
            site=workspace.site,
            workspace=workspace,
            project=workspace.project,
            node="l40s-01",
            device=f"GPU-{number % 2}",
            pod=f"train-{number}",
            at=AT - minute * MINUTE,
            seconds=60,
            utilization=90,
        )
        for minute in range(1440)
        for number in range(4)
    )
    allocated(workspace, 4)
    assert workspace_figures(actor=as_bob, workspace=workspace, now=AT).advice == ""


def used(workspace: Workspace, gpu_type: GpuType, hours: int = 48) -> None:
    GpuHour.objects.create(
        workspace=workspace,
        project=workspace.project,
        gpu_type=gpu_type,
        hour=AT,
        seconds=90 * 3600,
        measured_seconds=90 * 3600,
        busy_seconds=hours * 3600,
        memory_mib_seconds=0,
        energy_mj=int(2.5 * 3.6e9),
    )


def test_a_month_by_gpu_type(workspace: Workspace, h100: Flavor, as_alice: Actor) -> None:
    allocated(workspace, 8, meter=Meter.GPU_HELD)
    allocated(workspace, 4)
    used(workspace, h100.pool.gpu_type)
    (row,) = month_figures(actor=as_alice, project=workspace.project, starts_at=START, ends_at=END)
    assert (
        row.gpu_type,
        row.held_hours,
        row.allocated_hours,
        row.seen_hours,
        row.used_hours,
        row.energy_kwh,
    ) == (
        h100.pool.gpu_type.name,
        192,
        96,
        90,
        48,
        2.5,
    )
    assert row.used_share == 0.25
    GpuHour.objects.update(seconds=70 * 3600)
    (row,) = month_figures(actor=as_alice, project=workspace.project, starts_at=START, ends_at=END)
    assert row.used_share is None, "most was not seen"
    assert (
        month_figures(actor=as_alice, project=workspace.project, starts_at=END, ends_at=utc("2027-01-01"))
        == []
    )


def test_what_was_borrowed_is_not_used_of_what_is_held(
    workspace: Workspace, h100: Flavor, as_alice: Actor
) -> None:
    """Else bought GPUs that do nothing look busy beside a spot workspace of the same type."""
    allocated(workspace, 8, meter=Meter.GPU_HELD)
    allocated(workspace, 4)
    spot = workspace_make(workspace.project, h100, workspace.created_by, name="borrowed")
    Workspace.objects.filter(pk=spot.pk).update(notice_seconds=120)
    used(spot, h100.pool.gpu_type)
    (row,) = month_figures(actor=as_alice, project=workspace.project, starts_at=START, ends_at=END)
    assert (row.used_hours, row.used_share) == (48, None), "nothing was seen of what its own pods had"
    GpuHour.objects.create(
        workspace=workspace,
        project=workspace.project,
        gpu_type=h100.pool.gpu_type,
        hour=AT,
        seconds=96 * 3600,
        measured_seconds=96 * 3600,
        busy_seconds=0,
        memory_mib_seconds=0,
        energy_mj=0,
    )
    (row,) = month_figures(actor=as_alice, project=workspace.project, starts_at=START, ends_at=END)
    assert (row.used_hours, row.used_share) == (48, 0)


def test_two_types_of_one_name_are_two(
    workspace: Workspace, h100: Flavor, l40s: Flavor, as_alice: Actor
) -> None:
    """Such as a type and what its DRA driver hands out, which an operator gave the same name."""
    twin = l40s.pool.gpu_type
    twin.name = h100.pool.gpu_type.name
    twin.save()
    allocated(workspace, 8, meter=Meter.GPU_HELD)
    used(workspace, twin, hours=5)
    rows = month_figures(actor=as_alice, project=workspace.project, starts_at=START, ends_at=END)
    assert {row.gpu_type for row in rows} == {twin.name}
    assert sorted((row.held_hours, row.used_hours) for row in rows) == [(0, 5), (192, 0)]


def test_an_archived_month_of_those_who_held_nothing(
    workspace: Workspace, h100: Flavor, as_alice: Actor, as_charlie: Actor, other_project: Project
) -> None:
    """What was borrowed is held by nobody, and other projects had nothing at all: both are answers."""
    Flavor.objects.filter(pk=h100.pk).update(price_class="spot", notice_seconds=120)
    allocated(workspace, 8)
    used(workspace, h100.pool.gpu_type)
    with time_machine.travel(utc("2027-03-01"), tick=False):
        month_keep(starts_at=START, ends_at=END)
        UsageInterval.objects.all().delete()
        FinalMonth.objects.create(month=START.date(), ends_at=END, marked_at=END, archived_at=END)
        (row,) = month_figures(actor=as_alice, project=workspace.project, starts_at=START, ends_at=END)
        assert (row.held_hours, row.allocated_hours, row.used_hours) == (0, 0, 48)
        assert month_figures(actor=as_charlie, project=other_project, starts_at=START, ends_at=END) == []
