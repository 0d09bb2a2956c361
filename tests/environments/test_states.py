"""Every plan comes to rest, every verb leads somewhere, and whatever is asked in whatever order, the site has what is said."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.core.errors import Conflict, QuotaRefused
from gpuaas.environments.models import Environment, EnvironmentStep
from gpuaas.environments.reconcile import plan
from gpuaas.environments.services import (
    environment_delete,
    environment_restart,
    environment_start,
    environment_stop,
)
from gpuaas.environments.states import ALLOWED, CHANGING, MACHINE, EnvironmentState
from gpuaas.lifecycle.actions import Begin, CleanUp, Finish, Rest
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.inside import Look
from gpuaas.providers.sandbox.dials import failure_plan
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import room_of
from tenants.actors import Actor
from tests.environments.stage import homes, ordered, pods, run_now, settle

S = EnvironmentState
LEADS = {Verb.SUSPEND: S.STOPPING, Verb.RESUME: S.STARTING, Verb.DELETE: S.DELETING, Verb.RUN: S.STARTING}
DEEDS: list[Any] = [environment_start, environment_stop, environment_restart]


@given(state=st.sampled_from(S), keys=st.lists(st.sampled_from("abc"), unique=True))
def test_every_plan_comes_to_rest(state: S, keys: list[str]) -> None:
    pending = [EnvironmentStep(key=key) for key in keys]
    for _ in range(10):
        match plan(state, pending):
            case Rest() | Look() | CleanUp():
                assert state not in CHANGING
                return
            case Begin():
                assert S.CREATING in MACHINE.edges[state]
                state = S.CREATING
            case Finish(state=after):
                assert after in MACHINE.edges[state]
                state = after
            case step:
                pending = [each for each in pending if each is not step]
    raise AssertionError("it never rests")


@pytest.mark.parametrize("verb", LEADS)
def test_a_verb_that_is_allowed_has_an_edge(verb: Verb) -> None:
    rule = ALLOWED[verb]
    states = rule.states | ({S.FAILED} if rule.failed else set())
    assert states
    assert all(LEADS[verb] in MACHINE.edges[S(state)] for state in states)


def test_names_of_states_are_their_labels() -> None:
    assert all(state.name.capitalize() == state.label for state in S)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_asked_in_whatever_order(as_alice: Actor, workspace: Workspace, seed: int) -> None:
    """Two of them share four GPUs; answers get lost on the way."""
    chance = random.Random(seed)
    rows = [ordered(as_alice, workspace, "lab-0", gpus=3)]
    for turn in range(8):
        row = chance.choice(rows)
        deed = chance.choice([*DEEDS, run_now, run_now])
        if chance.random() < 0.3:
            failure_plan(workspace.site_id, verb="environment-resume:start", error="lost")
        if turn == 2:
            rows.append(ordered(as_alice, workspace, "lab-1", gpus=1))
        try:
            deed(row) if deed is run_now else deed(actor=as_alice, environment=row)
        except (Conflict, QuotaRefused):
            continue
    ended = [settle(row) for row in rows]
    up = sorted(row.external_name for row in ended if row.state == "ready")
    assert pods(workspace) == up
    assert set(up) <= set(homes(workspace)) <= {row.external_name for row in rows}
    room = room_of(workspace=workspace)
    assert all(each.taken <= each.bought for each in (*room.amounts.values(), *room.pools.values()))
    for row in ended:
        environment_delete(actor=as_alice, environment=row)
        assert settle(row).state == "deleted"
    assert (pods(workspace), homes(workspace)) == ([], [])
    assert Environment.objects.filter(operations__finished_at=None).count() == 0
