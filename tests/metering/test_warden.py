"""The warden on a simulated site whose quota can be outrun: who goes, what is written, and who is left alone."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.core.errors import QuotaRefused
from gpuaas.metering import warden as warden_module
from gpuaas.metering.meter import Meters
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.services import usage_apply
from gpuaas.metering.warden import Warden
from gpuaas.providers.base import UsageEvent, UsageKind, WorkspaceRef
from gpuaas.providers.sandbox.dials import dials_set, failure_plan
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxPod
from gpuaas.providers.sandbox.pods import pod_create, pod_delete
from gpuaas.workspaces.models import Eviction, Workspace, WorkspaceFlavor
from gpuaas.workspaces.selectors import evictions_of
from gpuaas.workspaces.site import driver_of
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.metering.stage import pod, seen
from tests.metering.test_meter import wait_for
from tests.workspaces.stage import ready

LOG = structlog.get_logger("test")
ALL_AT_ONCE = {"ALLOWANCES_SECONDS": 0.0, "AGAIN_SECONDS": 0.0}


@pytest.fixture
def room(site: Site, project: Project, as_alice: Actor, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """alice's, with 2 × H100, at a site that is asked again at once."""
    fleet_seed(site.pk, slug=site.slug)
    for name, value in ALL_AT_ONCE.items():
        monkeypatch.setattr(warden_module, name, value)
    return ready(as_alice, project, site)


def driver_at(room: Workspace) -> SandboxDriver:
    driver = driver_of(room.site)
    assert isinstance(driver, SandboxDriver)
    return driver


def warden_of(room: Workspace) -> Warden:
    driver = driver_at(room)
    return Warden(room.site, driver, driver)


def start(room: Workspace, *names: str, outrun: bool = False) -> None:
    for name in names:
        pod_create(room.site_id, room.external_name, name, 1, outrun=outrun)


def running(room: Workspace) -> list[str]:
    rows = SandboxPod.objects.filter(site=room.site_id, finished_at=None, gone_at=None)
    return sorted(rows.values_list("name", flat=True))


def listen(warden: Warden, room: Workspace) -> list[UsageEvent]:
    """The warden hears a full list and what follows; so does the meter."""
    events = list(driver_at(room).watch_usage("", seconds=0))
    for event in events:
        warden.ledger.note(event)
    return events


def test_the_newest_pod_goes_and_everybody_hears_why(room: Workspace) -> None:
    warden = warden_of(room)
    start(room, "one", "two")
    start(room, "three", outrun=True)
    events = listen(warden, room)
    usage_apply(site_id=room.site_id, events=events)
    warden.look(LOG)
    assert running(room) == ["one", "two"]
    (row,) = evictions_of(workspace=room)
    assert (row.consumer_name, row.held, row.limit, row.quantity) == ("three", 3, 2, 1)
    assert row.removed_at is not None
    entry = AuditEntry.objects.get(action="workspace.evict")
    assert (entry.actor, entry.project_id, entry.target_id) == ("portal", room.project_id, str(room.pk))
    assert entry.after == {
        "consumer_name": "three",
        "resource_name": "nvidia.com/gpu",
        "quantity": 1,
        "limit": 2,
        "held": 3,
    }
    surplus = UsageInterval.objects.filter(surplus=True)
    assert [each.consumer_name for each in surplus] == ["three"]
    room.refresh_from_db()
    condition = room.conditions["WithinQuota"]
    assert (condition["status"], condition["reason"]) == (Status.FALSE, "Surplus")
    warden.look(LOG)
    room.refresh_from_db()
    assert room.conditions["WithinQuota"]["status"] == Status.TRUE
    assert Eviction.objects.count() == 1


def test_nobody_goes_before_an_operator_has_confirmed_the_site(room: Workspace) -> None:
    """After a restore the workspace may have been resized by what the database does not know."""
    Site.objects.update(confirmed=False)
    start(room, "one", "two")
    start(room, "three", outrun=True)
    warden = warden_of(room)
    listen(warden, room)
    warden.look(LOG)
    assert running(room) == ["one", "three", "two"]
    assert Eviction.objects.count() == 0
    Site.objects.update(confirmed=True)
    warden.look(LOG)
    assert running(room) == ["one", "two"]


def test_surplus_is_marked_also_where_it_is_written_after_the_eviction(room: Workspace) -> None:
    """The warden is quicker than the flush."""
    warden = warden_of(room)
    start(room, "one", "two")
    start(room, "three", outrun=True)
    events = listen(warden, room)
    warden.look(LOG)
    last = list(driver_at(room).watch_usage(events[-1].cursor, seconds=0))
    usage_apply(site_id=room.site_id, events=[*events, *last])
    rows = UsageInterval.objects.filter(workspace=room, meter="gpu_allocated").order_by("consumer_name")
    assert [(row.consumer_name, row.surplus, row.ended_at is None) for row in rows] == [
        ("one", False, True),
        ("three", True, False),
        ("two", False, True),
    ]
    gone = [event for event in last if event.kind is UsageKind.GONE and event.consumer is not None]
    assert "with a limit of 2" in next(event.consumer.waiting_for for event in gone if event.consumer)


def test_history_that_looks_like_too_much_removes_nobody(room: Workspace) -> None:
    """A watch that resumes tells of pods that have long gone."""
    warden = warden_of(room)
    start(room, "one", "two")
    for number in range(3):
        old = pod(f"old-{number}", start=clock.now() - timedelta(hours=1))
        warden.ledger.note(seen(room, old, clock.now()))
    listen(warden, room)
    warden.look(LOG)
    assert running(room) == ["one", "two"]
    assert not Eviction.objects.exists()
    room.refresh_from_db()
    assert "WithinQuota" not in room.conditions


def test_one_that_is_ending_counts_until_it_is_gone(room: Workspace) -> None:
    """The quota still counts it, so the newcomer slipped past: it goes, and the one that ends keeps its grace."""
    dials_set(room.site_id, grace_ms=60_000)
    warden = warden_of(room)
    start(room, "one", "two")
    pod_delete(room.site_id, room.external_name, "one")
    with pytest.raises(QuotaRefused):
        start(room, "three")
    start(room, "three", outrun=True)
    listen(warden, room)
    warden.look(LOG)
    assert [row.consumer_name for row in evictions_of(workspace=room)] == ["three"]


@pytest.mark.parametrize(
    ("count", "confirmed", "state", "left"),
    [
        (1, 2, "resizing", ["one", "two"]),  # a shrink waits for the tenant
        (3, 2, "resizing", ["one", "two"]),
        (2, 2, "suspending", ["one", "two"]),
        (2, 2, "suspended", []),
        (1, 1, "ready", ["one"]),
    ],
)
def test_a_change_under_way_removes_nobody_and_a_suspended_one_holds_nothing(
    room: Workspace, count: int, confirmed: int, state: str, left: list[str]
) -> None:
    start(room, "one", "two")
    WorkspaceFlavor.objects.filter(workspace=room).update(count=count, confirmed=confirmed)
    Workspace.objects.filter(pk=room.pk).update(state=state)
    warden = warden_of(room)
    listen(warden, room)
    warden.look(LOG)
    assert running(room) == left


def test_what_ran_before_the_takeover_stays_and_a_newcomer_beyond_it_goes(room: Workspace) -> None:
    start(room, "one", "two")
    start(room, "three", "four", outrun=True)
    Workspace.objects.filter(pk=room.pk).update(adopted_name=room.external_name, ready_at=clock.now())
    warden = warden_of(room)
    listen(warden, room)
    warden.look(LOG)
    assert running(room) == ["four", "one", "three", "two"]
    start(room, "five", outrun=True)
    listen(warden, room)
    warden.look(LOG)
    assert running(room) == ["four", "one", "three", "two"]


def test_a_namespace_that_nobody_knows_is_left_alone(room: Workspace) -> None:
    warden = warden_of(room)
    stray = seen(room, pod("stray", start=clock.now(), gpus=9), clock.now())
    warden.ledger.note(replace(stray, workspace_name="gpu-ffffffff-train"))
    warden.look(LOG)
    assert not Eviction.objects.exists()


def test_a_new_warden_goes_on_from_what_is_written(room: Workspace) -> None:
    """The stream resumes after the cursor; what was held then is in the rows that were written with it."""
    start(room, "one", "two")
    start(room, "three", outrun=True)
    usage_apply(site_id=room.site_id, events=list(driver_at(room).watch_usage("", seconds=0)))
    warden_of(room).look(LOG)
    assert running(room) == ["one", "two"]


def test_one_that_died_between_the_note_and_the_deed_is_succeeded(room: Workspace) -> None:
    start(room, "one", "two")
    start(room, "three", outrun=True)
    first = warden_of(room)
    listen(first, room)
    failure_plan(room.site_id, verb="evict", error="lost")
    first.look(LOG)
    row = Eviction.objects.get()
    assert row.removed_at is None, "the answer was lost"
    second = warden_of(room)  # nothing is written of the pods, but the workspace's condition is
    second.look(LOG)
    room.refresh_from_db()
    assert room.conditions["WithinQuota"]["status"] == Status.TRUE
    assert Eviction.objects.count() == AuditEntry.objects.filter(action="workspace.evict").count() == 1


def test_a_site_that_fails_is_asked_again(room: Workspace) -> None:
    start(room, "one", "two")
    start(room, "three", outrun=True)
    warden = warden_of(room)
    listen(warden, room)
    for verb in ("observe", "evict"):
        failure_plan(room.site_id, verb=verb, error="unavailable")
        warden.look(LOG)
        assert len(running(room)) == 3
    warden.look(LOG)
    assert running(room) == ["one", "two"]


def test_who_was_cleared_is_not_asked_for_again_until_something_changes(
    room: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(room, "one", "two")
    start(room, "three", outrun=True)
    Workspace.objects.filter(pk=room.pk).update(adopted_name=room.external_name, ready_at=clock.now())
    asked: list[WorkspaceRef] = []
    observe = SandboxDriver.observe

    def counting(driver: SandboxDriver, ref: WorkspaceRef) -> object:
        asked.append(ref)
        return observe(driver, ref)

    monkeypatch.setattr(SandboxDriver, "observe", counting)
    warden = warden_of(room)
    listen(warden, room)
    for _ in range(3):
        warden.look(LOG)
    assert len(asked) == 1


noise = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 3), st.sampled_from(["seen", "gone", "waits", "ended"])),
    max_size=12,
)


@given(noise=noise, kept=st.integers(0, 2))
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_is_heard_a_workspace_within_its_quota_loses_nothing(
    room: Workspace, noise: list[tuple[int, int, str]], kept: int
) -> None:
    """Any stream, in any order, of pods that are there, were there or never were."""
    SandboxPod.objects.filter(site=room.site_id).delete()
    rows = [
        SandboxPod.objects.create(
            site_id=room.site_id,
            namespace_id=room_key(room),
            name=f"real-{number}",
            resource_name="nvidia.com/gpu",
            gpus=1,
            created_at=clock.now(),
            scheduled_at=clock.now(),
        )
        for number in range(kept)
    ]
    warden = warden_of(room)
    now = clock.now()
    for number, gpus, what in noise:
        uid = str(rows[number].uid) if number < kept else f"ghost-{number}"
        consumer = pod(
            uid, start=None if what == "waits" else now, end=now if what == "ended" else None, gpus=gpus
        )
        kind = UsageKind.GONE if what == "gone" else UsageKind.SEEN
        warden.ledger.note(UsageEvent(kind, now, "", room.external_name, consumer))
        warden.look(LOG)
    assert SandboxPod.objects.filter(site=room.site_id).count() == kept
    assert not Eviction.objects.exists()


def room_key(room: Workspace) -> int:
    return SandboxNamespace.objects.get(site=room.site_id, name=room.external_name).pk


@pytest.mark.django_db(transaction=True)
def test_the_meter_process_hosts_it_and_acts_within_three_seconds(room: Workspace) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=Meters(stop=stop).run, daemon=True)
    thread.start()
    try:
        start(room, "one", "two")
        wait_for(lambda: UsageInterval.objects.filter(meter="gpu_allocated").count() == 2)
        began = clock.now()
        start(room, "three", outrun=True)
        wait_for(lambda: running(room) == ["one", "two"])
        row = wait_for(lambda: Eviction.objects.filter(removed_at__isnull=False).first())
        assert row.removed_at - began < timedelta(seconds=3)
        wait_for(lambda: UsageInterval.objects.filter(surplus=True, ended_at__isnull=False).exists())
    finally:
        stop.set()
        thread.join(timeout=20)
    assert not thread.is_alive()
