"""The usage stream: everything is told once or more often, never not at all, and to the second."""

from collections.abc import Callable

from gpuaas.providers.base import Change, UsageCapability, UsageEvent, UsageKind, WorkspaceSpec
from tests.contracts.rigs import Rig, release_step

NEEDS = UsageCapability

Wanted = Callable[[UsageEvent], bool]


def collect(rig: Rig, cursor: str, wanted: Wanted, *, seconds: int = 20) -> list[UsageEvent]:
    """Events up to the first that is wanted."""
    found = []
    for event in rig.driver.watch_usage(cursor, seconds=seconds):
        found.append(event)
        if wanted(event):
            return found
    raise AssertionError(f"not in the stream: {[(e.kind, e.consumer and e.consumer.name) for e in found]}")


def listed(rig: Rig) -> str:
    """The cursor of a full list."""
    return collect(rig, "", lambda event: event.kind is UsageKind.RELISTED)[-1].cursor


def of(spec: WorkspaceSpec, name: str) -> Wanted:
    return lambda event: (
        event.workspace_name == spec.external_name
        and event.consumer is not None
        and event.consumer.name == name
    )


def started(rig: Rig, spec: WorkspaceSpec, name: str) -> str:
    """Starts one and waits until it holds its devices, which a site decides after it accepted it; a cursor before."""
    cursor = listed(rig)
    rig.start(spec, name)

    def holds(event: UsageEvent) -> bool:
        return of(spec, name)(event) and event.consumer is not None and event.consumer.started_at is not None

    collect(rig, cursor, holds)
    return cursor


def test_without_a_cursor_comes_a_full_list(rig: Rig, shared: WorkspaceSpec) -> None:
    rig.start(shared, "one")
    events = collect(rig, "", lambda event: event.kind is UsageKind.RELISTED)
    kinds = [event.kind for event in events]
    assert kinds[0] is UsageKind.RELIST
    assert set(kinds[1:-1]) == {UsageKind.SEEN}
    assert any(map(of(shared, "one"), events))
    assert [event.cursor != "" for event in events] == [False] * (len(events) - 1) + [True]


def test_a_run_is_told_with_its_seconds(rig: Rig, shared: WorkspaceSpec) -> None:
    cursor = listed(rig)
    rig.start(shared, "short", run_seconds=2)

    def ended(event: UsageEvent) -> bool:
        return (
            of(shared, "short")(event) and event.consumer is not None and event.consumer.ended_at is not None
        )

    last = collect(rig, cursor, ended)[-1].consumer
    assert last is not None
    assert last.started_at is not None
    assert last.ended_at is not None
    # the site writes whole seconds: one that began late in its second seems a second longer
    assert 2 <= round((last.ended_at - last.started_at).total_seconds()) <= 3 + rig.build_seconds
    assert last.gpus == {rig.gpu.resource_name: 1}


def test_an_older_cursor_tells_all_since_again(rig: Rig, shared: WorkspaceSpec) -> None:
    cursor = started(rig, shared, "older")
    rig.stop(shared, "older")
    for _ in range(2):
        last = collect(rig, cursor, lambda e: e.kind is UsageKind.GONE and of(shared, "older")(e))[
            -1
        ].consumer
        assert last is not None
        assert last.started_at is not None
        assert last.ended_at is not None
        assert last.started_at <= last.ended_at


def test_one_that_is_deleted_is_told_as_gone(rig: Rig, shared: WorkspaceSpec) -> None:
    started(rig, shared, "deleted")
    cursor = listed(rig)
    rig.stop(shared, "deleted")
    event = collect(rig, cursor, lambda e: e.kind is UsageKind.GONE and of(shared, "deleted")(e))[-1]
    assert event.consumer is not None
    assert event.consumer.ended_at is not None
    assert event.cursor == ""


def test_a_quiet_stream_ends_with_a_proof_of_life(rig: Rig, shared: WorkspaceSpec) -> None:
    cursor = listed(rig)
    bookmark = collect(rig, cursor, lambda event: event.kind is UsageKind.BOOKMARK, seconds=1)[-1]
    assert bookmark.cursor
    assert bookmark.consumer is None


def test_nothing_is_told_of_other_namespaces(rig: Rig, shared: WorkspaceSpec) -> None:
    other = f"old-{shared.external_name.removeprefix('gpu-')}"
    rig.foreign(other)
    rig.foreign_start(other, "theirs", gpus=1)
    rig.start(shared, "ours")
    events = collect(rig, "", lambda event: event.kind is UsageKind.RELISTED)
    (theirs,) = rig.uids(other)
    assert any(map(of(shared, "ours"), events))
    assert not any(event.consumer.uid.startswith(theirs) for event in events if event.consumer)
    assert other not in {event.workspace_name for event in events}


def test_the_release_ends_every_run(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.start(ready, "one")
    cursor = listed(rig)
    for step in rig.driver.steps(Change.DELETE)[:2]:
        release_step(rig.driver, ready, step.key)
    event = collect(rig, cursor, lambda e: e.kind is UsageKind.GONE and of(ready, "one")(e))[-1]
    assert event.consumer is not None
    assert event.consumer.ended_at is not None
