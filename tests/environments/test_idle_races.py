"""Rounds of idleness at once, between other changes, and killed."""

import os
import signal
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from gpuaas.core import claims, clock
from gpuaas.environments import use
from gpuaas.environments.activity import Told
from gpuaas.environments.door.passes import use_note
from gpuaas.environments.models import Environment, EnvironmentUse
from gpuaas.environments.services import (
    environment_keep,
    environment_restart,
    environment_stop,
)
from gpuaas.environments.use import uses_begin
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry
from tests.environments import stage
from tests.environments.stage import START, at, homes, pods, settle, use_now
from tests.workspaces.test_races import at_once

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.mark.django_db
@pytest.mark.parametrize("what", ["door", "keep", "stopped", "restarted"])
def test_what_comes_between_the_answer_and_the_stop_wins(
    travel: time_machine.Traveller,
    unused: Environment,
    as_alice: Actor,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    """The site has said that nobody uses it; then somebody comes, and then the row is locked."""
    row = at(travel, unused, hours=3)

    def meanwhile(_row: Environment) -> Told:
        if what == "door":
            use_note([row.pk])
        elif what == "keep":
            environment_keep(actor=as_alice, environment=row, until=clock.now() + HOUR)
        elif what == "stopped":
            environment_stop(actor=as_alice, environment=row)
        else:
            environment_restart(actor=as_alice, environment=row)
        return Told(START)

    monkeypatch.setattr(use, "told_by", meanwhile)
    row = at(travel, row, hours=4)
    assert row.state == {"stopped": "suspending", "restarted": "resuming"}.get(what, "ready")
    assert row.use.stopped_at is None
    assert not AuditEntry.objects.filter(action="environment.stop", actor=SYSTEM.name).exists()


@pytest.mark.django_db(transaction=True)
def test_eight_rounds_at_once_stop_it_once(travel: time_machine.Traveller, unused: Environment) -> None:
    row = at(travel, unused, hours=3)
    travel.move_to(START + 4 * HOUR)
    EnvironmentUse.objects.update(due_at=clock.now())
    at_once(8, lambda _: use.use_look(row.pk))
    assert Environment.objects.get().state == "suspending"
    assert row.operations.filter(kind="suspend").count() == 1


BOUNDARIES = ("told_by", "_conclude", "environment_stop", "release")


def killed(row: Environment, boundary: str, when: str) -> None:
    """A worker that looks, and is killed there by SIGKILL."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        place = claims if boundary == "release" else use
        plain = getattr(place, boundary)

        def bounded(*args: Any, **named: Any) -> Any:
            if when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = plain(*args, **named)
            os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(place, boundary, bounded)
        use.use_look(row.pk)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    EnvironmentUse.objects.filter(claim_until__isnull=False).update(claim_until=clock.now())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("when", ["before", "after"])
def test_workers_that_are_killed_anywhere_stop_it_once_and_tell_it_first(
    travel: time_machine.Traveller, unused: Environment, workspace: Workspace, when: str
) -> None:
    row = unused
    for boundary in BOUNDARIES:
        if boundary != "environment_stop":
            travel.move_to(START + 3 * HOUR)
            EnvironmentUse.objects.update(due_at=clock.now(), stop_at=None)
            killed(row, boundary, when)
    row = use_now(row)
    assert (row.state, row.use.stop_at) == ("ready", START + 4 * HOUR)
    travel.move_to(START + 4 * HOUR)
    for boundary in BOUNDARIES:
        EnvironmentUse.objects.update(due_at=clock.now())
        if Environment.objects.get().state == "ready":
            killed(row, boundary, when)
    row = use_now(row)
    assert row.state == "suspending"
    row = settle(row)
    assert (row.state, pods(workspace)) == ("suspended", [])
    assert (row.operations.filter(kind="suspend").count(), len(homes(workspace))) == (1, 1)
    assert AuditEntry.objects.filter(action="environment.stop").count() == 1


@pytest.mark.django_db
def test_a_round_costs_the_same_for_many(
    travel: time_machine.Traveller, unused: Environment, as_alice: Actor, workspace: Workspace
) -> None:
    def queries() -> int:
        EnvironmentUse.objects.all().delete()
        with CaptureQueriesContext(connection) as found:
            uses_begin()
        return len(found)

    one = queries()
    for number in range(3):
        stage.row_in(workspace, f"more-{number}")
    assert (queries(), EnvironmentUse.objects.count()) == (one, 4)
