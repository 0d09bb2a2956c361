"""Priorities: what leaves the queue first, changed while it waits; and by when a job starts, as far as deadlines tell."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
import time_machine
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleVersion
from gpuaas.jobs import outlook
from gpuaas.jobs.models import Job
from gpuaas.jobs.outlook import starts_by, turns_of
from gpuaas.jobs.selectors import position_of, queued_in
from gpuaas.jobs.services import job_cancel, job_prioritize, job_rerun, queue_start
from gpuaas.jobs.services.queue import BEHIND
from gpuaas.jobs.states import JobState, Priority
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry
from tests.environments import stage as environments
from tests.jobs.stage import fresh, row_in, running, submitted
from tests.metering.stage import utc

pytestmark = pytest.mark.django_db
BEGIN, MINUTE = utc("2027-03-01 08:00:00"), timedelta(minutes=1)


def names(workspace: Workspace) -> list[str]:
    return [row.name for row in queued_in(workspace)]


def test_a_higher_priority_is_first_and_the_first_keeps_the_others_waiting(
    as_alice: Actor, workspace: Workspace
) -> None:
    running(as_alice, workspace, gpus=3)
    low = submitted(as_alice, workspace, "low", gpus=1, priority="low")
    usual = submitted(as_alice, workspace, "usual", gpus=1)
    high = submitted(as_alice, workspace, "high", gpus=2, priority="high")
    assert names(workspace) == ["high", "usual", "low"]
    assert [position_of(row) for row in (low, usual, high)] == [3, 2, 1]
    assert queue_start(workspace_id=workspace.pk) == 0
    assert fresh(high).waiting == "waits for 2 H100 SXM 80 GB: 1 of 4 is free"
    assert [fresh(row).waiting for row in (low, usual)] == [BEHIND, BEHIND]
    job_cancel(actor=as_alice, job=high)
    assert queue_start(workspace_id=workspace.pk) == 1
    assert [fresh(row).state for row in (usual, low)] == ["provisioning", "requested"]


def test_it_is_changed_while_it_waits(as_alice: Actor, workspace: Workspace) -> None:
    running(as_alice, workspace, gpus=4)
    first, second = (submitted(as_alice, workspace, name, gpus=1) for name in ("first", "second"))
    before = fresh(second).version
    changed = job_prioritize(actor=as_alice, job=second, priority="high", expected_version=before)
    assert (names(workspace), changed.version) == (["second", "first"], before + 1)
    assert job_prioritize(actor=as_alice, job=second, priority="high").version == before + 1
    entry = AuditEntry.objects.get(action="job.prioritize")
    assert (entry.before, entry.after) == ({"priority": "normal"}, {"priority": "high"})
    with pytest.raises(StaleVersion):
        job_prioritize(actor=as_alice, job=second, priority="low", expected_version=before)
    job_prioritize(actor=as_alice, job=first, priority="high")
    assert names(workspace) == ["first", "second"]  # of one priority, by submission


@pytest.mark.parametrize("wrong", ["urgent", "", "HIGH", 1, None, ["high"]])
def test_there_are_three(as_alice: Actor, workspace: Workspace, wrong: object) -> None:
    row = submitted(as_alice, workspace)
    words = {"priority": ["choose one of high, normal, low"]}
    with pytest.raises(Invalid) as refused:
        job_prioritize(actor=as_alice, job=row, priority=wrong)  # type: ignore[arg-type]
    assert refused.value.fields == words
    with pytest.raises(Invalid) as refused:
        submitted(as_alice, workspace, "other", priority=wrong)
    assert refused.value.fields == words


def test_what_has_left_the_queue_has_no_turn(
    as_alice: Actor, as_charlie: Actor, as_bob: Actor, workspace: Workspace
) -> None:
    row = running(as_alice, workspace)
    with pytest.raises(Conflict):
        job_prioritize(actor=as_alice, job=row, priority="high")
    waits = submitted(as_alice, workspace, "waits")
    for outsider in (as_charlie, as_bob):  # bob is of the project, and no member of the workspace
        with pytest.raises((NotFound, Forbidden)):
            job_prioritize(actor=outsider, job=waits, priority="high")
    assert fresh(waits).priority == "normal"


def test_a_repetition_keeps_it(as_alice: Actor, workspace: Workspace) -> None:
    row = submitted(as_alice, workspace, priority="low")
    assert job_rerun(actor=as_alice, job=row).priority == "low"
    assert job_rerun(actor=as_alice, job=row, priority="high").priority == "high"


def test_places_are_the_order_of_the_queue(workspace: Workspace) -> None:
    """Also where several were submitted in one moment."""
    for number, (priority, minutes, _) in enumerate(product(reversed(Priority), (1, 0), range(2))):
        row = row_in(workspace, f"j-{number}", priority=priority)
        Job.objects.filter(pk=row.pk).update(created_at=BEGIN + minutes * MINUTE)
    found = list(queued_in(workspace))
    assert [position_of(row) for row in found] == list(range(1, 13))
    keys = [(list(Priority).index(Priority(row.priority)), row.created_at, row.pk) for row in found]
    assert keys == sorted(keys)


# -- by when it starts ---------------------------------------------------------------------------------------------


@pytest.fixture
def at(workspace: Workspace) -> Iterator[time_machine.Traveller]:
    with time_machine.travel(BEGIN, tick=False) as traveller:
        yield traveller


def waits(workspace: Workspace, name: str, *, gpus: int = 1, hours: int | None = None, **more: Any) -> Job:
    """hours: until its deadline, from its start."""
    pool = WorkspaceFlavor.objects.get(workspace=workspace).flavor.pool
    deadline = hours * 3600 if hours is not None else None
    row = row_in(workspace, name, pool=pool, gpus=gpus, deadline_seconds=deadline, **more)
    row.created_at += timedelta(microseconds=Job.objects.count())  # time stands still
    row.save(update_fields=["created_at"])
    return row


def runs(workspace: Workspace, name: str, *, minutes: int = 0, **more: Any) -> Job:
    """minutes: since it began to run."""
    since = clock.now() - minutes * MINUTE
    return waits(workspace, name, state=JobState.RUNNING, holding=True, ready_at=since, **more)


@pytest.mark.usefixtures("at")
def test_it_starts_when_enough_of_what_runs_has_met_its_deadline(workspace: Workspace) -> None:
    runs(workspace, "a", gpus=2, hours=2, minutes=30)
    runs(workspace, "b", gpus=2, hours=1)
    first, second, third = (waits(workspace, f"n-{count}", gpus=count, hours=4) for count in (1, 2, 4))
    assert starts_by(first) == BEGIN + timedelta(hours=1)
    assert starts_by(second) == BEGIN + timedelta(hours=1, minutes=30)
    assert starts_by(third) == BEGIN + timedelta(hours=5, minutes=30)
    job_prioritize(actor=SYSTEM, job=third, priority="high")
    assert starts_by(fresh(third)) == BEGIN + timedelta(hours=1, minutes=30)
    assert starts_by(first) == BEGIN + timedelta(hours=5, minutes=30)


def test_a_part_of_a_minute_is_a_minute(at: time_machine.Traveller, workspace: Workspace) -> None:
    row = waits(workspace, "free")
    assert starts_by(row) == BEGIN
    at.shift(1)
    assert starts_by(row) == BEGIN + MINUTE


@pytest.mark.usefixtures("at")
def test_without_a_deadline_nothing_tells(as_alice: Actor, workspace: Workspace) -> None:
    runs(workspace, "endless", gpus=2)
    fits, needs = waits(workspace, "fits", gpus=2), waits(workspace, "needs", gpus=1)
    assert (starts_by(fits), starts_by(needs)) == (BEGIN, None)
    assert starts_by(runs(workspace, "runs", hours=1)) is None


def test_environments_stay(as_alice: Actor, workspace: Workspace) -> None:
    environments.ready(as_alice, workspace, gpus=3)
    assert starts_by(waits(workspace, "big", gpus=2)) is None


@pytest.mark.usefixtures("at")
def test_what_never_starts_is_waited_for_by_nobody(workspace: Workspace) -> None:
    never, row = waits(workspace, "never", gpus=5), waits(workspace, "row")
    assert (starts_by(never), starts_by(row)) == (None, BEGIN)


@pytest.mark.usefixtures("at")
def test_nothing_is_foretold_while_the_workspace_starts_none(workspace: Workspace) -> None:
    """It keeps what it bought where an operation of it has failed; its queue waits until that is retried."""
    row = waits(workspace, "row")
    Workspace.objects.filter(pk=workspace.pk).update(state="failed")
    assert starts_by(fresh(row)) is None
    failed = Workspace.objects.select_related("project").get(pk=workspace.pk)
    assert [(turn.row, turn.starts_by) for turn in turns_of(failed)] == [(row, None)]


@pytest.mark.usefixtures("at")
def test_what_is_ending_is_as_good_as_gone(workspace: Workspace) -> None:
    waits(workspace, "ending", gpus=4, state=JobState.ENDING, holding=True)
    assert starts_by(waits(workspace, "row", gpus=4)) == BEGIN


@pytest.mark.usefixtures("at")
def test_so_many_before_it_are_not_gone_through(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    monkeypatch.setattr(outlook, "AHEAD_MOST", 2)
    rows = [waits(workspace, f"n-{number}", hours=1) for number in range(4)]
    with django_assert_max_num_queries(14):
        assert [starts_by(row) is not None for row in rows[2:]] == [True, False]
    assert [turn.starts_by is not None for turn in turns_of(workspace)] == [True, True, True, False]


def test_what_has_left_the_queue_and_waits_at_its_site_is_before_it(workspace: Workspace) -> None:
    words = "couldn't assign flavors to pod set main: insufficient unused quota"
    row_in(workspace, "admitted", state=JobState.STARTING, holding=True)
    row_in(workspace, "at-site", state=JobState.STARTING, holding=True, waiting=words)
    row_in(workspace, "queued")
    turns = turns_of(workspace)
    assert [(turn.row.name, turn.position) for turn in turns] == [("at-site", None), ("queued", 1)]
    assert (turns[0].row.waiting, turns[0].starts_by) == (words, None)


JOBS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from(Priority)), min_size=1, max_size=6
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(orders=JOBS, taken=st.integers(0, 4))
def test_where_all_run_to_their_deadlines_each_starts_when_it_was_foretold(
    workspace: Workspace, orders: list[tuple[int, int, str]], taken: int
) -> None:
    """By the queue itself, whose round follows each end."""
    with transaction.atomic(), time_machine.travel(BEGIN, tick=False) as traveller:
        if taken:
            runs(workspace, "first", gpus=taken, hours=1)
        rows = [
            waits(workspace, f"n-{number}", gpus=gpus, hours=hours, priority=priority)
            for number, (gpus, hours, priority) in enumerate(orders)
        ]
        foretold = {row.pk: starts_by(row) for row in rows}
        turns = turns_of(workspace)
        assert {turn.row.pk: turn.starts_by for turn in turns} == foretold
        assert [turn.position for turn in turns] == [position_of(turn.row) for turn in turns]
        started: dict[Any, datetime] = {}
        while len(started) < len(rows):
            queue_start(workspace_id=workspace.pk)
            for row in Job.objects.filter(workspace=workspace, state=JobState.STARTING, ready_at=None):
                started[row.pk] = clock.now()
                Job.objects.filter(pk=row.pk).update(ready_at=clock.now())
            held = list(Job.objects.filter(workspace=workspace, holding=True))
            ends = {
                row.pk: row.ready_at + timedelta(seconds=row.deadline_seconds or 0)
                for row in held
                if row.ready_at
            }
            traveller.move_to(first := min(ends.values()))
            ended = [key for key, at in ends.items() if at == first]
            Job.objects.filter(pk__in=ended).update(state=JobState.SUCCEEDED, holding=False)
        transaction.set_rollback(True)
    assert started == foretold
