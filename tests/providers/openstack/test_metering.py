"""The metered seconds of a machine are those of Nova's instance actions, whatever happens to the portal meanwhile."""

import signal
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.db.models import F

from gpuaas.core import clock
from gpuaas.metering import crosscheck
from gpuaas.metering.crosscheck import site_cross_check
from gpuaas.metering.models import STREAMED_METERS, EndedBy, MeterGap, SiteMeter, UsageInterval
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.lab.fixtures import until
from tests.metering.meters import Started, end, start
from tests.providers.openstack.conftest import provision, take_away
from tests.providers.openstack.metered import SLOW, Tenant, meter_running, stage, two_sizes

pytestmark = [pytest.mark.openstack, pytest.mark.django_db(transaction=True), pytest.mark.timeout(1500)]
OUTAGE = timedelta(minutes=10)
BUILD = "compute__do_build_and_run_instance"


@pytest.fixture
def tenant(driver: OpenStackDriver) -> Iterator[Tenant]:
    spec = two_sizes()
    try:
        provision(driver, spec)
        yield Tenant(driver, spec, Cloud(driver.connection.credentials))
    finally:
        take_away(driver, spec)


@pytest.fixture
def processes() -> Iterator[Started]:
    started: Started = []
    yield started
    end(started)


@pytest.fixture
def workspace(driver: OpenStackDriver, tenant: Tenant, project: Project, alice: User) -> Workspace:
    return stage(driver, tenant.spec, project, alice)


def rows_of(workspace: Workspace) -> list[UsageInterval]:
    """By time; a stretch may begin and end within one second."""
    rows = workspace.intervals.filter(meter__in=STREAMED_METERS)
    return list(rows.order_by("started_at", F("ended_at").asc(nulls_last=True)))


def wait_for_rows(workspace: Workspace, *meters: str, all_ended: bool = False) -> list[UsageInterval]:
    def found() -> list[UsageInterval] | None:
        rows = rows_of(workspace)
        is_it = Counter(row.meter for row in rows) == Counter(meters)
        return rows if is_it and all_ended <= all(row.ended_at for row in rows) else None

    return until(found, f"written: {', '.join(meters)}", seconds=SLOW)


def seconds(*stretches: tuple[datetime, datetime]) -> int:
    return sum(round((end - begin).total_seconds()) for begin, end in stretches)


def test_the_seconds_are_novas_whatever_happens_to_the_portal(
    tenant: Tenant, workspace: Workspace, processes: Started
) -> None:
    """Alice works with her own credential. The meter is killed, away for ten minutes of her work, and comes back."""
    first = start(processes)
    until(lambda: SiteMeter.objects.filter(last_proof_at__isnull=False).exists(), "it meters", seconds=SLOW)
    machine = tenant.boot("train")
    tenant.to(machine, "ACTIVE")
    tenant.run(machine, "os-stop", "SHUTOFF")
    wait_for_rows(workspace, "gpu_allocated", "gpu_stopped")
    first.send_signal(signal.SIGKILL)
    first.wait()
    tenant.run(machine, "os-start", "ACTIVE")
    tenant.run(machine, "shelve", "SHELVED_OFFLOADED")
    tenant.run(machine, "unshelve", "ACTIVE")
    tenant.run(machine, "resize", "VERIFY_RESIZE", flavorRef=tenant.flavors["a100:2"])
    _ten_minutes_pass()
    start(processes)
    expected = ["gpu_allocated", "gpu_stopped", "gpu_allocated", "gpu_shelved", *["gpu_allocated"] * 2]
    wait_for_rows(workspace, *expected)
    tenant.run(machine, "confirmResize", "ACTIVE")
    tenant.run(machine, "rebuild", "ACTIVE", imageRef=tenant.image)
    tenant.alice.delete("compute", f"/servers/{machine}")
    rows = wait_for_rows(workspace, *expected, all_ended=True)

    assert _metered(rows) == _said(tenant.moments(machine))
    assert {row.ended_by for row in rows} == {EndedBy.OBSERVED}
    assert not MeterGap.objects.exists(), "Nova keeps the history, so nothing is estimated"
    _told_again_it_is_the_same(workspace, rows)


def _metered(rows: list[UsageInterval]) -> Counter[tuple[str, int]]:
    """Seconds by meter and number of GPUs."""
    found: Counter[tuple[str, int]] = Counter()
    for row in rows:
        assert row.ended_at is not None
        found[row.meter, row.quantity] += seconds((row.started_at, row.ended_at))
    return found


def _said(said: dict[tuple[str, str], tuple[datetime, datetime]]) -> dict[tuple[str, int], int]:
    """The same from the actions that the test made, each read by hand."""
    began = said["create", BUILD][0]
    stopped, started = said["stop", "compute_stop_instance"][1], said["start", "compute_start_instance"][1]
    shelved = said["shelve", "compute_shelve_instance"][1]
    back = said["unshelve", "compute_unshelve_instance"][0]
    larger = said["resize", "compute_finish_resize"][1]
    deleted = said["delete", "compute_terminate_instance"][1]
    return {
        ("gpu_allocated", 1): seconds((began, stopped), (started, shelved), (back, larger)),
        ("gpu_allocated", 2): seconds((larger, deleted)),
        ("gpu_stopped", 1): seconds((stopped, started)),
        ("gpu_shelved", 1): seconds((shelved, back)),
    }


def _ten_minutes_pass() -> None:
    """Without waiting: the meter has been away for ten minutes longer than it was."""
    row = SiteMeter.objects.get()
    earlier = datetime.fromisoformat(row.cursor) - OUTAGE
    SiteMeter.objects.update(
        cursor=earlier.isoformat(),
        last_proof_at=F("last_proof_at") - OUTAGE,
        last_event_at=F("last_event_at") - OUTAGE,
        claim_until=clock.now(),
    )


def _told_again_it_is_the_same(workspace: Workspace, rows: list[UsageInterval]) -> None:
    before = list(workspace.intervals.order_by("pk").values())
    cursor = (rows[0].started_at - timedelta(minutes=1)).isoformat()
    SiteMeter.objects.update(cursor=cursor, claim_until=clock.now())
    proof = clock.now()
    until(
        lambda: SiteMeter.objects.filter(last_proof_at__gt=proof).exists(), "it has read again", seconds=SLOW
    )
    assert list(workspace.intervals.order_by("pk").values()) == before


def test_a_machine_that_went_with_its_project_while_nobody_looked_ends_to_the_second(
    tenant: Tenant, workspace: Workspace, driver: OpenStackDriver
) -> None:
    with meter_running(workspace.site):
        machine = tenant.boot("train")
        tenant.to(machine, "ACTIVE")
        wait_for_rows(workspace, "gpu_allocated")
    tenant.run(machine, "os-stop", "SHUTOFF")
    take_away(driver, tenant.spec)
    said = tenant.moments(machine)
    with meter_running(workspace.site, "heir"):
        running, stopped = wait_for_rows(workspace, "gpu_allocated", "gpu_stopped", all_ended=True)
    stop = said["stop", "compute_stop_instance"][1]
    assert (running.started_at, running.ended_at) == (said["create", BUILD][0], stop)
    assert (stopped.started_at, stopped.ended_at) == (stop, said["delete", "compute_terminate_instance"][1])


def test_however_often_a_machine_is_put_away_nothing_stays_open(tenant: Tenant, workspace: Workspace) -> None:
    with meter_running(workspace.site):
        machine = tenant.boot("train")
        tenant.to(machine, "ACTIVE")
        for _ in range(4):
            tenant.run(machine, "shelve", "SHELVED_OFFLOADED")
            tenant.run(machine, "unshelve", "ACTIVE")
        tenant.alice.delete("compute", f"/servers/{machine}")
        expected = ["gpu_allocated"] * 5 + ["gpu_shelved"] * 4
        rows = wait_for_rows(workspace, *expected, all_ended=True)
    assert [row.ended_at for row in rows[:-1]] == [row.started_at for row in rows[1:]]
    said = tenant.moments(machine)
    ends = said["create", BUILD][0], said["delete", "compute_terminate_instance"][1]
    assert (rows[0].started_at, rows[-1].ended_at) == ends


def test_the_daily_comparison_agrees_and_finds_what_was_not_written(
    tenant: Tenant, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crosscheck, "SETTLE_SECONDS", 0)
    machine = tenant.boot("train")
    tenant.to(machine, "ACTIVE")
    tenant.run(machine, "pause", "PAUSED")
    tenant.written(machine, "pause")
    check = until(lambda: _settled(site_cross_check(site=workspace.site).findings), "two uncounted stretches")
    assert [(each["name"], each["what"], each["repaired"]) for each in check] == [
        ("train", "uncounted", True)
    ] * 2
    assert [(row.meter, row.ended_at is None) for row in rows_of(workspace)] == [
        ("gpu_allocated", False),
        ("gpu_stopped", True),
    ]
    assert site_cross_check(site=workspace.site).findings == []
    tenant.run(machine, "unpause", "ACTIVE")
    tenant.run(machine, "suspend", "SUSPENDED")
    tenant.written(machine, "suspend")
    assert len(site_cross_check(site=workspace.site).findings) == 3
    rows = rows_of(workspace)
    assert Counter(row.meter for row in rows) == {"gpu_allocated": 2, "gpu_stopped": 2}
    assert [row.ended_at for row in rows[:-1]] == [row.started_at for row in rows[1:]]
    assert (rows[0].meter, rows[-1].meter, rows[-1].ended_at) == ("gpu_allocated", "gpu_stopped", None)


def _settled(findings: list[dict[str, object]]) -> list[dict[str, object]] | None:
    return findings if len(findings) == 2 else None
