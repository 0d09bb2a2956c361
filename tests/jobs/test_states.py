"""Every plan comes to rest, every verb leads somewhere, and whatever is submitted, ends and is cancelled in whatever order, no
more is taken than was bought, and nobody is passed."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.catalog.models import GpuPool, GpuType
from gpuaas.core.errors import Conflict
from gpuaas.jobs.models import Job, JobStep
from gpuaas.jobs.reconcile import plan
from gpuaas.jobs.services import job_cancel, job_delete, job_rerun, job_retry, queue_start
from gpuaas.jobs.staging import Moved
from gpuaas.jobs.states import ALLOWED, CHANGING, ENDED, MACHINE, STAGING, JobState
from gpuaas.lifecycle.actions import CleanUp, Finish, Rest
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.inside import Look
from gpuaas.providers.sandbox.claims import claim_create
from gpuaas.providers.sandbox.dials import failure_plan
from gpuaas.providers.sandbox.models import SandboxJob, SandboxPod
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import Amount, Room, room_of
from tenants.actors import Actor
from tests.jobs.stage import LONG, QUICK, credential, run_now, settle, submitted

S = JobState
MOVES = {
    way: [{"url": "s3://sets/digits", "credential": "archive", "volume": "data"}]
    for way in ("inputs", "outputs")
}


@given(
    state=st.sampled_from(S),
    keys=st.lists(st.sampled_from("abc"), unique=True),
    outcome=st.sampled_from(["", *sorted(ENDED)]),
    moving=st.booleans(),
    moved=st.booleans(),
)
def test_every_plan_comes_to_rest(state: S, keys: list[str], outcome: str, moving: bool, moved: bool) -> None:
    pending = [JobStep(key=key) for key in keys]
    for _ in range(10):
        match plan(state, pending, outcome, moving=moving, moved=moved):
            case Rest() | Look() | CleanUp():
                assert state not in CHANGING or state is S.STARTING
                return
            case Moved():
                assert moving
                after = S.QUEUED if state is S.STAGING_IN else S.SUCCEEDED
                assert after in MACHINE.edges[state]
                state = after
            case Finish(state=after):
                assert after in MACHINE.edges[state]
                state = after
            case step:
                pending = [each for each in pending if each is not step]
    raise AssertionError("it never rests")


@pytest.mark.parametrize(("verb", "leads"), [(Verb.SUSPEND, S.ENDING), (Verb.DELETE, S.DELETING)])
def test_a_verb_that_is_allowed_has_an_edge(verb: Verb, leads: S) -> None:
    assert ALLOWED[verb].states
    for state in ALLOWED[verb].states:
        assert (S.CANCELLED if verb is Verb.SUSPEND and state is S.QUEUED else leads) in MACHINE.edges[
            S(state)
        ]
    assert all({S.CANCELLED, S.ENDING} <= MACHINE.edges[state] for state in STAGING)


def test_names_of_states_are_their_labels() -> None:
    assert all(state.name.capitalize().replace("_", " ") == state.label for state in S)


SIZES = st.fixed_dictionaries(
    {"gpus": st.integers(0, 6), "vcpus": st.integers(1, 12), "memory_gib": st.integers(1, 40)}
)


@given(wanted=st.lists(SIZES, max_size=12))
def test_what_is_taken_in_turn_never_passes_what_was_bought(wanted: list[dict[str, int]]) -> None:
    pool = GpuPool(gpu_type=GpuType(slug="h100", name="H100"))
    room = Room(
        {"vcpus": Amount(24, 0), "memory_gib": Amount(80, 0), "home_gib": Amount(0, 0)}, {pool: Amount(8, 0)}
    )
    for each in wanted:
        asked = pool if each["gpus"] else None
        short = room.shortage(asked, each)
        after = room.less(asked, each)
        fits = all(
            amount.taken <= amount.bought for amount in (*after.amounts.values(), *after.pools.values())
        )
        assert fits is (short is None)
        if short is not None:
            assert short.asked > short.amount.free
            alone = room.empty.shortage(asked, each)
            assert alone is not None if short.is_lasting else True
            continue
        room = after


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_asked_in_whatever_order(as_alice: Actor, workspace: Workspace, seed: int) -> None:
    """Jobs of one to four of its four GPUs, arrays and tasks together, with files and without; answers get lost on the way."""
    chance, rows = random.Random(seed), list[Job]()
    credential(as_alice, workspace.project)
    claim_create(workspace.site_id, workspace.external_name, "data", gib=10)
    for _ in range(12):
        if chance.random() < 0.2:
            failure_plan(workspace.site_id, verb="job-create:start", error="lost")
        match chance.choice(
            ["submit", "submit", "visit", "visit", "end", "cancel", "again", "delete", "round", "retry"]
        ):
            case "submit":
                command = chance.choice([LONG, QUICK, ["exit 1"]])
                kind: dict[str, Any] = chance.choice(
                    [{}, MOVES, {"tasks": 3, "at_once": 2}, {"tasks": 2, "together": True, **MOVES}]
                )
                gpus = chance.randint(0, 2 if "tasks" in kind else 4)
                rows.append(submitted(as_alice, workspace, gpus=gpus, command=command, retries=1, **kind))
            case "round":
                queue_start(workspace_id=workspace.pk)
            case "end":
                SandboxPod.objects.filter(run_seconds__gt=0).update(run_seconds=0)
            case deed if rows:
                _do(as_alice, deed, chance.choice(rows), rows)
        _check(workspace)
    for row in rows:
        job_delete(actor=as_alice, job=row)
        assert settle(row, S.DELETED).holding is False
    assert not SandboxJob.objects.exists()
    assert all(each.taken == 0 for each in room_of(workspace=workspace).pools.values())


def _do(actor: Actor, deed: str, row: Job, rows: list[Job]) -> None:
    try:
        match deed:
            case "visit":
                run_now(row)
            case "cancel":
                job_cancel(actor=actor, job=row)
            case "again":
                rows.append(job_rerun(actor=actor, job=row))
            case "retry":
                job_retry(actor=actor, job=row)
            case "delete":
                job_delete(actor=actor, job=row)
    except Conflict:
        return


def _check(workspace: Workspace) -> None:
    """No more is taken than was bought, what waits was submitted after what has started of as much, and no GPU is held while files
    are moved."""
    room = room_of(workspace=workspace)
    assert all(each.taken <= each.bought for each in (*room.amounts.values(), *room.pools.values()))
    assert not Job.objects.filter(state__in=[S.QUEUED, *STAGING], holding=True).exists()
    assert not SandboxPod.objects.filter(name__regex=r"-(in|out)-[0-9]+$", gpus__gt=0).exists()
    queued = Job.objects.filter(state=S.QUEUED).order_by("created_at").first()
    if queued is not None:
        started = Job.objects.filter(created_at__gt=queued.created_at, operations__kind="create")
        assert not started.exclude(state__in=[S.DELETING, S.DELETED]).exists()
