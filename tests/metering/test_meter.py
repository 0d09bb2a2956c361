"""The meter process: claims, flushes, faults of the site, and the real sandbox driver in a real thread."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.core.claims import ClaimLost
from gpuaas.core.errors import Unavailable
from gpuaas.metering import meter as meter_module
from gpuaas.metering.batch import Batch, CatchUp, Changes
from gpuaas.metering.meter import Meters, SiteMeterRunner
from gpuaas.metering.models import EndedBy, SiteMeter, UsageInterval
from gpuaas.metering.owners import Owner
from gpuaas.metering.services import meter_claim, meter_flush, meter_release
from gpuaas.providers.base import Connection, UsageEvent, UsageKind
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.metering.stage import bookmark, gone, listed, pod, seen, utc

NOW = utc("2026-11-02 10:00:00")
Script = list[UsageEvent | Exception]


class ScriptedDriver(SandboxDriver):
    """The stream of a site as it is written down: each watch plays the next script, then waits to be stopped."""

    def __init__(self, site: Site, scripts: list[Script], stop: threading.Event) -> None:
        super().__init__(Connection(site.pk, site.slug, "", {}))
        self.scripts = scripts
        self.cursors: list[str] = []
        self.stop = stop

    def watch_usage(self, cursor: str, *, seconds: int) -> Iterator[UsageEvent]:
        self.cursors.append(cursor)
        if not self.scripts:
            self.stop.set()
            return
        for item in self.scripts.pop(0):
            if isinstance(item, Exception):
                raise item
            yield item


def meter_run(site: Site, *scripts: Script) -> ScriptedDriver:
    stop = threading.Event()
    driver = ScriptedDriver(site, list(scripts), stop)
    SiteMeterRunner(site, stop=stop, holder="me", open_driver=lambda _site: driver).run()
    return driver


def wait_for(found: Callable[[], Any], *, seconds: float = 20.0) -> Any:
    """What `found` gives as soon as it gives something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter_module, "BACKOFF_CAP_SECONDS", 0.01)


# -- the claim ------------------------------------------------------------------------------------------------------


def test_one_holder_at_a_time_and_a_lapsed_one_is_succeeded(site: Site) -> None:
    assert meter_claim(site_id=site.pk, holder="a", now=NOW, seconds=20)
    assert meter_claim(site_id=site.pk, holder="a", now=NOW, seconds=20)
    assert meter_claim(site_id=site.pk, holder="b", now=NOW + timedelta(seconds=19), seconds=20) is None
    assert meter_claim(site_id=site.pk, holder="b", now=NOW + timedelta(seconds=20), seconds=20)
    meter_release(site_id=site.pk, holder="a")
    assert SiteMeter.objects.get(site=site).holder == "b"


def test_who_lost_the_claim_writes_nothing(workspace: Workspace) -> None:
    site_id = workspace.site_id
    meter_claim(site_id=site_id, holder="b", now=NOW, seconds=20)
    events = [seen(workspace, pod(start=NOW), NOW), bookmark(NOW, "7")]
    with pytest.raises(ClaimLost):
        meter_flush(site_id=site_id, holder="a", events=events, now=NOW, claim_seconds=20)
    assert not UsageInterval.objects.exists()
    assert SiteMeter.objects.get(site=site_id).cursor == ""


def test_the_cursor_is_that_of_the_last_barrier(workspace: Workspace) -> None:
    site_id = workspace.site_id
    meter_claim(site_id=site_id, holder="a", now=NOW, seconds=20)
    events = [bookmark(NOW, "7"), seen(workspace, pod(start=NOW), NOW)]
    meter_flush(site_id=site_id, holder="a", events=events, now=NOW, claim_seconds=20)
    row = SiteMeter.objects.get(site=site_id)
    assert (row.cursor, row.last_proof_at, row.last_event_at) == ("7", NOW, NOW)


# -- batches --------------------------------------------------------------------------------------------------------


def test_a_list_waits_for_its_end(workspace: Workspace) -> None:
    batch = Batch()
    first, last = seen(workspace, pod("a", start=NOW), NOW), seen(workspace, pod("b", start=NOW), NOW)
    start, *_, end = listed(NOW)
    for event in (first, start, last):
        batch.add(event)
    assert batch.take() == [first]
    assert batch.take() == []
    batch.add(end)
    assert batch.take() == [start, last, end]


def test_bookmarks_in_a_row_are_one() -> None:
    batch = Batch()
    for second in range(5):
        batch.add(bookmark(NOW + timedelta(seconds=second), str(second)))
    assert not batch.has_news
    assert [event.cursor for event in batch.take()] == ["4"]


def test_history_proves_life_only_up_to_our_last_proof(workspace: Workspace) -> None:
    early = NOW - timedelta(hours=1)
    event = seen(workspace, pod(start=early), NOW)
    catch_up = CatchUp(last_proof_at=early, opened=0.0, seconds=2.0)
    assert catch_up.stamp(event, monotonic=0.1).at == early
    assert catch_up.stamp(bookmark(NOW), monotonic=0.2).at == NOW
    assert catch_up.stamp(event, monotonic=0.3).at == NOW
    late = CatchUp(last_proof_at=early, opened=0.0, seconds=2.0)
    assert late.stamp(event, monotonic=2.0).at == NOW


def test_a_workspace_is_told_at_most_once_per_second_and_only_news(workspace: Workspace) -> None:
    owner = Owner(workspace.pk, workspace.project_id)
    owners, changes = {workspace.external_name: owner}, Changes()
    event = seen(workspace, pod(start=NOW), NOW)
    changes.note([event], owners)
    assert changes.due(monotonic=10.0) == [owner]
    changes.note([event], owners)
    assert changes.due(monotonic=12.0) == []
    changes.note([gone(workspace, pod(start=NOW), NOW)], owners)
    assert changes.due(monotonic=12.1) == [owner]
    changes.note([event], owners)
    assert changes.due(monotonic=12.9) == []
    assert changes.due(monotonic=13.2) == [owner]


# -- the runner -----------------------------------------------------------------------------------------------------


def test_it_reads_on_from_the_stored_cursor_after_an_outage(workspace: Workspace) -> None:
    """The list before the outage was torn: nothing of it is believed. What ended meanwhile ends at the last proof."""
    running = pod(start=NOW)
    torn: Script = [
        seen(workspace, running, NOW),
        bookmark(NOW + timedelta(seconds=40), "5"),
        UsageEvent(UsageKind.RELIST, NOW + timedelta(seconds=41)),
        Unavailable("the site does not answer"),
    ]
    driver = meter_run(
        workspace.site, torn, [Unavailable("still not")], [*listed(NOW + timedelta(100), cursor="9")]
    )
    row = UsageInterval.objects.get()
    assert row.ended_at == NOW + timedelta(seconds=40)
    assert row.ended_by == EndedBy.PROOF_OF_LIFE
    assert driver.cursors == ["", "5", "5", "9"]
    assert SiteMeter.objects.get().holder == ""


def test_a_broken_driver_does_not_end_the_meter(workspace: Workspace) -> None:
    driver = meter_run(workspace.site, [RuntimeError("a bug")], [bookmark(NOW, "3")])
    assert driver.cursors == ["", "", "3"]


def test_history_after_a_start_does_not_lengthen_a_life(workspace: Workspace) -> None:
    """Down for an hour; the pod was torn away at an unknown time in it: it is charged until our last proof, flagged."""
    running = pod(start=NOW)
    meter_run(workspace.site, [seen(workspace, running, NOW), bookmark(NOW + timedelta(seconds=30), "5")])
    hour = NOW + timedelta(hours=1)
    meter_run(workspace.site, [seen(workspace, running, hour), gone(workspace, running, hour)])
    row = UsageInterval.objects.get()
    assert (row.ended_at, row.ended_by) == (NOW + timedelta(seconds=30), EndedBy.PROOF_OF_LIFE)


@pytest.mark.django_db(transaction=True)
def test_a_sandbox_site_is_metered_by_the_real_thread(
    site: Site, project: Project, alice: User, h100: Flavor
) -> None:
    """`Meters` finds the site, claims the site, lists, keeps proving; stopping gives it back."""
    stop = threading.Event()
    thread = threading.Thread(target=Meters(stop=stop).run, daemon=True)
    thread.start()
    try:
        first = wait_for(lambda: SiteMeter.objects.filter(site=site, last_proof_at__isnull=False).first())
        assert first.cursor
        wait_for(lambda: SiteMeter.objects.filter(site=site, last_proof_at__gt=first.last_proof_at).exists())
    finally:
        stop.set()
        thread.join(timeout=20)
    assert not thread.is_alive()
    row = SiteMeter.objects.get(site=site)
    assert (row.holder, row.claim_until) == ("", None)
    assert row.last_proof_at is not None
    assert row.last_proof_at <= clock.now()
