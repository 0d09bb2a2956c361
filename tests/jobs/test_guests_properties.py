"""Whoever comes and leaves, in whatever order: what is in a workspace never exceeds what it bought, and its own jobs wait for guests
no longer than these need to end."""

import random
import uuid
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.catalog.models import GpuPool, GpuType, Site
from gpuaas.core.errors import Conflict
from gpuaas.jobs.guests import Wanted, to_end
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import job_cancel, job_delete, queue_start
from gpuaas.jobs.states import JobState
from gpuaas.providers.sandbox.dials import failure_plan
from gpuaas.providers.sandbox.models import SandboxJob, SandboxPod
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import Amount, Room, room_of
from gpuaas.workspaces.services import workspace_lend
from tenants.actors import Actor
from tenants.models import Project
from tests.jobs.stage import LONG, QUICK, lender_ready, settle, submitted, visited

S = JobState
POOL = GpuPool(id=uuid.uuid4(), gpu_type=GpuType(slug="h100", name="H100"))
BOUGHT = {"gpus": 8, "vcpus": 24, "memory_gib": 80}
SIZES = st.fixed_dictionaries(
    {"gpus": st.integers(0, 4), "vcpus": st.integers(1, 12), "memory_gib": st.integers(1, 40)}
)


def room_with(taken: list[dict[str, int]]) -> Room:
    empty = Room(
        {name: Amount(BOUGHT.get(name, 0), 0) for name in ("vcpus", "memory_gib", "home_gib")},
        {POOL: Amount(BOUGHT["gpus"], 0)},
    )
    for each in taken:
        empty = empty.less(POOL, each)
    return empty


def pool_of(sizes: dict[str, int]) -> GpuPool | None:
    return POOL if sizes["gpus"] else None


def started(room: Room, wanted: list[dict[str, int]]) -> int:
    """How many leave the queue, as a round lets them."""
    count = 0
    for each in wanted:
        short = room.shortage(pool_of(each), each)
        if short is not None and not short.is_lasting:
            return count
        if short is None:
            room, count = room.less(pool_of(each), each), count + 1
    return count


@given(held=st.lists(SIZES, max_size=6), own=st.lists(SIZES, max_size=2), wanted=st.lists(SIZES, max_size=4))
def test_own_jobs_start_as_if_there_were_no_guests_and_none_leaves_in_vain(
    held: list[dict[str, int]], own: list[dict[str, int]], wanted: list[dict[str, int]]
) -> None:
    mine, guests = list[dict[str, int]](), list[Job]()
    for each in own:
        if room_with(mine).shortage(pool_of(each), each) is None:
            mine.append(each)
    for each in held:
        if room_with([*mine, *(guest.takes for guest in guests)]).shortage(pool_of(each), each) is None:
            guests.append(Job(id=uuid.uuid4(), pool=pool_of(each), **each))
    newest, asked = guests[::-1], [Wanted(pool_of(each), each) for each in wanted]
    leave = to_end(room_with([*mine, *(guest.takes for guest in guests)]), newest, asked)

    stay = [guest.takes for guest in guests if guest not in leave]
    assert started(room_with([*mine, *stay]), wanted) == started(room_with(mine), wanted)
    for back in leave:
        fewer = started(room_with([*mine, *stay, back.takes]), wanted)
        assert fewer < started(room_with(mine), wanted)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_and_leaves(
    as_alice: Actor, workspace: Workspace, project: Project, site: Site, seed: int
) -> None:
    """Two workspaces that lend to each other, or not; answers get lost on the way."""
    chance, rows = random.Random(seed), list[Job]()
    places = [workspace, lender_ready(as_alice, project, site)]
    for _ in range(14):
        if chance.random() < 0.2:
            failure_plan(site.pk, verb="job-suspend:stop", error="lost")
        place = chance.choice(places)
        match chance.choice(
            ["submit", "submit", "round", "round", "visit", "visit", "end", "cancel", "lend"]
        ):
            case "submit":
                wanted: dict[str, Any] = {
                    "gpus": chance.randint(1, 4),
                    "command": chance.choice([LONG, QUICK]),
                }
                wanted |= chance.choice([{}, {"tasks": 2, "together": True, "gpus": 1}])
                rows.append(submitted(as_alice, place, borrow=chance.random() < 0.7, **wanted))
            case "round":
                queue_start(workspace_id=place.pk)
            case "lend":
                workspace_lend(actor=as_alice, workspace=place, open_to_project=chance.random() < 0.7)
            case "end":
                SandboxPod.objects.filter(run_seconds__gt=0).update(run_seconds=0)
            case "cancel" if rows:
                _cancel(as_alice, chance.choice(rows))
            case "visit" if rows:
                visited(chance.choice(rows), runs=2)
        _check(places)
    for row in rows:
        job_delete(actor=as_alice, job=row)
        assert settle(row, S.DELETED).holding is False
    assert not SandboxJob.objects.exists()


def _cancel(actor: Actor, row: Job) -> None:
    with suppress(Conflict):
        job_cancel(actor=actor, job=row)


def _check(places: list[Workspace]) -> None:
    for place in places:
        for amount in room_of(workspace=place).pools.values():
            assert amount.taken <= amount.bought
        pods = SandboxPod.objects.filter(namespace__name=place.external_name, finished_at=None)
        assert sum(pod.gpus for pod in pods) <= 4
    for row in Job.objects.exclude(place=None):
        assert row.place_id != row.workspace_id
        assert str(row.place_id) in row.lenders
