"""Once a day: a full list against what is written; what was wrong is set right by the meter's own way of writing."""

from datetime import timedelta

import pytest

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.core.errors import NotFound, Unavailable
from gpuaas.core.ids import uuid7
from gpuaas.metering import crosscheck
from gpuaas.metering.crosscheck import site_cross_check, sites_due
from gpuaas.metering.health import meter_conditions
from gpuaas.metering.models import STREAMED_METERS, CrossCheck, EndedBy, Meter, UsageInterval
from gpuaas.metering.selectors import cross_checks_of
from gpuaas.metering.services import usage_apply
from gpuaas.metering.tasks import cross_check, cross_checks_due
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.providers.sandbox.pods import pod_create, pod_delete
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.site import driver_of
from tenants.actors import Actor
from tenants.models import Project
from tests.metering.stage import bookmark, pod, seen
from tests.workspaces.stage import ready


@pytest.fixture
def room(site: Site, project: Project, as_alice: Actor, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr(crosscheck, "SETTLE_SECONDS", 0)
    fleet_seed(site.pk, slug=site.slug)
    made = ready(as_alice, project, site, h100s=4)
    for name in ("one", "two"):
        pod_create(site.pk, made.external_name, name, 1)
    return made


def meter(room: Workspace) -> None:
    """As the meter writes a full list."""
    driver = driver_of(room.site)
    assert isinstance(driver, SandboxDriver)
    usage_apply(site_id=room.site_id, events=list(driver.watch_usage("", seconds=0)))


def found(check: CrossCheck) -> list[tuple[str, str, bool]]:
    return [(each["name"], each["what"], each["repaired"]) for each in check.findings]


def test_where_all_agrees_nothing_is_found(room: Workspace) -> None:
    meter(room)
    check = site_cross_check(site=room.site)
    assert (check.compared, check.findings) == (2, [])


def test_what_was_not_counted_is_counted_from_its_start(room: Workspace) -> None:
    check = site_cross_check(site=room.site)
    assert found(check) == [("one", "uncounted", True), ("two", "uncounted", True)] or found(check) == [
        ("two", "uncounted", True),
        ("one", "uncounted", True),
    ]
    rows = UsageInterval.objects.filter(meter=Meter.GPU_ALLOCATED, ended_at=None)
    assert rows.count() == 2
    assert found(site_cross_check(site=room.site)) == []


def test_what_is_counted_on_ends_as_well_as_it_is_known(room: Workspace) -> None:
    """One has ended and its object tells when; one was deleted, and only its last proof of life is known."""
    meter(room)
    usage_apply(site_id=room.site_id, events=[bookmark(clock.now())])
    proof = UsageInterval.objects.get(consumer_name="two").last_seen_at
    pod_create(room.site_id, room.external_name, "short", 1, 0)
    UsageInterval.objects.filter(consumer_name="short").delete()
    pod_delete(room.site_id, room.external_name, "two")
    check = site_cross_check(site=room.site)
    assert sorted(found(check)) == [("short", "uncounted", True), ("two", "gone", True)]
    two = UsageInterval.objects.get(consumer_name="two")
    assert (two.ended_at, two.ended_by) == (proof, EndedBy.PROOF_OF_LIFE)
    assert UsageInterval.objects.get(consumer_name="short").ended_by == EndedBy.OBSERVED
    assert found(site_cross_check(site=room.site)) == []


def test_what_only_a_person_can_judge_is_shown_and_left(room: Workspace) -> None:
    meter(room)
    UsageInterval.objects.filter(consumer_name="one").update(quantity=3)
    now = clock.whole_second(clock.now())
    UsageInterval.objects.filter(consumer_name="two").update(ended_at=now, ended_by=EndedBy.OBSERVED)
    check = site_cross_check(site=room.site)
    assert {name: (what, repaired) for name, what, repaired in found(check)} == {
        "one": ("differs", False),
        "two": ("differs", False),
    }
    assert "3 counted, 1 held" in str(check.findings)
    assert UsageInterval.objects.get(consumer_name="one").quantity == 3
    conditions = {each.type: each for each in meter_conditions(site_id=room.site_id)}
    assert conditions["CrossChecked"].status is Status.FALSE
    assert conditions["CrossChecked"].remedy


def test_each_meter_of_a_consumer_is_compared_by_itself(room: Workspace) -> None:
    """One uid with an open row in a meter that the site says nothing of, beside the one in which it is: whichever comes first."""
    meter(room)
    for name in ("one", "two"):
        row = UsageInterval.objects.get(consumer_name=name)
        row.pk, row.meter = uuid7(), Meter.GPU_STOPPED
        row.save(force_insert=True)
    assert site_cross_check(site=room.site).findings
    rows = UsageInterval.objects.filter(meter__in=STREAMED_METERS)
    assert set(rows.filter(ended_at=None).values_list("meter", flat=True)) == {Meter.GPU_ALLOCATED}
    stopped = rows.filter(meter=Meter.GPU_STOPPED)
    assert [row.ended_at == row.started_at for row in stopped] == [True, True], (
        "it was in the other state all along"
    )
    assert site_cross_check(site=room.site).findings == []


def test_what_changes_while_it_looks_is_not_judged(room: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The meter may not have written it yet."""
    meter(room)
    stray = seen(room, pod("late", start=clock.now()), clock.now())
    usage_apply(site_id=room.site_id, events=[stray])
    watch = SandboxDriver.watch_usage

    def with_news(driver: SandboxDriver, cursor: str, *, seconds: int) -> object:
        yield from watch(driver, cursor, seconds=seconds)
        yield stray

    monkeypatch.setattr(SandboxDriver, "watch_usage", with_news)
    assert site_cross_check(site=room.site).findings == []


def test_held_meters_are_not_its_business(room: Workspace) -> None:
    meter(room)
    assert UsageInterval.objects.filter(meter=Meter.GPU_ALLOCATED).count() == 2
    UsageInterval.objects.create(
        site=room.site,
        project=room.project,
        workspace=room,
        consumer_uid="holding:1",
        consumer_name="train",
        meter=Meter.GPU_HELD,
        resource_name="nvidia.com/gpu",
        quantity=4,
        started_at=clock.now(),
        last_seen_at=clock.now(),
    )
    assert site_cross_check(site=room.site).findings == []


def test_a_site_is_due_a_day_after_its_last_and_again_where_it_did_not_answer(
    room: Workspace, as_olga: Actor, as_alice: Actor
) -> None:
    now = clock.now()
    assert sites_due(now=now) == [room.site_id]
    dials_set(room.site_id, down=True)
    with pytest.raises(Unavailable):
        cross_check(str(room.site_id))
    assert cross_checks_due() == 1
    dials_set(room.site_id, down=False)
    assert cross_check(str(room.site_id)) == 2
    assert sites_due(now=now) == []
    assert sites_due(now=now + timedelta(days=1)) == [room.site_id]
    assert cross_checks_of(actor=as_olga, site=room.site).count() == 1
    with pytest.raises(NotFound):
        cross_checks_of(actor=as_alice, site=room.site)
