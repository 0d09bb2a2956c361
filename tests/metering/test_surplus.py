"""Whom the warden takes: the newest of what is too much, and never one that the quota let in."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.metering.books import CLUSTERS, WORKSPACES, Account
from gpuaas.metering.surplus import CLOCK_SKEW, holds, surplus
from gpuaas.metering.warden import Ledger
from gpuaas.providers.base import ObservedConsumer, UsageEvent, UsageKind
from quotas.allowances import Allowance
from tests.metering.stage import GPU, bookmark, listed, pod, utc

NOW = utc("2026-11-02 12:00:00")
SPACE = "gpu-0123abcd-train"
MIG = "nvidia.com/mig-1g.5gb"


def allow(limit: int = 2, **changes: object) -> Allowance:
    made = Allowance(UUID(int=1), SPACE, {GPU: limit, MIG: 0})
    return replace(made, **changes)  # type: ignore[arg-type]  # a test's own changes


def held(uid: str, second: int, gpus: int = 1, **changes: object) -> ObservedConsumer:
    made = pod(uid, start=NOW - timedelta(seconds=1000 - second), gpus=gpus)
    return replace(made, **changes)  # type: ignore[arg-type]  # a test's own changes


def taken(
    consumers: list[ObservedConsumer], allowance: Allowance, enforced: dict[str, int] | None = None
) -> list[str]:
    found = surplus(consumers, allowance, enforced=enforced or {}, now=NOW)
    return [each.consumer.uid for each in found]


def test_the_newest_goes_and_it_says_what_was_held() -> None:
    (found,) = surplus([held("b", 2), held("c", 3), held("a", 1)], allow(), enforced={}, now=NOW)
    assert (found.consumer.uid, found.held, found.limit, found.quantity) == ("c", 3, 2, 1)
    assert found.reason("workspace") == (
        "removed by the portal: the workspace held 3 × nvidia.com/gpu with a limit of 2; the newest are removed first"
    )


def test_of_the_same_second_the_younger_then_the_greater_uid() -> None:
    older = held("z", 5, created_at=NOW - timedelta(hours=2))
    assert taken([held("a", 5), held("b", 5), older], allow()) == ["b"]


def test_what_was_not_bought_may_not_be_held_and_what_nobody_sells_is_not_limited() -> None:
    slices = replace(held("slice", 1), gpus={MIG: 1})
    fabric = replace(held("fabric", 1), gpus={"rdma/hca": 4})
    assert taken([slices, fabric], allow()) == ["slice"]


def test_one_that_waits_or_has_ended_holds_nothing() -> None:
    waits = replace(held("waits", 9), started_at=None)
    ended = replace(held("ended", 8), ended_at=NOW)
    assert taken([held("a", 1), held("b", 2), waits, ended], allow()) == []


def test_one_that_is_ending_holds_until_it_is_gone() -> None:
    ending = held("a", 1, phase="Terminating", uncharged_at=NOW + timedelta(minutes=5))
    assert taken([ending, held("b", 2), held("c", 3)], allow()) == ["c"]


@pytest.mark.parametrize("past", [timedelta(), timedelta(days=1), -CLOCK_SKEW])
def test_after_its_grace_the_quota_lets_another_in_though_a_lost_node_keeps_the_pod(past: timedelta) -> None:
    lost = held("a", 1, phase="Terminating", uncharged_at=NOW - past)
    assert taken([lost, held("b", 2), held("c", 3)], allow()) == []


def test_while_a_change_is_under_way_what_the_site_enforces_counts_too() -> None:
    four = [held(uid, n) for n, uid in enumerate("abcd")]
    assert taken(four, allow(settled=False), {GPU: 4}) == []
    assert taken(four, allow(settled=False), {GPU: 3}) == ["d"]
    assert taken(four, allow(), {GPU: 4}) == ["d", "c"], "somebody raised it behind our back"


def test_what_was_there_before_the_takeover_stays() -> None:
    before = [held(uid, n, created_at=NOW - timedelta(days=9)) for n, uid in enumerate("abc")]
    taken_over = allow(older_than=NOW - timedelta(days=1))
    assert taken(before, taken_over) == []
    assert taken([*before, held("new", 9, created_at=NOW)], taken_over) == ["new"]


def test_one_that_is_too_much_of_two_kinds_goes_once() -> None:
    both = replace(held("both", 9), gpus={GPU: 1, MIG: 1})
    assert taken([held("a", 1), held("b", 2), both], allow()) == ["both"]


# -- properties -----------------------------------------------------------------------------------------------------

anybody = st.builds(
    lambda uid, second, gpus, resource, state: replace(
        held(f"pod-{uid}", second, gpus),
        gpus={resource: gpus},
        started_at=None if state == "waits" else NOW - timedelta(seconds=1000 - second),
        ended_at=NOW if state == "ended" else None,
        uncharged_at={"ending": NOW + timedelta(hours=1), "lost": NOW}.get(state),
    ),
    st.integers(0, 99),
    st.integers(0, 20),
    st.integers(0, 4),
    st.sampled_from([GPU, MIG, "rdma/hca"]),
    st.sampled_from(["runs", "runs", "runs", "waits", "ended", "ending", "lost"]),
)
crowd = st.lists(anybody, max_size=12, unique_by=lambda each: each.uid)


@given(consumers=crowd, limit=st.integers(0, 8), data=st.data())
def test_the_rest_fits_no_more_goes_than_must_and_order_does_not_matter(
    consumers: list[ObservedConsumer], limit: int, data: st.DataObject
) -> None:
    found = surplus(consumers, allow(limit), enforced={}, now=NOW)
    gone = {each.consumer.uid for each in found}
    counted = [each for each in consumers if holds(each) and each.uncharged_at != NOW]
    for resource, most in allow(limit).limits.items():
        rest = sum(each.gpus.get(resource, 0) for each in counted if each.uid not in gone)
        assert rest <= most
        of_this = [each for each in found if each.resource_name == resource]
        if of_this:
            assert rest + of_this[-1].quantity > most, "the last one that went had to go"
            youngest_left = max(
                (
                    e.started_at
                    for e in counted
                    if e.uid not in gone and e.gpus.get(resource) and e.started_at
                ),
                default=datetime.min.replace(tzinfo=NOW.tzinfo),
            )
            assert all((each.consumer.started_at or NOW) >= youngest_left for each in of_this)
    assert all(holds(each.consumer) for each in found)
    again = surplus(data.draw(st.permutations(consumers)), allow(limit), enforced={}, now=NOW)
    assert again == found


@dataclass
class Room:
    """A namespace as the API server keeps it, with a quota that holds; its own clock."""

    limit: int
    now: datetime = NOW
    pods: dict[str, ObservedConsumer] = field(default_factory=dict)
    told: list[UsageEvent] = field(default_factory=list)

    def charged(self) -> int:
        return sum(
            each.gpus[GPU]
            for each in self.pods.values()
            if each.ended_at is None and (each.uncharged_at is None or each.uncharged_at > self.now)
        )

    def tell(self, consumer: ObservedConsumer, kind: UsageKind = UsageKind.SEEN) -> None:
        self.told.append(UsageEvent(kind, self.now, "", SPACE, consumer))

    def do(self, deed: str, number: int, gpus: int) -> None:
        self.now += timedelta(seconds=number % 40)
        if deed == "create" and self.charged() + gpus <= self.limit:
            made = replace(pod(f"pod-{len(self.told)}-{number}", start=None, gpus=gpus), created_at=self.now)
            self._put(made)
            return
        if deed in {"raise", "shrink"}:  # a shrink waits until what is held fits, as the portal's does
            self.limit = max(self.limit + gpus if deed == "raise" else self.limit - gpus, self.charged())
            return
        if not self.pods:
            return
        one = list(self.pods.values())[number % len(self.pods)]
        if deed == "bind" and one.started_at is None:
            self._put(replace(one, started_at=self.now))
        elif deed == "finish" and holds(one):
            self._put(replace(one, ended_at=self.now))
        elif deed == "delete" and one.uncharged_at is None:
            self._put(replace(one, phase="Terminating", uncharged_at=self.now + timedelta(seconds=30)))
        elif deed == "remove" and one.uncharged_at is not None:
            self.tell(self.pods.pop(one.uid), UsageKind.GONE)

    def _put(self, consumer: ObservedConsumer) -> None:
        self.pods[consumer.uid] = consumer
        self.tell(consumer)


deed = st.tuples(
    st.sampled_from(["create", "create", "bind", "bind", "finish", "delete", "remove", "raise", "shrink"]),
    st.integers(0, 99),
    st.integers(1, 3),
)


@given(limit=st.integers(0, 6), deeds=st.lists(deed, max_size=60))
def test_nobody_goes_whom_a_quota_that_holds_let_in(limit: int, deeds: list[tuple[str, int, int]]) -> None:
    """Through starts, ends, graces, lost nodes (a pod stays beyond its grace), growth and shrinking."""
    room = Room(limit)
    for each in deeds:
        room.do(*each)
        found = surplus(room.pods.values(), allow(room.limit), enforced={}, now=room.now)
        assert found == []


@given(deeds=st.lists(deed, max_size=40), data=st.data())
def test_the_ledger_is_what_the_site_has_after_a_list_whatever_came_before(
    deeds: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    room = Room(6)
    for each in deeds:
        room.do(*each)
    ledger = Ledger({SPACE: {"long gone": {GPU: 1}}, "gpu-ffffffff-other": {"gone as well": {GPU: 9}}})
    noise = data.draw(st.permutations([*room.told, *room.told]))
    there = [UsageEvent(UsageKind.SEEN, room.now, "", SPACE, each) for each in room.pods.values()]
    for event in [*noise, *listed(room.now, *there), bookmark(room.now)]:
        ledger.note(event)
    assert ledger.holders(SPACE) == {each.uid for each in room.pods.values() if holds(each)}
    assert ledger.holders("gpu-ffffffff-other") == frozenset()


@given(deeds=st.lists(deed, max_size=40), cut=st.integers(0, 40))
def test_a_replay_in_order_ends_where_the_site_is(deeds: list[tuple[str, int, int]], cut: int) -> None:
    room = Room(6)
    for each in deeds:
        room.do(*each)
    ledger = Ledger({})
    for event in [*room.told, *room.told[cut:]]:
        ledger.note(event)
    assert ledger.holders(SPACE) == {each.uid for each in room.pods.values() if holds(each)}


def test_what_came_while_somebody_looked_is_not_forgotten() -> None:
    ledger, account = Ledger({}), Account(WORKSPACES, allow(1))
    for uid in ("a", "b"):
        ledger.note(UsageEvent(UsageKind.SEEN, NOW, "", SPACE, held(uid, 1)))
    known = ledger.holders(SPACE)
    ledger.note(UsageEvent(UsageKind.SEEN, NOW, "", SPACE, held("c", 2)))
    ledger.settle(SPACE, known=known, there={"b": {GPU: 1}})
    assert ledger.holders(SPACE) == {"b", "c"}
    assert ledger.over({SPACE: account}, every=False) == [SPACE]
    assert ledger.over({SPACE: account}, every=False) == [], "told once"
    assert ledger.over({SPACE: account}, every=True) == [SPACE]


def test_what_is_seen_counts_where_the_stream_told_nothing() -> None:
    """Of clusters nothing is written that says what they held when the last warden ended."""
    ledger, account = Ledger({}), Account(CLUSTERS, allow(1))
    ledger.settle(SPACE, known=(), there={"a": {GPU: 1}})
    ledger.note(UsageEvent(UsageKind.SEEN, NOW, "", SPACE, held("b", 2)))
    assert ledger.over({SPACE: account}, every=False) == [SPACE]
