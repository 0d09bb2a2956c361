"""The pure plan: whatever was seen, it never says done before it is so."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.clusters.reconcile.plan import (
    Desired,
    Heal,
    Look,
    Observed,
    Step,
    plan,
)
from gpuaas.clusters.states import CHANGING, MACHINE, ClusterState
from gpuaas.lifecycle.actions import CleanUp, Finish, Rest

NOW = datetime(2026, 11, 22, tzinfo=UTC)
S = ClusterState
STATES = st.sampled_from(list(ClusterState))
SEEN = st.none() | st.builds(
    Observed,
    differs=st.sampled_from(["", "a machine is missing"]),
    left=st.integers(0, 3),
    healed=st.booleans(),
)
PENDING = st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple)


@settings(derandomize=True, deadline=None)
@given(STATES, PENDING, SEEN)
def test_it_is_done_only_when_the_site_shows_it(
    state: ClusterState, pending: tuple[str, ...], seen: Observed | None
) -> None:
    action = plan(Desired(state, pending), seen, NOW)
    if isinstance(action, Finish):
        assert not pending
        assert seen is not None
        assert MACHINE.allows(state, action.state)
        assert seen.left == 0 if action.state == S.DELETED else not seen.differs
    if isinstance(action, Step):
        assert action.name == pending[0]
        assert state in CHANGING
    if isinstance(action, Heal):
        assert state == S.READY, "only what is ready is mended without being asked"
    if isinstance(action, CleanUp):
        assert state == S.DELETED
    if isinstance(action, Rest) and action.until is None:
        assert state in {S.FAILED, S.DELETED}


@pytest.mark.parametrize("state", [S.READY, S.SUSPENDED, S.DELETED])
def test_what_rests_is_looked_at_before_it_is_left(state: ClusterState) -> None:
    assert plan(Desired(state), None, NOW) == Look()
