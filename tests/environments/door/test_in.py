"""Who comes in by the door, and who does not."""

import secrets
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from gpuaas.environments.door import process
from gpuaas.environments.door.desk import PASS, WAY
from gpuaas.environments.models import DoorPass, Environment, EnvironmentUse
from gpuaas.environments.services import environment_stop
from gpuaas.workspaces.services.members import member_remove
from tenants.actors import SYSTEM, Actor
from tenants.models import User
from tenants.services import user_deactivate
from tests.environments import stage
from tests.environments.door.stage import Running, Visitor, host_of
from tests.frontend.markup import flat
from tests.lab.fixtures import until

pytestmark = pytest.mark.django_db(transaction=True)
CUT_SECONDS = 5.0


def ticket_of(visitor: Visitor, host: str) -> str:
    """Where the portal leads to."""
    there = urlsplit(visitor.page(host, "/tree?folder=work").location)
    return str(visitor.portal.get(f"{there.path}?{there.query}").headers["Location"])


def is_cut(socket: ClientConnection) -> float:
    """After how many seconds it is ended."""
    began = time.monotonic()
    with pytest.raises((ConnectionClosed, OSError)):
        socket.recv(timeout=20)
    return time.monotonic() - began


def test_members_come_in_signed_in_by_the_portal(
    door: Running, host: str, alice: User, bob: User, notebook: Environment
) -> None:
    for user in (alice, bob):
        visitor = door.visitor(user)
        answer = visitor.opens(host, "/tree?folder=work")
        assert answer.status == 200, answer
        assert "GET /tree?folder=work" in answer.text
        again = visitor.ask(host, "/api", "POST", "{}", cookie="theme=dark; lang=en").asked
        headers = dict(again["headers"])
        assert (again["method"], headers["x-gpuaas-user"]) == ("POST", user.username)
        assert headers["cookie"] == "theme=dark; lang=en"
    until(lambda: Environment.objects.get(pk=notebook.pk).last_used_at, "its use is noted")


def test_no_worker_of_a_pod_serves_the_whole_host(door: Running, host: str, alice: User) -> None:
    visitor, worker = door.visitor(alice), {"Service-Worker": "script"}
    assert visitor.opens(host).status == 200
    assert [visitor.ask(host, path, **worker).status for path in ("/sw.js", "/lab/sw.js")] == [403, 200]


def test_nobody_is_sent_to_sign_in_and_nothing_else_says_that_it_exists(door: Running, host: str) -> None:
    guessed = f"{secrets.token_hex(16)}.{host.partition('.')[2]}"
    found = [door.visitor().opens(name) for name in (host, guessed)]
    assert [answer.status for answer in found] == [200, 200]
    assert all("/accounts/login/" in answer.text for answer in found)
    for name in (host, guessed):
        asked = door.visitor().ask(name, "/api", Accept="application/json")
        assert (asked.status, asked.cookies) == (401, [])


def test_an_outsider_finds_nothing(door: Running, host: str, charlie: User) -> None:
    guessed = f"{secrets.token_hex(16)}.{host.partition('.')[2]}"
    for name in (host, guessed):
        assert door.visitor(charlie).opens(name).status == 404
    assert not DoorPass.objects.exists()


def test_a_viewer_is_told_why(door: Running, host: str, bob: User, notebook: Environment) -> None:
    member_remove(actor=SYSTEM, workspace=notebook.workspace, username=bob.username)
    answer = door.visitor(bob).opens(host)
    assert answer.status == 403
    assert "ou are not a member of this workspace" in flat(answer.text)


def test_a_ticket_works_once_in_its_browser_at_its_host(
    door: Running, host: str, alice: User, as_alice: Actor, notebook: Environment
) -> None:
    other = host_of(stage.ready(as_alice, notebook.workspace, "other", gpus=0))
    visitor = door.visitor(alice)
    stolen, wrong, used = (ticket_of(visitor, host) for _ in range(3))
    thief = door.visitor()
    thief.page(host)  # so that it has a secret of its own
    assert thief.follows(host, stolen).status == 403
    there = urlsplit(wrong)
    visitor.cookies[other] = {WAY: visitor.cookies[host][WAY]}
    assert visitor.page(other, f"{there.path}?{there.query}").status == 403
    first = visitor.follows(host, used)
    assert (first.status, first.location) == (303, "/tree?folder=work")
    line = next(line for line in first.cookies if line.startswith(PASS))
    assert line.endswith("; Path=/; Secure; HttpOnly; SameSite=Lax")
    assert visitor.follows(host, used).status == 403
    # in the same browser another ticket still works: two windows may be on their way
    assert visitor.follows(host, stolen).status == 303


def test_an_old_ticket_does_not_work(door: Running, host: str, alice: User) -> None:
    visitor = door.visitor(alice)
    ticket = ticket_of(visitor, host)
    row = DoorPass.objects.get()
    DoorPass.objects.update(
        created_at=row.created_at - 2 * (row.created_at - row.created_at.replace(microsecond=0))
    )
    DoorPass.objects.update(created_at=row.created_at.replace(year=row.created_at.year - 1))
    assert visitor.follows(host, ticket).status == 403
    assert parse_qs(urlsplit(ticket).query)["ticket"][0] not in str(DoorPass.objects.values())


def test_a_pass_is_of_one_host(
    door: Running, host: str, alice: User, as_alice: Actor, notebook: Environment
) -> None:
    other = host_of(stage.ready(as_alice, notebook.workspace, "other", gpus=0))
    visitor = door.visitor(alice)
    visitor.opens(host)
    visitor.cookies[other] = dict(visitor.cookies[host])
    until(lambda: other.partition(".")[0] in door.door.ways, "the door knows the other one")
    assert visitor.ask(other, "/api").status == 401
    assert visitor.ask(host, "/api", Host=other).status == 404  # by the connection of one to the other


def test_a_connection_that_stays_open_is_use_and_one_that_is_kept_is_none(
    door: Running, host: str, alice: User, notebook: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is said on it, and nobody asks for anything else."""
    monkeypatch.setattr(process, "OPEN_SECONDS", 0.0)
    visitor = door.visitor(alice)
    assert visitor.opens(host).status == 200

    def forget() -> None:
        Environment.objects.filter(pk=notebook.pk).update(last_used_at=None)

    def is_used() -> bool:
        return Environment.objects.get(pk=notebook.pk).last_used_at is not None

    rounds: list[set[str]] = []
    counted = door.door._open

    async def counts() -> set[str]:
        rounds.append(await counted())
        return rounds[-1]

    monkeypatch.setattr(door.door, "_open", counts)
    with visitor.socket(host) as socket:
        socket.send("hello")
        assert socket.recv(timeout=10) == "hello"
        until(lambda: rounds and rounds[-1] == {notebook.label}, "it is counted")
        for _ in range(2):
            forget()
            until(is_used, "that it stays open is noted")
    until(lambda: rounds[-1] == set(), "nothing is open")
    # Envoy keeps the connection to the pod
    for _ in range(3):
        forget()
        assert visitor.ask(host, "/api").status == 200
        until(is_used, "a request is use, whatever the door still knows of the pass")
    until(lambda: rounds[-1] == set() and not door.door.desk.used, "nothing is under way")
    forget()
    seen = len(rounds)
    until(lambda: len(rounds) >= seen + 2, "it was counted twice more")
    assert not is_used()


def test_opening_one_that_was_stopped_for_want_of_use_starts_it(
    door: Running, host: str, alice: User, notebook: Environment
) -> None:
    EnvironmentUse.objects.filter(pk=notebook.pk).update(stopped_at=notebook.created_at)
    environment_stop(actor=SYSTEM, environment=notebook)
    visitor = door.visitor(alice)
    until(lambda: host.partition(".")[0] not in door.door.ways, "the door knows that it is stopped")
    waiting = visitor.opens(host, "/tree?folder=work")
    assert (waiting.status, "Opening lab" in waiting.text) == (200, True)
    assert stage.settle(notebook).state == "suspended"
    waiting = visitor.opens(host, "/tree?folder=work")
    assert (waiting.status, "Opening lab" in waiting.text) == (200, True)
    assert stage.settle(notebook).state == "ready"
    until(lambda: host.partition(".")[0] in door.door.ways, "the door knows that it runs")
    answer = visitor.opens(host, "/tree?folder=work")
    assert (answer.status, "GET /tree?folder=work" in answer.text) == (200, True)


@pytest.mark.parametrize("way", ["member", "account", "signed out", "stopped"])
def test_who_may_no_longer_stay_is_cut_off(
    door: Running, host: str, way: str, as_olga: Actor, alice: User, bob: User, notebook: Environment
) -> None:
    staying, leaving = door.visitor(alice), door.visitor(bob)
    assert [visitor.opens(host).status for visitor in (staying, leaving)] == [200, 200]
    socket = leaving.socket(host)
    socket.send("hello")
    assert socket.recv(timeout=10) == "hello"
    if way == "member":
        member_remove(actor=SYSTEM, workspace=notebook.workspace, username=bob.username)
    elif way == "account":
        user_deactivate(actor=as_olga, user=bob)
    elif way == "signed out":
        leaving.portal.logout()
    else:
        environment_stop(actor=SYSTEM, environment=notebook)
    assert is_cut(socket) < CUT_SECONDS
    status = {"member": 404, "account": 401, "signed out": 401, "stopped": 503}[way]
    assert leaving.ask(host, "/api").status == status
    with pytest.raises(InvalidStatus):
        leaving.socket(host)
    if way != "stopped":
        until(lambda: staying.ask(host, "/api").status == 200, "who may stay comes in again")
        with staying.socket(host) as again:
            again.send("still here")
            assert again.recv(timeout=10) == "still here"


def test_a_stopped_one_leads_to_its_page(
    door: Running, host: str, alice: User, notebook: Environment
) -> None:
    visitor = door.visitor(alice)
    assert visitor.opens(host).status == 200
    environment_stop(actor=SYSTEM, environment=notebook)
    until(lambda: host.partition(".")[0] not in door.door.ways, "the door knows that it is stopped")
    answer = visitor.opens(host)
    assert answer.status == 200
    assert "Stopping" in answer.text
    assert visitor.ask(host, "/api").status == 503
