"""The usage stream of a simulated site."""

import time_machine

from gpuaas.core import clock as time
from gpuaas.providers.base import Change, UsageEvent, UsageKind, WorkspaceSpec
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxPod
from gpuaas.providers.sandbox.pods import foreign_namespace, pod_create, pod_delete


def watch(driver: SandboxDriver, cursor: str = "") -> list[UsageEvent]:
    return list(driver.watch_usage(cursor, seconds=0))


def kinds(events: list[UsageEvent]) -> list[str]:
    return [event.kind.value for event in events]


def test_first_watch_lists_then_bookmarks(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    pod_create(driver.connection.site_id, ready.external_name, "one", 1)
    events = watch(driver)
    assert kinds(events) == ["relist", "seen", "relisted", "bookmark"]
    assert events[1].workspace_name == ready.external_name
    assert events[2].cursor == events[3].cursor


def test_resumed_watch_misses_nothing(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    site = driver.connection.site_id
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as clock:
        cursor = watch(driver)[-1].cursor
        started = time.now()
        pod_create(site, ready.external_name, "short", 1, run_seconds=1)
        clock.shift(30)
        pod_delete(site, ready.external_name, "short")
        events = watch(driver, cursor)
        assert kinds(events) == ["seen", "seen", "seen", "gone", "bookmark"]
        last = events[3].consumer
        assert last is not None
        assert (last.started_at, last.gpus) == (started, {"nvidia.com/gpu": 1})
        assert last.ended_at is not None
        assert (last.ended_at - started).total_seconds() == 1
        assert watch(driver, cursor) == events, "the same cursor gives the same events"
        assert kinds(watch(driver, events[-1].cursor)) == ["bookmark"]


def test_pod_killed_while_running_carries_its_end(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as clock:
        pod_create(driver.connection.site_id, ready.external_name, "one", 1)
        cursor = watch(driver)[-1].cursor
        ending = time.now()
        driver.perform(Change.DELETE, ready, "pods")
        clock.shift(60)
        (gone,) = [event for event in watch(driver, cursor) if event.kind is UsageKind.GONE]
        assert gone.consumer is not None
        assert gone.consumer.ended_at is not None
        assert (gone.consumer.ended_at - ending).total_seconds() == 2


def test_old_or_foreign_cursor_relists_by_itself(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    site = driver.connection.site_id
    cursor = watch(driver)[-1].cursor
    dials_set(site, event_window=3)
    for number in range(4):
        pod_create(site, ready.external_name, f"pod-{number}", 0)
    assert kinds(watch(driver, cursor))[0] == "relist"
    for strange in ("999999", "abc", "-1"):
        assert kinds(watch(driver, strange))[0] == "relist"


def test_pods_of_others_are_not_ours_to_meter(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    site = driver.connection.site_id
    foreign_namespace(site, "kube-system")
    cursor = watch(driver)[-1].cursor
    pod_create(site, "kube-system", "dns", 0)
    assert kinds(watch(driver, cursor)) == ["bookmark"]
    assert kinds(watch(driver)) == ["relist", "relisted", "bookmark"]


def test_relist_shows_what_is_left_after_a_namespace_vanished(
    driver: SandboxDriver, ready: WorkspaceSpec
) -> None:
    pod_create(driver.connection.site_id, ready.external_name, "one", 1)
    SandboxNamespace.objects.all().delete()
    assert not SandboxPod.objects.exists()
    assert kinds(watch(driver)) == ["relist", "relisted", "bookmark"]
