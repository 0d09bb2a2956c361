"""Machines that are stopped, put away, made larger and live on: a consumer for each stretch, each in its own meter."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from gpuaas.metering.models import UsageInterval
from gpuaas.metering.selectors import intervals_open, sites_metered
from gpuaas.metering.services import usage_apply
from gpuaas.metering.surplus import holds
from gpuaas.providers.base import ObservedConsumer, UsageEvent, UsageKind, UseState
from gpuaas.workspaces.models import Workspace
from tests.metering.stage import bookmark, gone, pod, seen, utc

START = utc("2026-11-01 10:00:00")
OTHER = "CUSTOM_PCI_10DE_20B0"


def stretch(
    number: int, state: UseState, *, minutes: int, ends: int | None, uid: str = "vm", gpus: int = 2
) -> ObservedConsumer:
    made = pod(
        uid if not number else f"{uid}:{number}",
        start=START + timedelta(minutes=minutes),
        end=None if ends is None else START + timedelta(minutes=ends),
        gpus=gpus,
    )
    return replace(made, state=state)


def day() -> list[ObservedConsumer]:
    """Ran 10 minutes, was stopped for 5, ran for 15, has been shelved since."""
    return [
        stretch(0, UseState.RUNNING, minutes=0, ends=10),
        stretch(1, UseState.STOPPED, minutes=10, ends=15),
        stretch(2, UseState.RUNNING, minutes=15, ends=30),
        stretch(3, UseState.SHELVED, minutes=30, ends=None),
    ]


@pytest.mark.django_db
def test_each_stretch_is_counted_in_the_meter_of_its_state(workspace: Workspace) -> None:
    at = START + timedelta(minutes=40)
    events = [seen(workspace, each, at) for each in day()]
    for order in (events, events[::-1], events * 2):
        usage_apply(site_id=workspace.site_id, events=order)
        usage_apply(site_id=workspace.site_id, events=[bookmark(at)])
    rows = UsageInterval.objects.order_by("started_at")
    minutes = [
        (row.meter, ((row.ended_at or row.last_seen_at) - row.started_at).seconds // 60) for row in rows
    ]
    assert minutes == [("gpu_allocated", 10), ("gpu_stopped", 5), ("gpu_allocated", 15), ("gpu_shelved", 10)]
    assert [row.ended_at is None for row in rows] == [False, False, False, True]


@pytest.mark.django_db
def test_a_shelved_machine_holds_nothing_and_keeps_its_site_metered(workspace: Workspace) -> None:
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, each, START) for each in day()])
    assert not intervals_open(site_id=workspace.site_id).exists()
    assert [holds(each) for each in day()] == [False] * 4
    assert holds(stretch(1, UseState.STOPPED, minutes=0, ends=None))
    workspace.site.enabled = False
    workspace.site.save()
    Workspace.objects.update(state="deleted")
    assert list(sites_metered()) == [workspace.site]


@pytest.mark.django_db
def test_what_a_past_stretch_held_is_what_was_written_first(workspace: Workspace) -> None:
    """After a resize the site tells only what the machine holds now. A stretch that was not seen in time held what another
    of the same size did.
    """
    first = stretch(0, UseState.RUNNING, minutes=0, ends=None)
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, first, START)])
    guess = replace(
        stretch(0, UseState.RUNNING, minutes=0, ends=10), gpus={OTHER: 4, "VGPU": 1}, gpus_like="vm"
    )
    for _ in range(2):
        usage_apply(site_id=workspace.site_id, events=[seen(workspace, guess, START + timedelta(minutes=20))])
    row = UsageInterval.objects.get()
    assert (row.resource_name, row.quantity, row.ended_at) == (
        "nvidia.com/gpu",
        2,
        START + timedelta(minutes=10),
    )
    later = replace(guess, uid="vm:1", state=UseState.STOPPED)
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, later, START)])
    row = UsageInterval.objects.get(consumer_uid="vm:1")
    assert (row.resource_name, row.quantity, row.meter) == ("nvidia.com/gpu", 2, "gpu_stopped")
    nothing = replace(guess, uid="neither", gpus={}, gpus_like="neither")
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, nothing, START)])
    assert not UsageInterval.objects.filter(consumer_uid="neither").exists()
    unseen = replace(guess, uid="another", gpus_like="another")
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, unseen, START)])
    rows = UsageInterval.objects.filter(consumer_uid="another").order_by("resource_name")
    assert [(row.resource_name, row.quantity) for row in rows] == [(OTHER, 4), ("VGPU", 1)]


@pytest.mark.django_db
def test_the_end_is_told_when_the_project_is_gone_from_the_site(workspace: Workspace) -> None:
    """Only the uid says then whose it was; stretches that nobody heard of in time too. Of others nothing is known."""
    usage_apply(
        site_id=workspace.site_id,
        events=[seen(workspace, stretch(0, UseState.RUNNING, minutes=0, ends=None), START)],
    )
    told = [
        stretch(0, UseState.RUNNING, minutes=0, ends=10),
        stretch(1, UseState.STOPPED, minutes=10, ends=12),
        stretch(0, UseState.RUNNING, minutes=0, ends=10, uid="somebody-elses"),
    ]
    late = [UsageEvent(UsageKind.SEEN, START + timedelta(hours=1), consumer=each) for each in told]
    usage_apply(site_id=workspace.site_id, events=late)
    rows = UsageInterval.objects.order_by("started_at")
    assert [(row.consumer_uid, row.meter, row.ended_at, row.workspace_id) for row in rows] == [
        ("vm", "gpu_allocated", START + timedelta(minutes=10), workspace.pk),
        ("vm:1", "gpu_stopped", START + timedelta(minutes=12), workspace.pk),
    ]


@pytest.mark.django_db
def test_a_stretch_in_another_state_than_was_told_first_is_counted_once(workspace: Workspace) -> None:
    """As Nova tells of a shelved machine: it keeps its host, and then it turns out that it did not."""
    apply = partial(usage_apply, site_id=workspace.site_id)
    told = seen(workspace, stretch(1, UseState.STOPPED, minutes=10, ends=None), START + timedelta(minutes=11))
    apply(events=[told, bookmark(START + timedelta(minutes=12))])
    now = stretch(1, UseState.SHELVED, minutes=10, ends=None)
    for at in (13, 14):
        apply(events=[seen(workspace, now, START + timedelta(minutes=at))])
    apply(events=[told])  # once more, late
    apply(events=[bookmark(START + timedelta(minutes=20))])
    rows = UsageInterval.objects.order_by("meter")
    assert [(row.meter, row.started_at, row.ended_at) for row in rows] == [
        ("gpu_shelved", START + timedelta(minutes=10), None),
        ("gpu_stopped", START + timedelta(minutes=10), START + timedelta(minutes=10)),
    ]


@pytest.mark.django_db
def test_the_stretches_of_a_machine_follow_each_other(workspace: Workspace) -> None:
    """One that is not told of any more ends where the next began; another machine's is none of its."""
    apply = partial(usage_apply, site_id=workspace.site_id)
    lost = stretch(1, UseState.STOPPED, minutes=10, ends=None)
    apart = stretch(0, UseState.RUNNING, minutes=5, ends=None, uid="vm2")
    apply(events=[seen(workspace, each, START + timedelta(minutes=11)) for each in (lost, apart)])
    apply(events=[bookmark(START + timedelta(minutes=30))])
    late = stretch(2, UseState.SHELVED, minutes=20, ends=25)
    apply(events=[gone(workspace, late, START + timedelta(minutes=31))])
    ends = dict(UsageInterval.objects.values_list("consumer_uid", "ended_at"))
    assert ends == {
        "vm:1": START + timedelta(minutes=20),
        "vm:2": START + timedelta(minutes=25),
        "vm2": None,
    }
    apply(
        events=[
            seen(workspace, replace(lost, ended_at=START + timedelta(minutes=18)), START + timedelta(hours=1))
        ]
    )
    row = UsageInterval.objects.get(consumer_uid="vm:1")
    assert (row.ended_at, row.ended_by) == (START + timedelta(minutes=18), "observed"), (
        "what the site says is better"
    )
