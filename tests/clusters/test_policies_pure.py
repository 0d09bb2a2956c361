"""Decisions and replays as properties: whatever was recorded and whatever a policy wishes, the bounds hold."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.clusters.policies.decide import decide
from gpuaas.clusters.policies.facts import Cap, Memory, Policy, Pool, Recommendation, Rules, Signals
from gpuaas.clusters.policies.kinds import GpuUse, JobQueue, PendingPods, Schedule, healthy
from gpuaas.clusters.policies.registry import kind_get, kind_of, settings_check
from gpuaas.clusters.policies.replay import GAP, Purse, Setup, State, Tick, replay
from gpuaas.clusters.policies.stored import memory_read, memory_stored
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import document_check

START = datetime(2026, 3, 1, tzinfo=UTC)
EACH = 3


class Wild:
    """Wishes whatever the number of GPUs asked for says, however wrong, and counts in its memory."""

    label: ClassVar[str] = "Wild"
    schema: ClassVar[Mapping[str, Any]] = {"type": "object", "properties": {}}

    def __init__(self, settings: Mapping[str, Any]) -> None:
        del settings

    def decide(
        self, signals: Signals, pool: Pool, now: datetime, memory: Mapping[str, Any]
    ) -> Recommendation:
        del pool, now
        turn = memory.get("turn", 0) + 1
        return Recommendation(signals.demand_gpus - 5 + turn % 3, "because", {"turn": turn})


POLICIES: list[Policy] = [Wild({}), PendingPods({"spare_workers": 1}), GpuUse({"target_percent": 70})]


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    minimum = draw(st.integers(0, 3))
    rules = Rules(
        minimum,
        draw(st.integers(minimum, 12)),
        draw(st.integers(1, 5)),
        up_delay=draw(st.sampled_from([0, 60, 400])),
        down_delay=draw(st.sampled_from([0, 120, 900])),
        cool_down=draw(st.sampled_from([0, 180, 600])),
    )
    amount = draw(st.integers(0, 60_000))
    return Setup(
        policy=draw(st.sampled_from(POLICIES)),
        rules=rules,
        gpus=draw(st.integers(1, 8)),
        boot=draw(st.sampled_from([0, 90, 700])),
        purses=(Purse("hours", amount, "the purse is empty"),),
    )


@st.composite
def traces(draw: st.DrawFn) -> list[Tick]:
    at, ticks = START, []
    for _ in range(draw(st.integers(0, 60))):
        seconds = draw(st.sampled_from([1, 60, 61, GAP, 5000]))
        signals = Signals(
            at, draw(st.integers(0, 40)), draw(st.sampled_from([0, 0, 1, 9, 60])), draw(st.integers(0, 5))
        )
        room = draw(st.none() | st.integers(0, 14))
        ticks.append(Tick(signals, min(seconds, GAP), f"{at:%Y-%m}", room, {"hours": EACH}))
        at += timedelta(seconds=seconds)
    return ticks


def began(setup: Setup) -> State:
    return State(setup.rules.minimum)


@given(setups(), traces())
def test_a_replay_is_deterministic_and_keeps_every_bound(setup: Setup, trace: list[Tick]) -> None:
    state, points = replay(setup, trace, began(setup))
    assert (state, points) == replay(setup, trace, began(setup))
    spent, purse = 0, setup.purses[0].amount
    for tick, point in zip(trace, points, strict=True):
        assert setup.rules.minimum <= point.count <= setup.rules.maximum
        spent += point.count * EACH * tick.seconds
        assert point.count == setup.rules.minimum or spent <= purse, "only the minimum runs on an empty purse"
        made = point.decision
        if made is not None:
            assert made.count <= max(made.before, setup.rules.maximum)
            assert made.count - made.before <= setup.rules.step
            if tick.room is not None:
                assert made.count <= max(made.before, tick.room), "no growth beyond limits and capacity"


@pytest.mark.parametrize("boot", [0, 90, 700])
@pytest.mark.parametrize("amount", range(1000, 60_000, 1470))
def test_a_purse_that_runs_dry_is_never_overdrawn(boot: int, amount: int) -> None:
    """Demand for all that there may be, until nothing is left: what is there goes in time, however long that takes."""
    setup = Setup(
        PendingPods({"spare_workers": 0}), Rules(0, 12, 12), 1, boot, (Purse("hours", amount, "dry"),)
    )
    moments = [START + timedelta(seconds=GAP * number) for number in range(80)]
    trace = [Tick(Signals(at, 12), GAP, "", None, {"hours": EACH}) for at in moments]
    state, points = replay(setup, trace, began(setup))
    assert state.spent["hours"] <= amount
    assert amount < 2 * EACH * (boot + GAP) or any(point.count for point in points)


@given(setups(), traces())
def test_shrinking_keeps_the_step_and_changes_their_distance_unless_a_cap_says_so(
    setup: Setup, trace: list[Tick]
) -> None:
    setup = replace(setup, purses=())
    _, points = replay(setup, trace, began(setup))
    changes = [point for point in points if point.decision is not None and point.decision.changes]
    for point in changes:
        assert point.decision is not None
        assert abs(point.decision.count - point.decision.before) <= setup.rules.step
    for one, following in pairwise(changes):
        assert following.at - one.at >= timedelta(seconds=max(setup.rules.cool_down, setup.boot))


@given(setups(), traces(), st.integers(0, 60))
def test_a_trace_in_two_parts_gives_what_the_whole_gives(setup: Setup, trace: list[Tick], cut: int) -> None:
    whole = replay(setup, trace, began(setup))
    between, first = replay(setup, trace[:cut], began(setup))
    stored = replace(between, memory=memory_read(memory_stored(between.memory)))
    end, second = replay(setup, trace[cut:], stored)
    assert (end, first + second) == whole


def ask(count: int, rules: Rules, wish: int, memory: Memory | None = None, *caps: Cap, after: int = 0) -> Any:
    signals = Signals(START, used_gpus=wish)
    return decide(
        PendingPods({"spare_workers": 0}),
        rules,
        signals=signals,
        pool=Pool("gpu", count, 1, rules.minimum, rules.maximum),
        memory=memory or Memory(),
        caps=caps,
        now=START + timedelta(seconds=after),
    )


def test_a_wish_must_last_and_the_clock_begins_anew_when_it_stops() -> None:
    rules = Rules(0, 9, step=9, up_delay=60)
    first = ask(2, rules, 5)
    assert (first.count, first.memory.up_since) == (2, START)
    assert ask(2, rules, 5, first.memory, after=59).count == 2
    assert ask(2, rules, 5, first.memory, after=60).count == 5
    calm = ask(2, rules, 2, first.memory, after=30)
    assert calm.memory.up_since is None
    assert ask(2, rules, 5, calm.memory, after=60).count == 2


def test_a_cap_that_binds_wins_over_delays_and_steps_but_not_over_the_minimum() -> None:
    rules = Rules(1, 9, step=1, down_delay=600, cool_down=600)
    memory = Memory(changed_at=START)
    spent = Cap(0, "nothing is left this month", binding=True)
    found = ask(6, rules, 6, memory, spent)
    assert (found.count, found.reason, found.refused) == (1, "nothing is left this month", "")
    full = Cap(0, "the site is full")
    assert ask(6, rules, 6, memory, full).count == 6, "what is there is not taken away"
    refused = ask(2, Rules(0, 9, step=9), 8, Memory(), Cap(4, "room for four"))
    assert (refused.count, refused.wanted, refused.refused) == (4, 8, "room for four")


UNUSABLE: list[Any] = [
    {"count": True, "reason": "yes"},
    {"count": 1.5, "reason": "half"},
    {"count": 1, "reason": None},
    {"count": 1, "reason": "x", "memory": {"at": START}},
    {"count": 1, "reason": "x", "memory": {"much": "x" * 10_001}},
]


@pytest.mark.parametrize("answer", [None, *(Recommendation(**one) for one in UNUSABLE)])
def test_a_policy_without_a_usable_answer_changes_nothing(answer: Any) -> None:
    class Broken(Wild):
        def decide(
            self, signals: Signals, pool: Pool, now: datetime, memory: Mapping[str, Any]
        ) -> Recommendation:
            found: Recommendation = answer
            return found

    found = decide(
        Broken({}),
        Rules(0, 9),
        signals=Signals(START),
        pool=Pool("gpu", 3, 1, 0, 9),
        memory=Memory(own={"kept": 1}),
        caps=(),
        now=START,
    )
    assert (found.count, found.broken) == (3, True)
    assert found.memory.own == {"kept": 1}


def wanted(policy: Any, signals: Signals, pool: Pool, now: datetime = START) -> int:
    count: int = policy.decide(signals, pool, now, {}).count
    return count


def test_what_the_kinds_want() -> None:
    pool = Pool("gpu", 2, 4, 0, 9)
    assert wanted(PendingPods({"spare_workers": 1}), Signals(START, 8, 3, 1), pool) == 4
    assert wanted(JobQueue({"jobs_per_worker": 2}), Signals(START, 5, 9, 3), pool) == 4
    assert wanted(GpuUse({"target_percent": 50}), Signals(START, 8), pool) == 4
    assert wanted(GpuUse({"target_percent": 100}), Signals(START, 8, 1, 1), pool) == 3
    assert wanted(GpuUse({"target_percent": 80}), Signals(START, 0, 1, 1), replace(pool, count=0)) == 1
    sick = Signals(START, 2, 2, 1, unhealthy=frozenset({1}))
    told = PendingPods({"spare_workers": 0}).decide(sick, replace(pool, gpus=2), START, {})
    assert (told.count, told.reason) == (
        3,
        "2 GPUs are used and 2 are requested, and 1 unhealthy worker accepts no work",
    )
    assert wanted(JobQueue({"jobs_per_worker": 1}), sick, replace(pool, gpus=2)) == 3


@pytest.mark.parametrize(
    ("need", "count", "sick", "wanted"),
    [
        (0, 3, {1}, 0),  # without work none is paid for
        (1, 3, {1}, 2),
        (2, 3, {3}, 2),  # the one that goes anyway
        (1, 1, {1}, 2),
        (1, 2, {1, 2}, 2),  # a new one would be no better
        (2, 3, {1, 3}, 3),
        (4, 4, {1, 2, 3, 4}, 5),
        (4, 4, {1, 4}, 6),
        (1, 1, {2}, 1),
    ],
)
def test_others_stand_in_for_unhealthy_workers_within_bounds(
    need: int, count: int, sick: set[int], wanted: int
) -> None:
    signals = Signals(START, unhealthy=frozenset(sick))
    assert healthy(need, signals, Pool("gpu", count, 1, 0, 12))[0] == wanted


@given(st.integers(0, 12), st.integers(0, 4))
def test_workers_that_are_all_unhealthy_are_not_added_without_end(need: int, count: int) -> None:
    seen = []
    for _ in range(20):
        signals = Signals(START, unhealthy=frozenset(range(1, count + 1)))
        count = healthy(need, signals, Pool("gpu", count, 1, 0, 99))[0]
        seen.append(count)
    assert seen[-1] <= need + 1


FLOOR = {"hours": ["Mon-Fri 08:00-18:00 3", "Mon 08:00-09:00 4"], "time_zone": "Europe/Berlin"}


@pytest.mark.parametrize(
    "policy",
    [
        PendingPods({"spare_workers": 0, **FLOOR}),
        JobQueue({"jobs_per_worker": 1, **FLOOR}),
        GpuUse({"target_percent": 100, **FLOOR}),
    ],
)
def test_hours_are_a_floor_under_the_demand(policy: Any) -> None:
    pool = Pool("gpu", 2, 1, 0, 9)
    monday = datetime(2026, 3, 30, 6, tzinfo=UTC)  # 08:00 there, the day after summer time began
    idle, busy = Signals(monday, 1), Signals(monday, 6)
    for hour, count in ((-1, 1), (0, 4), (1, 3), (9, 3), (10, 1), (-24, 1)):
        assert wanted(policy, idle, pool, monday + timedelta(hours=hour)) == count
    assert wanted(policy, busy, pool, monday) == 6, "no ceiling"
    held = policy.decide(idle, pool, monday, {}).reason
    assert held.endswith("; Mon 08:00 in Europe/Berlin at least 4: Mon 08:00-09:00 4")
    assert "at least" not in policy.decide(busy, pool, monday, {}).reason


@pytest.mark.parametrize("name", ["pending", "queue", "use"])
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"hours": ["Mon-Fri 08:00-18:00 2"]}, "settings.time_zone"),
        ({"hours": ["Mon-Fri 08:00-18:00 2"], "time_zone": "No/Where"}, "settings.time_zone"),
        ({"time_zone": "No/Where"}, "settings.time_zone"),
        ({"hours": ["8-18 2"], "time_zone": "UTC"}, "settings.hours"),
        ({"hours": [], "time_zone": "UTC"}, "settings.hours"),
        ({"hours": "Mon-Fri 08:00-18:00 2", "time_zone": "UTC"}, "settings.hours"),
        ({"hours": ["Mon-Fri 08:00-18:00 2"] * 51, "time_zone": "UTC"}, "settings.hours"),
    ],
)
def test_a_floor_that_cannot_be_read_is_refused_beside_its_field(
    name: str, given: dict[str, Any], field: str
) -> None:
    rest = {"jobs_per_worker": 1, "target_percent": 80}
    kind = kind_get(name)
    needed = {key: value for key, value in rest.items() if key in kind.schema["properties"]}
    with pytest.raises(Invalid) as caught:
        settings_check(kind, {**needed, **given})
    assert list(caught.value.fields) == [field]
    assert settings_check(kind, needed).keys().isdisjoint(given), "without hours there is none"


def hours(*lines: str, zone: str = "Europe/Berlin") -> Schedule:
    return Schedule({"hours": list(lines), "time_zone": zone})


@pytest.mark.parametrize(
    ("local", "count"),
    [
        ("2026-03-27 07:59", 1),
        ("2026-03-27 08:00", 4),
        ("2026-03-27 17:59", 4),
        ("2026-03-27 18:00", 1),
        ("2026-03-28 12:00", 1),
        ("2026-03-30 08:00", 4),  # after the night in which summer time begins
        ("2026-10-26 08:00", 4),  # and after the one in which it ends
        ("2026-10-23 23:30", 6),
        ("2026-10-24 01:59", 6),
        ("2026-10-24 02:00", 1),
    ],
)
def test_hours_are_those_of_the_wall_clock(local: str, count: int) -> None:
    zone = ZoneInfo("Europe/Berlin")
    now = datetime.strptime(local, "%Y-%m-%d %H:%M").replace(tzinfo=zone).astimezone(UTC)
    policy = hours("Mon-Fri 08:00-18:00 4", "Fri 22:00-02:00 6")
    assert wanted(policy, Signals(now), Pool("gpu", 1, 1, 1, 9), now) == count


def test_an_hour_that_comes_twice_is_open_twice_and_one_that_is_skipped_never() -> None:
    policy = hours("Sun 02:00-03:00 5")
    pool = Pool("gpu", 0, 1, 0, 9)

    def open_minutes(day: datetime) -> int:
        moments = [day + timedelta(minutes=number) for number in range(360)]
        return sum(wanted(policy, Signals(at), pool, at) == 5 for at in moments)

    assert open_minutes(datetime(2026, 10, 24, 22, tzinfo=UTC)) == 120
    assert open_minutes(datetime(2026, 3, 28, 23, tzinfo=UTC)) == 0
    assert open_minutes(datetime(2026, 3, 21, 23, tzinfo=UTC)) == 60


def test_a_week_may_go_round_its_end() -> None:
    policy = hours("Sat-Mon 00:00-23:59 2", zone="UTC")
    counts = [
        wanted(policy, Signals(START), Pool("gpu", 0, 1, 0, 9), START + timedelta(days=day, hours=9))
        for day in range(7)
    ]
    assert counts == [2, 2, 0, 0, 0, 0, 2], "from a Sunday on"


@pytest.mark.parametrize(
    "settings", [{"hours": ["Mon 8-9 1"], "time_zone": "UTC"}, {"hours": [], "time_zone": "No/Where"}]
)
def test_hours_that_cannot_be_read_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        Schedule(settings)


def test_the_operators_guide_shows_one_that_works() -> None:
    guide = Path("docs/operators/cluster-policies.md").read_text("utf-8")
    source = next(block for block in guide.split("```python\n")[1:] if "class Evenings" in block)
    known: dict[str, Any] = {}
    exec(source.split("```")[0], known)
    kind = kind_of("evenings", known["Evenings"])
    policy = kind.made(document_check(kind.schema, {}))
    pool = Pool("gpu", 1, 2, 1, 9)
    assert [
        wanted(policy, Signals(START, 4, 3, 1), pool, START + timedelta(hours=at)) for at in (17, 18)
    ] == [1, 4]
