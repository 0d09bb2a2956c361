"""An environment that nobody uses: advice, notice, a stop, and what keeps it; by a clock that stands still."""

from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.environments import use
from gpuaas.environments.door.passes import use_note
from gpuaas.environments.models import Environment, EnvironmentUse
from gpuaas.environments.services import (
    environment_idle_set,
    environment_keep,
    environment_restart,
    environment_start,
    environment_stop,
)
from gpuaas.environments.use import Seen, outlook, uses_begin
from gpuaas.gpustats.models import GpuSample
from gpuaas.providers.sandbox.dials import ALWAYS, dials_set, failure_plan, fault_set
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry
from tests.environments import stage
from tests.environments.stage import HOURS, START, at, homes, kind, pods, said, settle, use_now

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def told(row: Environment, **words: str) -> None:
    """What its Jupyter says from now on."""
    fault_set(row.site_id, area="use", name=row.external_name, found=words)


# -- the plan, pure ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("idle", "announced", "reason", "stop_at", "stop"),
    [
        (0.0, None, "Used", None, False),
        (3.9, None, "Used", None, False),
        (4.0, None, "Unused", None, False),
        (6.9, None, "Unused", None, False),
        (7.0, None, "StopsSoon", 8.0, False),
        (7.5, None, "StopsSoon", 8.5, False),
        (7.9, 8.0, "StopsSoon", 8.0, False),
        (8.0, 8.0, "StopsSoon", 8.0, True),
        # the portal stood still: told before, however late
        (50.0, None, "StopsSoon", 51.0, False),
        (60.0, 51.0, "StopsSoon", 51.0, True),
        # announced for a use before the last one
        (7.5, 5.0, "StopsSoon", 8.5, False),
    ],
)
def test_advice_then_notice_then_the_stop(
    idle: float, announced: float | None, reason: str, stop_at: float | None, stop: bool
) -> None:
    found = outlook(
        Seen(START, START),
        hours=8,
        kept_until=None,
        announced=None if announced is None else START + announced * HOUR,
        now=START + idle * HOUR,
    )
    assert (found.condition["reason"], found.stop) == (reason, stop)
    assert found.stop_at == (None if stop_at is None else START + stop_at * HOUR)


@pytest.mark.parametrize("hours", [1, 8, 720])
def test_what_is_used_or_not_known_is_never_stopped(hours: int) -> None:
    given: dict[str, Any] = {
        "hours": hours, "kept_until": None, "announced": START + hours * HOUR, "now": START + 9999 * HOUR,
    }  # fmt: skip
    for seen in (Seen(START, START, using="a kernel is busy"), Seen(START, START, unknown="away")):
        found = outlook(seen, **given)
        assert (found.stop, found.stop_at) == (False, None)
    assert outlook(Seen(START, START), **given).stop
    assert not outlook(Seen(START, START), **{**given, "hours": None}).stop


def test_one_hour_has_notice_of_a_quarter() -> None:
    found = outlook(Seen(START, START), hours=1, kept_until=None, announced=None, now=START + 45 * MINUTE)
    assert found.stop_at == START + HOUR


# -- its life ------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_it_is_told_stopped_and_comes_back_with_its_home(
    travel: time_machine.Traveller, unused: Environment, as_alice: Actor, workspace: Workspace
) -> None:
    home = homes(workspace)
    row = use_now(unused)
    assert said(row) == ("True", "Used")
    row = at(travel, row, hours=2)
    assert said(row) == ("False", "Unused")
    row = at(travel, row, hours=3)
    assert (said(row), row.use.stop_at) == (("False", "StopsSoon"), START + HOURS * HOUR)
    assert "2027-03-01 12:00 UTC" in row.conditions["InUse"]["message"]
    assert row.use.due_at is not None
    assert START + 3 * HOUR < row.use.due_at <= START + 3 * HOUR + use.LOOK
    row = at(travel, row, hours=3, minutes=59)
    assert row.state == "ready"
    row = at(travel, row, hours=4)
    assert (row.state, row.use.stopped_at, row.use.due_at) == ("suspending", START + 4 * HOUR, None)
    row = settle(row)
    assert (row.state, pods(workspace), homes(workspace)) == ("suspended", [], home)
    assert "InUse" not in row.conditions
    operation = row.operations.first()
    assert operation is not None
    assert (operation.kind, operation.requested_by) == ("suspend", SYSTEM.name)
    assert operation.summary.startswith("nothing had used it since 2027-03-01 08:00 UTC")
    entry = AuditEntry.objects.get(action="environment.stop")
    assert entry.after == {"reason": operation.summary}
    assert row.transitions.filter(new="suspending", reason=operation.summary).exists()

    environment_start(actor=as_alice, environment=row)
    row = use_now(settle(row))
    assert (row.state, row.use.stopped_at, said(row)) == ("ready", None, ("True", "Used"))
    assert homes(workspace) == home


@pytest.mark.django_db
def test_what_a_person_stops_while_it_stops_for_want_of_use_is_started_by_no_visit(
    travel: time_machine.Traveller, unused: Environment, as_alice: Actor
) -> None:
    at(travel, unused, hours=3)
    row = at(travel, unused, hours=4)
    assert (row.state, row.use.stopped_at) == ("suspending", START + 4 * HOUR)
    environment_stop(actor=as_alice, environment=row)
    assert EnvironmentUse.objects.get().stopped_at is None


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["door", "kernel", "activity"])
def test_use_puts_it_off(travel: time_machine.Traveller, unused: Environment, how: str) -> None:
    row = at(travel, unused, hours=3, minutes=30)
    assert said(row) == ("False", "StopsSoon")
    travel.move_to(START + 4.5 * HOUR)
    if how == "door":
        use_note([row.pk])
    else:
        told(row, at=(clock.now() - MINUTE).isoformat(), **({"kernel": "busy"} if how == "kernel" else {}))
    row = use_now(row)
    assert (row.state, said(row), row.use.stop_at) == ("ready", ("True", "Used"), None)
    assert clock.now() - row.use.used_at <= MINUTE


@pytest.mark.django_db
def test_a_cell_that_runs_for_days_is_not_stopped(
    travel: time_machine.Traveller, unused: Environment
) -> None:
    told(unused, at=START.isoformat(), kernel="busy")
    for day in range(1, 9):
        row = at(travel, unused, days=day)
        assert (row.state, said(row)) == ("ready", ("True", "Used"))
    told(unused, at=START.isoformat(), kernel="idle")
    row = at(travel, unused, days=8, hours=3)
    assert said(row) == ("False", "StopsSoon")


@pytest.mark.django_db
@pytest.mark.parametrize("way", ["down", "refused", "nonsense"])
def test_what_is_not_known_is_no_idleness(
    travel: time_machine.Traveller, unused: Environment, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    row = at(travel, unused, hours=3)
    if way == "down":
        dials_set(row.site_id, down=True)
    elif way == "refused":
        failure_plan(row.site_id, verb="environment-reach", error="unavailable", times=ALWAYS)
    else:
        told(row, at="yesterday")
    for hours in (4, 40, 400):
        row = at(travel, row, hours=hours)
        assert (row.state, said(row), row.use.stop_at) == ("ready", ("Unknown", "NotKnown"), None)
        assert row.use.unknown
    dials_set(row.site_id, down=False)
    failure_plan(row.site_id, verb="environment-reach", times=0)
    told(row, at=START.isoformat())
    row = use_now(row)
    # told first, though it was not used for long
    assert (row.state, row.use.stop_at, row.use.unknown) == ("ready", START + 401 * HOUR, "")
    assert at(travel, row, hours=401).state == "suspending"


@pytest.mark.django_db
def test_without_a_door_connections_are_not_known(
    travel: time_machine.Traveller, as_alice: Actor, workspace: Workspace, settings: Any
) -> None:
    kind(idle_hours=1)
    row = stage.ready(as_alice, workspace, gpus=0)
    settings.DOOR_DOMAIN = ""
    row = at(travel, row, hours=9)
    assert (said(row), row.state) == (("Unknown", "NotKnown"), "ready")
    settings.DOOR_DOMAIN = "apps.test"
    assert said(at(travel, row, hours=9)) == ("False", "StopsSoon")
    assert at(travel, row, hours=9, minutes=16).state == "suspending"


def sample(
    row: Environment, when: datetime, *, busy: float | None = 0.0, seconds: int = 60, device: int = 0
) -> None:
    GpuSample.objects.create(
        site=row.site, workspace=row.workspace, project=row.project, node="n", device=f"GPU-{device}",
        namespace=row.workspace.external_name, pod=row.external_name, at=when, seconds=seconds,
        utilization=busy,
    )  # fmt: skip


@pytest.mark.django_db
def test_gpus_at_work_are_use_and_gpus_that_nobody_sees_are_not_known(
    travel: time_machine.Traveller, as_alice: Actor, workspace: Workspace, settings: Any
) -> None:
    settings.DOOR_DOMAIN = "apps.test"
    kind(activity="jupyter", idle_hours=HOURS)
    row = stage.ready(as_alice, workspace, gpus=2)

    def gpus(hours: float, first: float | None, second: float | None = 0.0, seconds: int = 60) -> Environment:
        when = START + hours * HOUR
        sample(row, when - MINUTE, busy=first, seconds=seconds)
        sample(row, when - MINUTE, busy=second, device=1)
        return at(travel, row, hours=hours)

    assert said(at(travel, row, hours=3)) == ("Unknown", "NotKnown")
    assert said(gpus(3.5, 0.0)) == ("False", "StopsSoon")
    assert said(gpus(3.75, 4.9, 5.0)) == ("True", "Used")
    assert said(gpus(6, 0.0)) == ("False", "Unused")
    sample(row, START + 6.5 * HOUR, busy=0.0)
    assert said(at(travel, row, hours=6.5)) == ("Unknown", "NotKnown")  # of one nothing is seen
    assert gpus(7, None).use.since == START + 7 * HOUR - MINUTE
    # nobody knows what they did before they were seen again
    seen = gpus(9, 0.0, seconds=0)
    assert (said(seen), seen.use.since) == (("True", "Used"), START + 9 * HOUR - MINUTE)
    assert said(gpus(12.5, 0.0)) == ("False", "StopsSoon")
    sample(row, START + 13.5 * HOUR)
    sample(row, START + 13.5 * HOUR, device=1)
    assert at(travel, row, hours=13.5).state == "suspending"


@pytest.mark.django_db
def test_a_restart_counts_from_its_end(
    travel: time_machine.Traveller, unused: Environment, as_alice: Actor
) -> None:
    row = at(travel, unused, hours=3)
    environment_restart(actor=as_alice, environment=row)
    row = use_now(settle(row))
    assert (said(row), row.use.since) == (("True", "Used"), START + 3 * HOUR)


@pytest.mark.django_db
def test_only_what_is_ready_is_looked_at(
    travel: time_machine.Traveller, unused: Environment, as_alice: Actor
) -> None:
    environment_stop(actor=as_alice, environment=unused)
    row = at(travel, unused, hours=9)
    assert (row.state, row.use.due_at) == ("suspending", None)
    assert settle(row).state == "suspended"
    assert uses_begin() == 0
    Environment.objects.filter(pk=row.pk).update(state="ready")
    EnvironmentUse.objects.all().delete()
    assert (uses_begin(), uses_begin()) == (1, 0)
    assert EnvironmentUse.objects.get().since == START + 9 * HOUR


# -- what tenants decide -------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_it_is_kept_and_told_again(
    travel: time_machine.Traveller, unused: Environment, as_alice: Actor
) -> None:
    row = at(travel, unused, hours=3, minutes=30)
    environment_keep(actor=as_alice, environment=row, until=START + 30 * HOUR)
    row = Environment.objects.select_related("use").get(pk=row.pk)
    assert ("InUse" in row.conditions, row.use.stop_at) == (False, None)
    assert said(at(travel, row, hours=10)) == ("False", "Unused")
    row = at(travel, row, hours=29, minutes=30)
    assert row.use.stop_at == START + 30.5 * HOUR
    assert at(travel, row, hours=30, minutes=30).state == "suspending"
    assert AuditEntry.objects.filter(action="environment.keep").count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("until", [START, START - HOUR, START + 169 * HOUR, datetime(2027, 3, 2), None])  # noqa: DTZ001
def test_until_when_is_checked(
    travel: time_machine.Traveller, unused: Environment, as_alice: Actor, until: Any
) -> None:
    with pytest.raises(Invalid) as refused:
        environment_keep(actor=as_alice, environment=unused, until=until)
    assert list(refused.value.fields) == ["until"]
    assert Environment.objects.get().version == unused.version


@pytest.mark.django_db
def test_hours_are_within_the_operators(
    travel: time_machine.Traveller, unused: Environment, as_alice: Actor, workspace: Workspace
) -> None:
    row = environment_idle_set(actor=as_alice, environment=unused, idle_hours=1)
    assert environment_idle_set(actor=as_alice, environment=row, idle_hours=1).version == row.version
    row = at(travel, row, minutes=50)
    assert row.use.stop_at == START + 65 * MINUTE
    for wrong in (HOURS + 1, 0, -1, True, 10**30):
        with pytest.raises(Invalid, match="from 1 to 4, which is the most that this kind allows") as refused:
            environment_idle_set(actor=as_alice, environment=row, idle_hours=wrong)
        assert list(refused.value.fields) == ["idle_hours"]
        with pytest.raises(Invalid, match="from 1 to 4"):
            stage.ordered(as_alice, workspace, "other", idle_hours=wrong)
    row = environment_idle_set(actor=as_alice, environment=row, idle_hours=None)
    assert row.use.stop_at is None
    assert stage.ordered(as_alice, workspace, "other", gpus=0, idle_hours=2).idle_hours == 2


@pytest.mark.django_db
def test_where_the_operator_says_nothing_a_tenant_may(
    travel: time_machine.Traveller, as_alice: Actor, workspace: Workspace, settings: Any
) -> None:
    settings.DOOR_DOMAIN = "apps.test"
    row = stage.ready(as_alice, workspace, gpus=0)
    row = at(travel, row, days=300)
    assert (said(row), row.use.stop_at) == (("False", "Unused"), None)
    environment_idle_set(actor=as_alice, environment=row, idle_hours=720)
    assert use_now(row).use.stop_at == START + timedelta(days=300, hours=1)
    with pytest.raises(Invalid, match="from 1 to 720"):
        environment_idle_set(actor=as_alice, environment=row, idle_hours=721)


@pytest.mark.django_db
def test_others_decide_nothing(
    travel: time_machine.Traveller, unused: Environment, as_bob: Actor, as_charlie: Actor, as_alice: Actor
) -> None:
    for actor, error in ((as_charlie, NotFound), (as_bob, Forbidden)):
        with pytest.raises(error):
            environment_keep(actor=actor, environment=unused, until=START + HOUR)
        with pytest.raises(error):
            environment_idle_set(actor=actor, environment=unused, idle_hours=1)
    environment_stop(actor=as_alice, environment=unused)
    with pytest.raises(Conflict):
        environment_keep(actor=as_alice, environment=unused, until=START + HOUR)
