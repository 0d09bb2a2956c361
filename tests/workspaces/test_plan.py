"""The plan as a pure function: properties that hold whatever is wanted and whatever was seen."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from gpuaas.workspaces.reconcile.plan import (
    OBSERVE_EVERY,
    Action,
    Begin,
    CleanUp,
    Desired,
    EnsureStep,
    Finish,
    Heal,
    Observe,
    Observed,
    ReleaseStep,
    Rest,
    Restart,
    plan,
)
from gpuaas.workspaces.states import LIVE, MACHINE, WorkspaceState

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
S = WorkspaceState
AMOUNTS = st.dictionaries(st.sampled_from(["nvidia.com/gpu", "cpu"]), st.integers(0, 3))
DESIRED = st.builds(
    Desired,
    state=st.sampled_from(S),
    pending=st.lists(st.sampled_from("abcdef"), unique=True, max_size=6).map(tuple),
    hard=AMOUNTS,
    digest=st.sampled_from(["one", "two"]),
    ensured=st.sampled_from(["", "one", "two"]),
    was_ready=st.booleans(),
)
OBSERVED = st.none() | st.builds(Observed, st.booleans(), hard=AMOUNTS, used=AMOUNTS, healed=st.booleans())


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
    kind = ReleaseStep if desired.state == S.DELETING else EnsureStep
    keys = tuple(action.key for action in actions if isinstance(action, EnsureStep | ReleaseStep))

    if desired.state in {S.REQUESTED, S.PROVISIONING, S.RESIZING, S.DELETING}:
        assert keys == desired.pending
        assert all(isinstance(a, kind) for a in actions if isinstance(a, EnsureStep | ReleaseStep))
    else:
        assert keys == ()


@given(DESIRED, OBSERVED)
def test_ready_is_said_only_when_the_site_shows_it(desired: Desired, observed: Observed | None) -> None:
    if Finish(S.READY) not in plan(desired, observed, NOW):
        return
    assert desired.pending == ()
    assert observed is not None
    assert observed.exists
    assert all(observed.hard.get(name) == amount for name, amount in desired.hard.items())
    assert all(observed.used.get(name, 0) <= amount for name, amount in desired.hard.items())


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
        makers = Begin | EnsureStep | Heal | Restart
        assert not any(isinstance(action, makers) for action in plan(desired, observed, NOW))
    if desired.state in LIVE - {S.DELETING}:
        destroyers = ReleaseStep | CleanUp
        assert not any(isinstance(action, destroyers) for action in plan(desired, observed, NOW))


@given(DESIRED, OBSERVED)
def test_a_ready_one_is_healed_exactly_when_it_differs(desired: Desired, observed: Observed | None) -> None:
    if desired.state != S.READY or observed is None:
        return
    same = (
        observed.exists
        and all(observed.hard.get(name) == amount for name, amount in desired.hard.items())
        and desired.digest == desired.ensured
    )
    actions = plan(desired, observed, NOW)

    assert isinstance(actions[0], Heal) == (not same and not observed.healed)
    if same or observed.healed:
        assert actions == (Rest(NOW + OBSERVE_EVERY),)


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
            case EnsureStep(key=key) | ReleaseStep(key=key):
                self.wish = replace(self.wish, pending=tuple(k for k in self.wish.pending if k != key))
                making = isinstance(action, EnsureStep)
                self.site = Observed(exists=making, hard=self.wish.hard if making else {})
            case Observe():
                self.observed = self.site
            case Heal():
                self.site, self.observed = Observed(True, self.wish.hard, healed=True), None
                self.wish = replace(self.wish, ensured=self.wish.digest)
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
                self.site = self.site if state == S.READY else Observed(exists=False)
                self.observed = self.observed if state == S.READY else None


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

    assert world.wish.state in {S.READY, S.FAILED, S.DELETED}
    kept = world.wish.state == S.READY or (world.wish.state == S.FAILED and desired.was_ready)
    assert (action.until is not None) == kept
