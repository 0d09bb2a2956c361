"""What a key does at an environment that does not run: one that was stopped for want of use starts, once, and no other."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.connections import in_thread
from gpuaas.environments.door import base, waking
from gpuaas.environments.door.desk import Asked, Desk
from gpuaas.environments.door.pages import Answer, Asleep
from gpuaas.environments.door.passes import Admission, Verdict, admissions_by_key, key_use
from gpuaas.environments.models import DoorKey, DoorPass, Environment, EnvironmentUse
from gpuaas.environments.services import (
    environment_delete,
    environment_start,
    environment_stop,
    key_create,
    key_revoke,
)
from gpuaas.environments.services.access import hashed
from gpuaas.providers.sandbox.dials import failure_plan
from gpuaas.providers.sandbox.pods import pod_create, pod_delete
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_delete, workspace_suspend
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry
from tests.environments import stage
from tests.lab.fixtures import until
from tests.lasting import lasting
from tests.workspaces.machines.test_races import waiting
from tests.workspaces.test_races import at_once

MANY = 100
NOBODYS = f"gpk_{'0' * 12}_{'x' * 43}"


@pytest.fixture
@lasting
def notebook(as_alice: Actor, workspace: Workspace) -> Environment:
    """With GPUs, public with a key, and stopped for want of use."""
    stage.kind(access=["public"])
    row = stage.ready(as_alice, workspace, gpus=2)
    row = stage.settle(environment_stop(actor=SYSTEM, environment=row))
    EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=clock.now())
    return row


@pytest.fixture
@lasting
def key(as_alice: Actor, notebook: Environment) -> str:
    return key_create(actor=as_alice, environment=notebook, name="ci")[1]


def shown(row: Environment) -> Admission:
    """Its key, as the door knows it."""
    (found,) = admissions_by_key(DoorKey.objects.filter(environment=row))
    assert found.verdict is Verdict.ASLEEP
    return found


def starts(row: Environment) -> int:
    return row.operations.filter(kind="resume").count()


def bodies(found: list[Answer]) -> list[Any]:
    return [json.loads(each.body)["error"]["code"] for each in found if each.status == 503]


async def _find(label: str, secret: str, by_key: bool, client: str | None) -> Admission | None:
    return await in_thread(base.entered, label, secret, by_key=by_key)


def answers(row: Environment, key: str, count: int) -> list[Answer]:
    """Of one door that has just started, to so many requests at the same moment."""
    questions = _find, base.exchange, base.pass_by_key, base.wake, base.good_keys
    desk = Desk("apps.test", "https://portal.test", *questions)
    desk.rate.seconds_to_wait = lambda *_, **__: 0.0  # type: ignore[method-assign]
    headers = {"authorization": f"Bearer {key}", "x-forwarded-for": "192.0.2.1"}
    asked = Asked("POST", f"{row.label}.apps.test", "/v1/chat/completions", "", headers, for_page=True)

    async def all_of_them() -> list[Answer]:
        return list(await asyncio.gather(*(desk.answer(asked) for _ in range(count))))

    return asyncio.run(all_of_them())


@pytest.mark.django_db(transaction=True)
def test_a_hundred_requests_at_once_start_it_once(notebook: Environment, key: str) -> None:
    found = answers(notebook, key, MANY)
    assert bodies(found) == ["starting"] * MANY
    assert {dict(each.headers)["retry-after"] for each in found} == {"10"}
    row = Environment.objects.get()
    assert (row.state, starts(row), row.use.stopped_at) == ("resuming", 1, None)
    operation = row.operations.get(kind="resume")
    assert operation.requested_by == "holder of a key"
    entry = AuditEntry.objects.get(action="environment.start")
    prefix, client = DoorKey.objects.get().prefix, "192.0.2.1"
    assert (entry.actor, entry.actor_id, entry.token_prefix, entry.ip) == (
        "holder of a key", None, prefix, client,
    )  # fmt: skip
    assert bodies(answers(notebook, key, 1)) == ["starting"]
    assert stage.settle(row).state == "ready"
    assert [each.status for each in answers(notebook, key, 1)] == [503], "Envoy is about to learn it"
    assert bodies(answers(notebook, NOBODYS, 3)) == []
    assert {each.status for each in answers(notebook, NOBODYS, 3)} == {401}


@pytest.mark.django_db(transaction=True)
def test_many_doors_at_once_start_it_once(notebook: Environment, key: str) -> None:
    found, answered = shown(notebook), list[Asleep]()
    assert at_once(64, lambda _: answered.append(waking.woken(found))) == {"done": 64}
    assert set(answered) == {waking.STARTING}
    assert (Environment.objects.get().state, starts(notebook)) == ("resuming", 1)
    assert AuditEntry.objects.filter(action="environment.start").count() == 1


@pytest.mark.django_db
def test_without_a_valid_key_nothing_starts(notebook: Environment, key: str, as_alice: Actor) -> None:
    for wrong in (NOBODYS, key[:-1] + ("x" if key[-1] != "x" else "y")):
        assert base.entered(notebook.label or "", hashed(wrong), by_key=True) is None
        assert key_use(label=notebook.label or "", key=wrong) is None
    other = stage.row_in(notebook.workspace, "other", access="public")
    assert base.entered(other.label or "", hashed(key), by_key=True) is None
    found = shown(notebook)
    key_revoke(actor=as_alice, key=DoorKey.objects.get(name="ci"))
    assert waking.woken(found) == waking.STOPPED
    assert (Environment.objects.get(pk=notebook.pk).state, starts(notebook)) == ("suspended", 0)


@pytest.mark.django_db
def test_by_a_pass_for_its_key_too(notebook: Environment, key: str) -> None:
    assert key_use(label=notebook.label or "", key=key)
    found = base.entered(notebook.label or "", DoorPass.objects.get().cookie or "", by_key=False)
    assert found is not None
    assert (found.verdict, waking.woken(found)) == (Verdict.ASLEEP, waking.STARTING)
    assert starts(notebook) == 1


def by_a_person(row: Environment, actor: Actor) -> None:
    environment_stop(actor=actor, environment=row)


def full(row: Environment, actor: Actor) -> None:
    stage.ready(actor, row.workspace, "other", gpus=4)


def asleep(row: Environment, actor: Actor) -> None:
    workspace_suspend(actor=actor, workspace=row.workspace)


def over(row: Environment, actor: Actor) -> None:
    Workspace.objects.filter(pk=row.workspace_id).update(lease_ends_at=clock.now())


def deleted(row: Environment, actor: Actor) -> None:
    environment_delete(actor=actor, environment=row)


def failed(row: Environment, actor: Actor) -> None:
    environment_start(actor=actor, environment=row)
    Environment.objects.filter(pk=row.pk).update(state="failed", failure="no node of ber-1 has it")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("before", "why"),
    [
        (by_a_person, waking.STOPPED),
        (full, waking.NO_ROOM),
        (asleep, waking.NOT_NOW),
        (over, waking.NOT_NOW),
        (deleted, waking.GONE),
        (failed, waking.FAILED),
    ],
)
def test_what_cannot_start_says_why_and_nothing_else(
    notebook: Environment,
    key: str,
    as_alice: Actor,
    before: Callable[[Environment, Actor], None],
    why: Asleep,
) -> None:
    found = shown(notebook)
    before(notebook, as_alice)
    starts_before, state = starts(notebook), Environment.objects.get(pk=notebook.pk).state
    assert waking.woken(found) == why
    assert (starts(notebook), Environment.objects.get(pk=notebook.pk).state) == (starts_before, state)
    for secret in (
        notebook.name,
        notebook.workspace.name,
        "alice",
        "ber-1",
        "H100",
        notebook.workspace.project.slug,
    ):
        assert secret not in why.words
    assert not any(letter.isdigit() for letter in why.words)


@pytest.mark.django_db
def test_while_it_is_being_stopped_it_is_to_be_asked_again(as_alice: Actor, workspace: Workspace) -> None:
    stage.kind(access=["public"])
    row = stage.ready(as_alice, workspace, gpus=0)
    key_create(actor=as_alice, environment=row, name="ci")
    environment_stop(actor=SYSTEM, environment=row)
    assert waking.woken(shown(row)) == waking.STOPPED
    EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=clock.now())
    assert waking.woken(shown(row)) == waking.STARTING
    assert (stage.settle(row).state, starts(row)) == ("suspended", 0)
    assert waking.woken(shown(row)) == waking.STARTING
    assert (stage.settle(row).state, starts(row)) == ("ready", 1)


@pytest.mark.django_db
def test_where_members_own_pods_hold_its_room_it_sleeps_on_and_is_tried_again_each_minute(
    notebook: Environment, key: str
) -> None:
    found, place = shown(notebook), (notebook.workspace.site_id, notebook.workspace.external_name)
    pod_create(*place, "train", 4)
    assert waking.woken(found) == waking.STARTING
    row = stage.run_now(notebook)
    while row.state == "resuming":
        row = stage.run_now(row)
    assert (row.state, waking.woken(found)) == ("suspending", waking.NO_ROOM)
    row = stage.settle(row)
    assert (row.state, row.failure, waking.woken(found), starts(row)) == (
        "suspended", "", waking.NO_ROOM, 1,
    )  # fmt: skip
    assert "exceeded quota" in row.conditions["Room"]["message"]
    with time_machine.travel(clock.now() + timedelta(seconds=waking.NO_ROOM.seconds)):
        assert (waking.woken(found), stage.settle(notebook).state) == (waking.STARTING, "suspended")
    pod_delete(*place, "train")
    with time_machine.travel(clock.now() + timedelta(seconds=2 * waking.NO_ROOM.seconds + 5)):
        assert waking.woken(found) == waking.STARTING
        row = stage.settle(notebook)
        assert (row.state, starts(row), "Room" in row.conditions) == ("ready", 3, False)


@pytest.mark.django_db
@pytest.mark.parametrize("who", ["a person", "another refusal"])
def test_what_a_person_has_started_or_the_site_refuses_otherwise_fails(
    notebook: Environment, key: str, as_alice: Actor, who: str
) -> None:
    found, site = shown(notebook), notebook.workspace.site_id
    if who == "a person":
        pod_create(site, notebook.workspace.external_name, "train", 4)
        environment_start(actor=as_alice, environment=notebook)
    else:
        failure_plan(site, verb="environment-resume:start", error="permanent", times=3)
        assert waking.woken(found) == waking.STARTING
    assert (stage.settle(notebook).state, waking.woken(found)) == ("failed", waking.FAILED)


@pytest.mark.django_db(transaction=True)
def test_one_whose_workspace_is_deleted_until_it_is_locked_is_gone(
    notebook: Environment, key: str, as_alice: Actor
) -> None:
    found, answered = shown(notebook), list[Asleep]()
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        Workspace.objects.select_for_update().get(pk=notebook.workspace_id)
        pool.submit(at_once, 1, lambda _: answered.append(waking.woken(found)))
        until(waiting, "the start waits for the workspace")
        workspace_delete(actor=as_alice, workspace=notebook.workspace)
    assert (answered, starts(notebook)) == ([waking.GONE], 0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", ["stopped", "revoked", "private"])
def test_what_a_person_does_until_the_row_is_locked_wins(
    notebook: Environment, key: str, as_alice: Actor, what: str
) -> None:
    found, answered = shown(notebook), list[Asleep]()
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        Environment.objects.select_for_update().get(pk=notebook.pk)
        pool.submit(at_once, 1, lambda _: answered.append(waking.woken(found)))
        until(waiting, "the start waits for the row")
        if what == "stopped":
            environment_stop(actor=as_alice, environment=notebook)
        elif what == "revoked":
            key_revoke(actor=as_alice, key=DoorKey.objects.get())
        else:
            Environment.objects.filter(pk=notebook.pk).update(access="workspace")
    assert answered == [waking.STOPPED]
    assert (Environment.objects.get().state, starts(notebook)) == ("suspended", 0)
