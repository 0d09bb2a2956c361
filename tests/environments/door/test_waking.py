"""A model endpoint that was stopped for want of use, and programs that ask for it with a key, on a real Envoy."""

import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import pytest

from gpuaas.core import clock
from gpuaas.environments.models import DoorKey, Environment, EnvironmentUse
from gpuaas.environments.services import environment_stop, key_create
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry
from tests.environments import stage
from tests.environments.door.stage import Answer, Here, Running, host_of
from tests.environments.door.test_policies import by_form
from tests.lab.fixtures import until

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 100
ASKED = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 300_000}]})


@pytest.fixture
def notebook(as_alice: Actor, workspace: Workspace) -> Environment:
    stage.kind(access=["public"])
    return stage.ready(as_alice, workspace, gpus=0)


@pytest.fixture
def key(as_alice: Actor, notebook: Environment) -> str:
    return key_create(actor=as_alice, environment=notebook, name="ci")[1]


def stopped(door: Running, row: Environment, *, for_want_of_use: bool) -> None:
    """Until Envoy has ended the connections of the way that there was: those who come in between are cut off."""
    moment = clock.now() if for_want_of_use else None
    with closing(Here(host_of(row), door.port)) as kept:
        kept.connect()
        stage.settle(environment_stop(actor=SYSTEM, environment=row))
        EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=moment)
        with suppress(ConnectionError, ssl.SSLEOFError):
            assert kept.sock.recv(1) == b""


def asks(door: Running, host: str, key: str) -> Answer:
    sent: dict[str, Any] = {"Authorization": f"Bearer {key}", "Content_Type": "application/json"}
    return door.visitor().ask(host, "/v1/chat/completions", "POST", ASKED, **sent)


def code(answer: Answer) -> str:
    assert (answer.status, answer.headers["content-type"]) == (503, "application/json"), answer
    return str(json.loads(answer.text)["error"]["code"])


def test_a_hundred_programs_start_it_once_and_are_served(
    door: Running, host: str, notebook: Environment, key: str
) -> None:
    assert asks(door, host, key).status == 200
    stopped(door, notebook, for_want_of_use=True)
    with ThreadPoolExecutor(MANY) as pool:
        found = list(pool.map(lambda _: asks(door, host, key), range(MANY)))
    waits = [each for each in found if each.status == 503]
    assert {code(each) for each in waits} == {"starting"}
    # of a key that a door does not know yet it looks up only so many at once
    assert {each.status for each in found if each.status != 503} <= {429}
    assert all(0 < int(each.headers["retry-after"]) <= 60 for each in found)
    assert (Environment.objects.get().state, notebook.operations.filter(kind="resume").count()) == (
        "resuming",
        1,
    )
    entry = AuditEntry.objects.get(action="environment.start")
    assert (entry.actor, entry.token_prefix) == ("holder of a key", DoorKey.objects.get().prefix)
    assert entry.ip
    assert stage.settle(notebook).state == "ready"
    until(lambda: asks(door, host, key).status == 200, "it answers")


def test_without_a_key_and_what_a_person_has_stopped(
    door: Running, host: str, notebook: Environment, key: str
) -> None:
    person = by_form(door, host, key)
    stopped(door, notebook, for_want_of_use=True)
    wrong = f"gpk_{'0' * 12}_{'x' * 43}"
    assert [asks(door, host, each).status for each in (wrong, key + "x", "sk-none")] == [401] * 3
    assert door.visitor().ask(host, "/v1/models").status == 401
    assert Environment.objects.get().state == "suspended"
    EnvironmentUse.objects.update(stopped_at=None)
    answer = asks(door, host, key)
    assert (code(answer), answer.headers["x-should-retry"]) == ("stopped", "false")
    assert "retry-after" not in answer.headers
    EnvironmentUse.objects.update(stopped_at=clock.now())
    assert person.ask(host, "/v1/models").status == 503
    assert Environment.objects.get().state == "suspended", "nobody looks at it"
    until(lambda: "Starting" in person.page(host).text, "a page that somebody looks at starts it")
    assert Environment.objects.get().state == "resuming"
