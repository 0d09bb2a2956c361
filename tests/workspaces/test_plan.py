"""The plan as a pure function: properties that hold whatever is wanted and whatever was seen."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gpuaas.lifecycle.actions import Begin, CleanUp, Finish, Rest, Restart
from gpuaas.providers.base import Change
from gpuaas.workspaces.reconcile.plan import (
    CHANGED,
    COMPARE_EVERY,
    OBSERVE_EVERY,
    Action,
    Compare,
    Desired,
    Heal,
    Observe,
    Observed,
    Step,
    Wait,
    drift,
    plan,
)
from gpuaas.workspaces.states import LIVE, MACHINE, WorkspaceState

S = WorkspaceState
STEPS: dict[WorkspaceState, Change] = {
    S.REQUESTED: Change.CREATE,
    S.PROVISIONING: Change.CREATE,
    S.RESIZING: Change.RESIZE,
    S.SUSPENDING: Change.SUSPEND,
    S.RESUMING: Change.RESUME,
    S.DELETING: Change.DELETE,
}
MAKING = {Change.CREATE, Change.RESIZE}
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
AMOUNTS = st.dictionaries(st.sampled_from(["nvidia.com/gpu", "cpu", "storage"]), st.integers(0, 3))
TIMES = st.sampled_from([None, NOW - timedelta(minutes=1), NOW + timedelta(minutes=1)])
DESIRED = st.builds(
    Desired,
    state=st.sampled_from(S),
    pending=st.lists(st.sampled_from("abcdef"), unique=True, max_size=6).map(tuple),
    hard=AMOUNTS,
    digest=st.sampled_from(["one", "two"]),
    ensured=st.sampled_from(["", "one", "two"]),
    was_ready=st.booleans(),
    watched=st.booleans(),
    compare_at=TIMES,
    repairs=st.booleans(),
    hold_until=TIMES,
    hold_limits_until=TIMES,
    drifted=st.booleans(),
)
DIFFERS = st.sampled_from(
    [("", False), ("a label is not as wanted", False), ("a limit is not as wanted", True)]
)
OBSERVED = st.none() | st.builds(
    lambda differs, **seen: Observed(differs=differs[0], unsafe=differs[1], **seen),
    DIFFERS,  # limits are among the differences only where there are some
    exists=st.booleans(),
    hard=AMOUNTS,
    used=AMOUNTS,
    healed=st.booleans(),
    looked=st.booleans(),
    compared=st.booleans(),
)


def changes(actions: tuple[Action, ...]) -> set[Change]:
    return {action.change for action in actions if isinstance(action, Step)}


@given(DESIRED, OBSERVED)
def test_there_is_always_something_to_do_and_always_the_same(
    desired: Desired, observed: Observed | None
) -> None:
    actions = plan(desired, observed, NOW)

    assert actions
    assert actions == plan(desired, observed, NOW)


@given(DESIRED, OBSERVED)
def test_pending_steps_come_once_each_in_order(desired: Desired, observed: Observed | None) -> None:
    actions = plan(desired, observed, NOW)
    steps = [action for action in actions if isinstance(action, Step)]

    if desired.state in STEPS:
        assert tuple(step.key for step in steps) == desired.pending
        assert changes(actions) <= {STEPS[desired.state]}
    else:
        assert steps == []


@given(DESIRED, OBSERVED)
def test_an_end_is_said_only_when_the_site_shows_it(desired: Desired, observed: Observed | None) -> None:
    actions = plan(desired, observed, NOW)
    if Finish(S.READY) not in actions and Finish(S.SUSPENDED) not in actions:
        return
    assert desired.pending == ()
    assert observed is not None
    assert observed.exists
    assert all(observed.hard.get(name) == amount for name, amount in desired.hard.items())
    assert all(observed.used.get(name, 0) <= amount for name, amount in desired.hard.items())


def test_storage_that_is_full_is_waited_for_and_the_limit_follows_what_goes() -> None:
    """A site that takes no limit below what is stored; with devices it is somebody's doing, and set right."""
    smaller = Desired(state=S.RESIZING, hard={"storage": 1}, digest="one", ensured="one")
    full = Observed(True, hard={"storage": 3}, used={"storage": 3})
    (waits,) = plan(smaller, full, NOW)
    assert isinstance(waits, Wait)
    assert "3 of storage are in use; only 1 may be" in waits.reason
    (lowers,) = plan(smaller, replace(full, used={"storage": 2}), NOW)
    assert isinstance(lowers, Restart)
    gpus = Observed(True, hard={"nvidia.com/gpu": 3}, used={"nvidia.com/gpu": 3})
    (rights,) = plan(replace(smaller, hard={"nvidia.com/gpu": 1}), gpus, NOW)
    assert isinstance(rights, Restart)


def test_a_class_that_was_given_back_is_waited_for_where_its_limit_follows_its_use() -> None:
    smaller = Desired(state=S.RESIZING, hard={"storage": 3, "storage:fast": 1}, digest="one", ensured="one")
    full = Observed(True, hard={"storage": 3, "storage:fast": 2}, used={"storage": 3, "storage:fast": 2})
    (waits,) = plan(smaller, full, NOW)
    assert isinstance(waits, Wait)
    assert "2 of storage:fast are in use; only 1 may be" in waits.reason


def test_what_is_stored_in_a_class_that_was_never_bought_stays_and_its_limit_is_no_drift() -> None:
    """Where the site takes no limit below the use. One with room in it is set right."""
    closed = {"hard": {"storage": 3, "storage:old": 0}, "never_bought": frozenset({"storage:old"})}
    full = Observed(True, hard={"storage": 3, "storage:old": 2}, used={"storage": 3, "storage:old": 2})
    later = NOW + timedelta(hours=1)
    for state, action in (
        (S.RESIZING, Finish(S.READY)),
        (S.SUSPENDING, Finish(S.SUSPENDED)),
        (S.READY, Rest(NOW + OBSERVE_EVERY)),
    ):
        desired = Desired(state, **closed, digest="one", ensured="one", compare_at=later)  # type: ignore[arg-type]
        assert plan(desired, full, NOW) == (action,)
        assert plan(desired, replace(full, used={"storage": 3, "storage:old": 1}), NOW) != (action,)


def test_what_is_deleted_from_a_class_that_was_never_bought_is_set_silently() -> None:
    """No comparison records it, and only the limits are written again; one that is more than set right is a difference."""
    closed = {"hard": {"storage": 3, "storage:old": 0}, "never_bought": frozenset({"storage:old"})}
    less = Observed(True, hard={"storage": 3, "storage:old": 2}, used={"storage": 1, "storage:old": 1})
    for state in (S.READY, S.SUSPENDED):
        desired = Desired(state, **closed, digest="one", ensured="one", watched=True, repairs=False)  # type: ignore[arg-type]
        assert drift(desired, less) == ""
        assert plan(desired, None, NOW) == (Observe(),), "a comparison would find a difference"
        heals, _ = plan(desired, less, NOW)
        assert heals == Heal("1 of storage:old are left; its limit is still 2", safety=True)
        assert plan(desired, replace(less, healed=True), NOW) == (Compare(),)
        assert plan(desired, replace(less, hard={"storage": 9, "storage:old": 2}), NOW) == (Compare(),)
        assert plan(desired, replace(less, hard={"storage": 3, "storage:old": -1}), NOW) == (Compare(),)


def test_what_is_deleted_last_is_silent_where_the_last_look_found_it_full() -> None:
    """A limit that nobody filled, or that somebody has raised since, is a difference."""
    hard, never = {"storage": 3, "storage:old": 0}, frozenset({"storage:old"})
    desired = Desired(S.READY, hard=hard, never_bought=never, digest="one", ensured="one")
    less = Observed(True, hard={"storage": 3, "storage:old": 2}, used={"storage": 1})
    heals, _ = plan(replace(desired, filled={"storage:old": 2}), less, NOW)
    assert heals == Heal("0 of storage:old are left; its limit is still 2", safety=True)
    for filled in ({}, {"storage:old": 1}):
        assert plan(replace(desired, filled=filled), less, NOW) == (Compare(),)
        assert drift(replace(desired, filled=filled), less)


def test_what_is_deleted_during_a_resize_is_no_refusal_of_the_site() -> None:
    """Else deleting one volume after another makes the change fail."""
    smaller = {"storage": 1, "storage:old": 0, "storage:fast": 1}
    less = Observed(True, hard={**smaller, "storage:fast": 3}, used={"storage": 1, "storage:fast": 2})
    desired = Desired(S.RESIZING, hard=smaller, digest="one", ensured="one")
    for never in (frozenset[str](), frozenset({"storage:fast"})):
        (again,) = plan(replace(desired, never_bought=never), less, NOW)
        assert again == Restart("2 of storage:fast are left; its limit is still 3", counts=False)
        (refused,) = plan(desired, replace(less, used={"storage": 1}), NOW)
        assert isinstance(refused, Restart)
        assert refused.counts


def test_a_lower_limit_that_the_site_does_not_keep_is_a_refusal() -> None:
    """The last look found the same, and every limit was written since."""
    wanted = {"storage": 1, "storage:fast": 1}
    less = Observed(True, hard={"storage": 1, "storage:fast": 3}, used={"storage": 1, "storage:fast": 2})
    desired = Desired(S.RESIZING, hard=wanted, digest="one", ensured="one")
    (refused,) = plan(replace(desired, last=less), less, NOW)
    words = "2 of storage:fast are left; its limit is still 3, although the site has taken a lower one"
    assert refused == Restart(words)
    for used in (3, 1):
        before = replace(less, used={"storage": 1, "storage:fast": used})
        (again,) = plan(replace(desired, last=before), less, NOW)
        assert isinstance(again, Restart)
        assert not again.counts, "one more was deleted since"


@given(DESIRED, OBSERVED)
def test_every_finish_is_an_edge_of_the_machine(desired: Desired, observed: Observed | None) -> None:
    for action in plan(desired, observed, NOW):
        if isinstance(action, Finish):
            assert MACHINE.allows(desired.state, action.state)
        if isinstance(action, Begin):
            assert MACHINE.allows(desired.state, S.PROVISIONING)


@given(DESIRED, OBSERVED)
def test_nothing_is_made_for_what_is_going_or_gone(desired: Desired, observed: Observed | None) -> None:
    if desired.state in {S.DELETING, S.DELETED}:
        actions = plan(desired, observed, NOW)
        assert not any(isinstance(action, Begin | Heal | Restart) for action in actions)
        assert not MAKING & changes(actions)
    if desired.state in LIVE - {S.DELETING}:
        actions = plan(desired, observed, NOW)
        assert not any(isinstance(action, CleanUp) for action in actions)
        assert Change.DELETE not in changes(actions)


@given(DESIRED, OBSERVED)
def test_what_falls_asleep_never_fails(desired: Desired, observed: Observed | None) -> None:
    """Like a deletion: nobody could do anything about it but try again."""
    if desired.state == S.SUSPENDING:
        assert not any(isinstance(action, Restart) for action in plan(desired, observed, NOW))


KEPT = {S.READY, S.SUSPENDED}


def enforced(desired: Desired, observed: Observed) -> bool:
    """As far as it was looked at."""
    hard = all(observed.hard.get(name) == amount for name, amount in desired.hard.items())
    return not observed.looked or (observed.exists and hard)


@given(DESIRED, OBSERVED)
def test_what_is_kept_is_healed_when_it_differs_and_the_site_is_not_only_observed(
    desired: Desired, observed: Observed | None
) -> None:
    if desired.state not in KEPT or observed is None:
        return
    action = plan(desired, observed, NOW)[0]
    same = enforced(desired, observed) and not observed.differs
    changed = desired.digest != desired.ensured

    if isinstance(action, Heal):
        assert not observed.healed, "never twice in one visit"
        assert changed or (observed.compared and not same), "what differs is written down first"
        assert not action.safety or not desired.repairs
    elif same and observed.compared and not changed:
        assert isinstance(action, Rest | Observe)
    if changed and not observed.healed:
        assert action == Heal(CHANGED), "the portal's own wishes wait for nothing"


@given(DESIRED, OBSERVED)
def test_limits_are_set_right_whatever_the_policy_and_the_rest_is_not(
    desired: Desired, observed: Observed | None
) -> None:
    only_observed = replace(desired, repairs=False, ensured=desired.digest, hold_limits_until=None)
    if desired.state not in KEPT or observed is None or not observed.compared or observed.healed:
        return
    action = plan(only_observed, observed, NOW)[0]
    lost = not enforced(desired, observed) and observed.exists

    if lost or (observed.differs and observed.unsafe):
        assert isinstance(action, Heal)
        assert action.safety
    else:
        assert not isinstance(action, Heal)


@given(DESIRED, OBSERVED)
def test_who_fights_with_somebody_waits(desired: Desired, observed: Observed | None) -> None:
    later = NOW + timedelta(seconds=45)
    fought = replace(desired, ensured=desired.digest, hold_until=later, hold_limits_until=later)
    if desired.state in KEPT and observed is not None:
        assert not isinstance(plan(fought, observed, NOW)[0], Heal)


@given(DESIRED, OBSERVED)
def test_where_changes_are_heard_looks_are_rare(desired: Desired, observed: Observed | None) -> None:
    calm = replace(desired, compare_at=NOW + timedelta(hours=3), ensured=desired.digest)
    if desired.state not in KEPT or observed is None:
        return
    for action in plan(calm, observed, NOW):
        if isinstance(action, Rest):
            held = calm.hold_until if not observed.healed else None
            every = COMPARE_EVERY if calm.watched else OBSERVE_EVERY
            assert action.until in {NOW + every, held, calm.hold_limits_until}


class PerfectSite:
    """Does as told at once; the runner's bookkeeping beside it."""

    def __init__(self, wish: Desired) -> None:
        self.wish = wish
        self.site = Observed(exists=wish.state != S.REQUESTED)
        self.observed: Observed | None = None

    def perform(self, action: Action) -> None:
        match action:
            case Begin():
                self.wish = replace(self.wish, state=S.PROVISIONING)
            case Step():
                pending = tuple(key for key in self.wish.pending if key != action.key)
                self.wish = replace(self.wish, pending=pending)
                making = action.change is not Change.DELETE
                self.site = Observed(exists=making, hard=self.wish.hard if making else {})
            case Observe():
                compared = self.observed is not None and self.observed.compared
                self.observed = replace(self.site, compared=compared)
            case Compare():
                before = self.observed or replace(self.site, looked=False)
                self.observed = replace(before, compared=True)
                self.wish = replace(self.wish, compare_at=NOW + timedelta(hours=1), drifted=False)
            case Heal(safety=safety):
                self.site, self.observed = Observed(True, self.wish.hard, healed=True), None
                self.wish = replace(self.wish, ensured=self.wish.ensured if safety else self.wish.digest)
            case _:
                self.close(action)

    def close(self, action: Action) -> None:
        match action:
            case Restart():
                self.wish, self.observed = replace(self.wish, pending=("again",)), None
            case CleanUp():
                self.site, self.observed = Observed(exists=False), None
            case Finish(state=state):
                self.wish = replace(self.wish, state=state, ensured=self.wish.digest)
                kept = state != S.DELETED
                self.site = self.site if kept else Observed(exists=False)
                self.observed = self.observed if kept else None


@given(DESIRED)
def test_a_site_that_does_as_told_brings_every_plan_to_rest(desired: Desired) -> None:
    world = PerfectSite(desired)
    for _ in range(40):
        action = plan(world.wish, world.observed, NOW)[0]
        if isinstance(action, Rest):
            break
        world.perform(action)
    else:
        raise AssertionError(f"never at rest: {world.wish}")

    assert world.wish.state in {S.READY, S.SUSPENDED, S.FAILED, S.DELETED}
    kept = world.wish.state in {S.READY, S.SUSPENDED} or (world.wish.state == S.FAILED and desired.was_ready)
    assert (action.until is not None) == kept


def test_what_is_stored_in_a_class_that_was_never_bought_delays_nothing() -> None:
    """It is older than the limit; what was bought and is given back is waited for."""
    hard = {"cpu": 1, "storage:fast": 0}
    desired = Desired(state=S.RESIZING, hard=hard, digest="one", ensured="one")
    seen = Observed(exists=True, hard=hard, used={"storage:fast": 40})

    assert isinstance(plan(desired, seen, NOW)[0], Wait)
    older = replace(desired, never_bought=frozenset({"storage:fast"}))
    assert plan(older, seen, NOW) == (Finish(S.READY),)
    assert plan(replace(older, state=S.SUSPENDING), seen, NOW) == (Finish(S.SUSPENDED),)
    unlimited = replace(seen, hard={"cpu": 1})
    assert plan(older, unlimited, NOW) == (Restart("the site enforces no limit of storage:fast, wanted 0"),)
