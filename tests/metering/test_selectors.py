"""Reading usage: scopes, sums, and the meter's condition."""

import uuid
from datetime import datetime, timedelta

import pytest

from gpuaas.catalog.models import Site
from gpuaas.core.conditions import Condition, Status
from gpuaas.core.errors import NotFound
from gpuaas.metering.health import meter_conditions
from gpuaas.metering.models import EndedBy, Meter, SiteMeter, UsageInterval
from gpuaas.metering.selectors import (
    UsageFilters,
    intervals_for,
    intervals_open,
    meters_for,
    sites_metered,
    usage_by_project,
)
from gpuaas.metering.services import usage_apply
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.metering.stage import pod, seen, utc

START = utc("2026-11-02 10:00:00")
HOUR = timedelta(hours=1)


@pytest.fixture
def used(workspace: Workspace) -> Workspace:
    """Two pods: one ran an hour on 2 GPUs, one still runs."""
    events = [
        seen(workspace, pod("done", start=START, end=START + HOUR, gpus=2), START + HOUR),
        seen(workspace, pod("runs", start=START + HOUR), START + HOUR),
    ]
    usage_apply(site_id=workspace.site_id, events=events)
    return workspace


def test_an_outsider_sees_no_usage(used: Workspace, as_charlie: Actor, as_bob: Actor) -> None:
    assert intervals_for(actor=as_bob).count() == 2
    assert not intervals_for(actor=as_charlie).exists()
    assert usage_by_project(actor=as_charlie, starts_at=START, ends_at=START + HOUR) == []
    with pytest.raises(NotFound):
        usage_by_project(actor=as_charlie, project=used.project, starts_at=START, ends_at=START + HOUR)
    with pytest.raises(NotFound):
        meters_for(actor=as_bob)


def test_filters_hold_together(used: Workspace, as_alice: Actor) -> None:
    def names(filters: UsageFilters) -> list[str]:
        return [row.consumer_name for row in intervals_for(actor=as_alice, filters=filters)]

    assert names(UsageFilters(project=used.project, workspace=used)) == ["runs", "done"]
    assert names(UsageFilters(open_only=True)) == ["runs"]
    assert names(UsageFilters(meter=Meter.GPU_HELD)) == []
    assert names(UsageFilters(ends_at=START + HOUR)) == ["done"]
    assert names(UsageFilters(starts_at=START + HOUR)) == ["runs"]
    assert [row.consumer_uid for row in intervals_open(site_id=used.site_id)] == ["runs"]


def test_usage_is_found_by_consumer_owner_node_and_surplus(used: Workspace, as_alice: Actor) -> None:
    UsageInterval.objects.filter(consumer_uid="done").update(owner="Job/train", node="h100-1", surplus=True)

    def names(filters: UsageFilters) -> list[str]:
        return [row.consumer_name for row in intervals_for(actor=as_alice, filters=filters)]

    for filters in (
        UsageFilters(consumer="done"),
        UsageFilters(owner="Job/train"),
        UsageFilters(node="h100-1"),
        UsageFilters(surplus=True),
    ):
        assert names(filters) == ["done"]
    assert names(UsageFilters(surplus=False)) == ["runs"]
    assert names(UsageFilters(owner="Job/train", node="elsewhere")) == []
    (row,) = usage_by_project(actor=as_alice, starts_at=START, ends_at=START + 2 * HOUR, now=START + 2 * HOUR)
    assert (row.unit_seconds, row.surplus_unit_seconds) == (3 * 3600, 2 * 3600)


def test_sums_are_cut_to_the_window_and_to_now(used: Workspace, as_alice: Actor) -> None:
    (row,) = usage_by_project(
        actor=as_alice,
        starts_at=START + HOUR / 2,
        ends_at=START + 10 * HOUR,
        now=START + HOUR + timedelta(seconds=61.9),
    )
    assert (row.project, row.meter, row.flavor) == ("weather-lm", Meter.GPU_ALLOCATED, "h100.1")
    assert row.unit_seconds == 2 * 1800 + 61


def metered(*, site_id: uuid.UUID, now: datetime) -> Condition:
    return next(row for row in meter_conditions(site_id=site_id, now=now) if row.type == "Metered")


def test_the_condition_says_whether_usage_is_counted(used: Workspace) -> None:
    site_id = used.site_id
    assert metered(site_id=site_id, now=START).status is Status.UNKNOWN
    SiteMeter.objects.create(site_id=site_id, last_proof_at=START)
    assert metered(site_id=site_id, now=START + timedelta(seconds=60)).status is Status.TRUE
    late = metered(site_id=site_id, now=START + HOUR)
    assert (late.status, late.reason) == (Status.FALSE, "ProofIsLate")
    assert late.remedy


def test_how_an_end_is_known_is_readable() -> None:
    assert EndedBy.PROOF_OF_LIFE.label == "last proof of life"


def test_a_site_is_metered_until_it_is_disabled_and_nobody_lives_there(workspace: Workspace) -> None:
    assert list(sites_metered()) == [workspace.site]
    Site.objects.update(enabled=False)
    assert list(sites_metered()) == [workspace.site]
    running = seen(workspace, pod(start=START), START)
    usage_apply(site_id=workspace.site_id, events=[running])
    Workspace.objects.update(state="deleted")
    assert list(sites_metered()) == [workspace.site], "the end of a pod is still to be told"
    UsageInterval.objects.update(ended_at=START)
    assert list(sites_metered()) == []
