"""From instance actions to stretches: whatever happened, in whatever order it is read."""

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuaas.providers.openstack.actions import Fate, in_progress, stretches
from gpuaas.providers.openstack.client import Object

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
BUILD = "compute__do_build_and_run_instance"
Event = tuple[str, int, int | None] | tuple[str, int, int | None, str]


def action(name: str, at: int, *events: Event, request: str = "") -> Object:
    """Times are seconds after noon; an event ends in Success unless it says otherwise, or not at all."""
    return {
        "action": name,
        "request_id": f"req-{request or f'{name}-{at}'}",
        "start_time": text(at),
        "events": [
            {
                "event": event,
                "start_time": text(start),
                "finish_time": None if finish is None else text(finish),
                "result": None if finish is None else (rest[0] if rest else "Success"),
            }
            for event, start, finish, *rest in events
        ],
    }


def text(second: int) -> str:
    return f"{NOON + timedelta(seconds=second):%Y-%m-%dT%H:%M:%S}.000000"


def fate(status: str = "ACTIVE", *, allocated: bool = True, ended: int | None = None, **more: Any) -> Fate:
    ended_at = None if ended is None else NOON + timedelta(seconds=ended)
    return Fate("vm", status, allocated, ended_at, **more)


CREATE = action("create", 0, ("conductor_something", 1, 2), (BUILD, 3, 5))
STOP = action("stop", 10, ("compute_stop_instance", 10, 12))
SHELVE = action("shelve", 20, ("compute_shelve_instance", 20, 25))

Told = list[tuple[str, int, int | None]]


def told(where: Fate, *actions: Object) -> Told:
    """(state, from, until) of each stretch; the same in every order, where no two things happen in one second."""
    found = stretches(where, actions)
    for _ in range(3):
        shuffled = list(actions)
        random.Random(7).shuffle(shuffled)
        assert stretches(where, shuffled) == found
    assert found[0].uid == "vm" if found else True
    assert len({each.uid for each in found}) == len(found)
    assert all(before.ended_at == after.started_at for before, after in itertools.pairwise(found))
    return [(each.state.value, second(each.started_at), second(each.ended_at)) for each in found]


def second(moment: datetime | None) -> Any:
    return None if moment is None else round((moment - NOON).total_seconds())


@pytest.mark.parametrize(
    ("where", "actions", "expected"),
    [
        (fate("BUILD"), [action("create", 0, (BUILD, 3, None))], [("running", 3, None)]),
        (fate(), [CREATE], [("running", 3, None)]),
        (fate("SHUTOFF"), [CREATE, STOP], [("running", 3, 12), ("stopped", 12, None)]),
        (
            fate(),
            [CREATE, STOP, action("reboot", 14, ("compute_reboot_instance", 14, 16))],
            [("running", 3, 12), ("stopped", 12, 16), ("running", 16, None)],
        ),
        (
            fate(),
            [CREATE, action("stop", 10, ("compute_stop_instance", 10, 12, "Error"))],
            [("running", 3, None)],
        ),
        (
            fate("SHELVED_OFFLOADED"),
            [CREATE, STOP, SHELVE],
            [("running", 3, 12), ("stopped", 12, 25), ("shelved", 25, None)],
        ),
        # a cloud that offloads later: until then the devices are kept
        (fate("SHELVED"), [CREATE, SHELVE], [("running", 3, 25), ("stopped", 25, None)]),
        (
            fate("SHELVED_OFFLOADED"),
            [
                CREATE,
                action(
                    "shelve",
                    20,
                    ("compute_shelve_instance", 20, 25),
                    ("compute_shelve_offload_instance", 90, 95),
                ),
            ],
            [("running", 3, 25), ("stopped", 25, 95), ("shelved", 95, None)],
        ),
        (
            fate(),
            [CREATE, SHELVE, action("unshelve", 40, ("compute_start_instance", 41, 43))],
            [("running", 3, 25), ("stopped", 25, 43), ("running", 43, None)],
        ),
        # no host for it: nothing is told of a host, and it stays shelved
        (
            fate("SHELVED_OFFLOADED"),
            [CREATE, SHELVE, action("unshelve", 40, ("schedule_instances", 40, 41, "Error"))],
            [("running", 3, 25), ("shelved", 25, None)],
        ),
        (
            fate("SHELVED_OFFLOADED"),
            [CREATE, SHELVE, action("unshelve", 40, ("compute_unshelve_instance", 42, 50, "Error"))],
            [("running", 3, 25), ("shelved", 25, 42), ("running", 42, 50), ("shelved", 50, None)],
        ),
        (
            fate("DELETED", ended=61),
            [CREATE, SHELVE, action("delete", 60)],
            [("running", 3, 25), ("shelved", 25, 60)],
        ),
        (
            fate("DELETED", ended=61),
            [CREATE, action("delete", 60, ("compute_terminate_instance", 60, 62))],
            [("running", 3, 62)],
        ),
        # deleted a moment ago: the host will say when it was done; one that hangs never will
        (
            fate("DELETED", ended=61, waits=True),
            [CREATE, action("delete", 60, ("compute_terminate_instance", 60, None))],
            [("running", 3, None)],
        ),
        (
            fate("DELETED", ended=61),
            [CREATE, action("delete", 60, ("compute_terminate_instance", 60, None))],
            [("running", 3, 60)],
        ),
        # kept for a while and then reclaimed, of which there is no action
        (
            fate("DELETED", ended=999),
            [CREATE, action("delete", 60, ("compute_soft_delete_instance", 60, 62))],
            [("running", 3, 62), ("stopped", 62, 999)],
        ),
        # the first host failed, the second did not; and all failed
        (
            fate(),
            [action("create", 0, (BUILD, 3, 5, "Error"), (BUILD, 6, 9))],
            [("running", 3, None)],
        ),
        (
            fate("ERROR", allocated=False),
            [action("create", 0, (BUILD, 3, 5, "Error"))],
            [("running", 3, 5)],
        ),
        (
            fate("ERROR"),
            [action("create", 0, (BUILD, 3, 5, "Error"))],
            [("running", 3, 5), ("stopped", 5, None)],
        ),
        # nobody had it: what counts is whether Placement keeps devices for it
        (fate("ERROR", allocated=False), [action("create", 0)], []),
        (fate("ERROR"), [action("create", 0)], [("stopped", 0, None)]),
    ],
)
def test_what_happened_is_told_in_stretches(where: Fate, actions: list[Object], expected: Told) -> None:
    assert told(where, *actions) == expected


def test_within_one_second_it_goes_in_the_order_in_which_nova_wrote_it_down() -> None:
    """Nova lists the newest first, and its times have whole seconds."""
    pause = action("pause", 10, ("compute_pause_instance", 10, 10))
    unpause = action("unpause", 10, ("compute_unpause_instance", 10, 10))
    suspend = action("suspend", 10, ("compute_suspend_instance", 10, 10))
    shelve = action(
        "shelve",
        10,
        ("compute_shelve_offload_instance", 10, 10),
        ("compute_shelve_instance", 10, 10),
    )
    quick = action("create", 10, (BUILD, 10, 10))
    listed = [shelve, suspend, unpause, pause, quick]

    found = stretches(fate("SHELVED_OFFLOADED"), listed)

    states = ["running", "stopped", "running", "stopped", "shelved"]
    assert [each.state.value for each in found] == states
    assert [each.state.value for each in stretches(fate("SUSPENDED"), listed[1:])] == states[:4]
    assert [each.state.value for each in stretches(fate("ACTIVE"), listed[2:])] == states[:3]
    assert [each.state.value for each in stretches(fate("PAUSED"), listed[3:])] == states[:2]


def test_a_resize_and_its_reversal_begin_stretches_and_a_migration_does_not() -> None:
    made = [
        CREATE,
        action("migrate", 20, ("compute_finish_resize", 20, 22)),
        action("revertResize", 23, ("compute_finish_revert_resize", 23, 24)),
        action(
            "resize",
            30,
            ("compute_prep_resize", 30, 31),
            ("compute_resize_instance", 31, 32),
            ("compute_finish_resize", 32, 35),
        ),
        action(
            "revertResize", 40, ("compute_revert_resize", 40, 41), ("compute_finish_revert_resize", 41, 44)
        ),
        STOP,
    ]
    found = stretches(fate("SHUTOFF"), made)
    assert [(each.state.value, each.epoch, second(each.started_at)) for each in found] == [
        ("running", 0, 3),
        ("stopped", 0, 12),
        ("stopped", 1, 35),
        ("stopped", 2, 44),
    ]


def test_what_failed_and_is_gone_holds_what_was_told_while_it_lived() -> None:
    """Placement no longer says whether it had anything."""
    (lost,) = stretches(
        fate("DELETED", allocated=False, ended=70), [action("create", 0), action("delete", 60)]
    )
    assert (lost.uid, lost.sure, second(lost.ended_at)) == ("vm", False, 60)


def test_an_event_without_an_end_is_under_way() -> None:
    assert in_progress([action("stop", 10, ("compute_stop_instance", 10, None))])
    assert not in_progress([CREATE, STOP, action("lock", 3, ("something_else", 3, None))])
