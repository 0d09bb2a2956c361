"""Policies and keys on a real Envoy: who comes in, who is cut off, and that no key reaches a pod or a log."""

import time
from pathlib import Path
from urllib.parse import urlencode

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from gpuaas.environments.door.desk import BY_KEY, PASS, TRIES
from gpuaas.environments.models import DoorKey, Environment
from gpuaas.environments.services import environment_access_set, key_create, key_revoke
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.members import member_remove, member_set
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tenants.services import project_member_remove
from tests.environments import stage
from tests.environments.door.stage import Here, Running, Visitor, envoys, host_of
from tests.factories.tenants import ProjectFactory, ProjectMembershipFactory, UserFactory
from tests.frontend.markup import flat
from tests.lab.fixtures import until

pytestmark = pytest.mark.django_db(transaction=True)
CUT_SECONDS = 5.0
NOBODYS = f"gpk_{'0' * 12}_{'x' * 43}"


@pytest.fixture
def notebook(as_alice: Actor, workspace: Workspace, bob: User) -> Environment:
    """Of alice's, of a kind that allows all, public with a key; bob may edit the workspace that it is in."""
    member_set(actor=as_alice, workspace=workspace, username=bob.username, role="edit")
    stage.kind(access=["public", "organization", "private", "workspace"])
    return stage.ready(as_alice, workspace, gpus=0)


@pytest.fixture
def neighbour(project: Project) -> User:
    """Of another project of the same organization."""
    user: User = UserFactory.create(username="nina")
    ice = ProjectFactory.create(organization=project.organization, slug="ice")
    ProjectMembershipFactory.create(project=ice, user=user, role="viewer")
    return user


def key_to(row: Environment, name: str = "ci") -> tuple[DoorKey, str]:
    return key_create(actor=actor_for(user=row.created_by), environment=row, name=name)


def another(door: Running, actor: Actor, row: Environment, name: str, access: str) -> str:
    """The host of one more, which the door knows."""
    made = stage.ready(actor, row.workspace, name, gpus=0, vcpus=1, access=access)
    until(lambda: (made.label or "") in door.door.ways, "the door knows it")
    host = host_of(made)
    until(lambda: door.visitor().ask(host).status == 401, "Envoy knows it")
    return host


def by_form(door: Running, host: str, key: str) -> Visitor:
    visitor = door.visitor()
    sent = visitor.ask(
        host,
        BY_KEY,
        "POST",
        urlencode({"key": key}),
        Content_Type="application/x-www-form-urlencoded",
        Origin=f"https://{host}:{door.port}",
        Sec_Fetch_Site="same-origin",
    )
    assert (sent.status, sent.location) == (303, "/"), sent
    return visitor


def opened(socket: ClientConnection) -> ClientConnection:
    socket.send("hello")
    assert socket.recv(timeout=10) == "hello"
    return socket


def logged(envoy: int) -> str:
    """What Envoy has written so far, into what the suite makes of standard output."""
    return Path(f"/proc/{envoy}/fd/1").read_text()


def test_a_key_opens_it_and_reaches_neither_the_pod_nor_the_log(
    door: Running, host: str, notebook: Environment, as_alice: Actor
) -> None:
    key, raw = key_to(notebook)
    program = door.visitor()
    for shown in (f"Bearer {raw}", f"bearer {raw}"):
        answer = program.ask(
            host, "/v1/models", Authorization=shown, X_Gpuaas_Key="olga", X_Gpuaas_User="olga"
        )
        assert answer.status == 200, answer
        headers = {name.lower(): value for name, value in answer.asked["headers"]}
        assert headers["x-gpuaas-key"] == "ci"
        assert not {"authorization", "x-gpuaas-user", "cookie"} & headers.keys()
        assert raw not in answer.text
    assert door.visitor().page(host, BY_KEY).text.count("<form") == 1
    person = by_form(door, host, raw)
    assert raw not in str(person.cookies)
    asked = person.ask(host, "/tree", cookie="theme=dark")
    assert (asked.status, dict(asked.asked["headers"])["cookie"]) == (200, "theme=dark")
    assert PASS not in asked.text
    with person.socket(host) as socket:
        opened(socket)
    for path in (f"/v1/models?key={raw}", f"/{raw}", f"{BY_KEY}?key={raw}"):
        assert program.ask(host, path, Authorization=f"Bearer {raw}").status == 400
    (envoy,) = envoys()
    until(lambda: '"a key"' in logged(envoy) and "/v1/models" in logged(envoy), "it is logged")
    assert raw.split("_")[2] not in logged(envoy)
    told = AuditEntry.objects.filter(action="environment.open")
    assert [entry.token_prefix for entry in told] == [key.prefix] * 2  # the program, and the pass
    (client,) = {entry.ip for entry in told}
    assert client
    assert DoorKey.objects.get().last_used_at


def test_by_what_nobody_comes_in(
    door: Running, host: str, notebook: Environment, as_alice: Actor, neighbour: User, charlie: User
) -> None:
    other = another(door, as_alice, notebook, "other", "public")
    _, raw = key_to(notebook)
    holder = by_form(door, host, raw)
    stranger = door.visitor()
    # a key or a pass of one environment at another, in its own name or in that of the other
    assert stranger.ask(other, "/api", Authorization=f"Bearer {raw}").status == 401
    assert stranger.ask(other, "/api", cookie=f"{PASS}={holder.cookies[host][PASS]}").status == 401
    assert stranger.ask(other, "/api", Authorization=f"Bearer {raw}", Host=host).status == 404
    for shown in (NOBODYS, raw[:-1], raw + "x", raw.upper(), raw.replace("gpk_", "gpa_")):
        assert stranger.ask(host, "/api", Authorization=f"Bearer {shown}").status == 401, shown
    for claim in ({"X_Api_Key": raw}, {"X_Gpuaas_Key": "ci"}, {"Proxy_Authorization": f"Bearer {raw}"}):
        assert stranger.ask(host, "/api", **claim).status == 401, claim
    assert stranger.ask(host, "/api", cookie=f"{PASS}={raw}").status == 401
    assert stranger.ask(host, "/.gpuaas%2fkey", "POST", f"key={raw}").status in {400, 403, 404}
    # a second host in one request, and a name that is another's
    assert _raw(door.port, host, [f"Host: {host}", f"Host: {other}"], raw) in {400, 404}
    assert _raw(door.port, host, [f"Host: {other}"], raw) == 404
    assert (
        _raw(door.port, host, [f"Host: {host}", "Transfer-Encoding: chunked", "Content-Length: 4"], raw)
        == 400
    )
    # the organization is not the public, and the public is not the organization
    for user in (neighbour, charlie):
        assert door.visitor(user).opens(host).status == 404


def _raw(port: int, host: str, lines: list[str], key: str) -> int:
    connection = Here(host, port)
    connection.connect()
    sent = "\r\n".join(
        ["GET /api HTTP/1.1", *lines, f"Authorization: Bearer {key}", "Connection: close", "", ""]
    )
    try:
        connection.sock.sendall(sent.encode())
        return int(connection.sock.recv(4096).split(b" ", 2)[1])
    finally:
        connection.close()


def test_guesses_are_slowed_and_those_inside_are_not(
    door: Running, host: str, notebook: Environment, alice: User
) -> None:
    member = door.visitor(alice)
    assert member.opens(host).status == 200
    found = {
        door.visitor().ask(host, "/api", Authorization=f"Bearer {NOBODYS}").status for _ in range(TRIES + 30)
    }
    assert found == {401, 429}
    assert member.ask(host, "/api").status == 200


def test_a_private_one_and_one_of_the_organization(
    door: Running,
    host: str,
    notebook: Environment,
    as_alice: Actor,
    bob: User,
    neighbour: User,
    charlie: User,
) -> None:
    private = another(door, actor_for(user=bob), notebook, "mine", "private")
    shared = another(door, as_alice, notebook, "shared", "organization")
    alice = User.objects.get(username="alice")
    refused = door.visitor(alice).opens(private)
    assert (refused.status, "nly bob can open it" in flat(refused.text)) == (403, True)
    assert door.visitor(charlie).opens(shared).status == 404
    guest = door.visitor(neighbour)
    answer = guest.opens(shared)
    assert (answer.status, dict(guest.ask(shared, "/api").asked["headers"])["x-gpuaas-user"]) == (200, "nina")


def test_each_way_out_is_within_five_seconds(
    door: Running, host: str, notebook: Environment, as_alice: Actor, bob: User, neighbour: User
) -> None:
    """At once: the creator of a private one and a member of the organization leave, and keys are revoked."""
    private = another(door, actor_for(user=bob), notebook, "mine", "private")
    shared = another(door, as_alice, notebook, "shared", "organization")
    staying, creator, guest = (
        door.visitor(User.objects.get(username="alice")),
        door.visitor(bob),
        door.visitor(neighbour),
    )
    for visitor, name in ((staying, host), (creator, private), (guest, shared)):
        assert visitor.opens(name).status == 200
    keys = [key_to(notebook, name) for name in ("form", "header")]
    person, bearer = by_form(door, host, keys[0][1]), {"Authorization": f"Bearer {keys[1][1]}"}
    sockets = [
        opened(creator.socket(private)),
        opened(guest.socket(shared)),
        opened(person.socket(host)),
        opened(door.visitor().socket(host, **bearer)),
    ]
    began = time.monotonic()
    member_remove(actor=SYSTEM, workspace=notebook.workspace, username=bob.username)
    ice = neighbour.project_memberships.get().project
    project_member_remove(actor=SYSTEM, project=ice, user=neighbour)
    for key, _ in keys:
        key_revoke(actor=as_alice, key=key)
    for socket in sockets:
        with pytest.raises((ConnectionClosed, OSError)):
            socket.recv(timeout=20)
    assert time.monotonic() - began < CUT_SECONDS
    assert creator.ask(private, "/api").status == 404
    assert guest.ask(shared, "/api").status == 404
    assert person.ask(host, "/api").status == 401
    assert door.visitor().ask(host, "/api", **bearer).status == 401
    with pytest.raises(InvalidStatus):
        door.visitor().socket(host, **bearer)
    until(lambda: staying.ask(host, "/api").status == 200, "who may stay comes in again")


def test_a_narrower_policy_cuts_off_whom_it_leaves_out(
    door: Running, host: str, notebook: Environment, as_alice: Actor, bob: User
) -> None:
    person, member = by_form(door, host, key_to(notebook)[1]), door.visitor(bob)
    assert member.opens(host).status == 200
    sockets = [opened(person.socket(host)), opened(member.socket(host))]
    began = time.monotonic()
    environment_access_set(actor=as_alice, environment=notebook, access="private")
    for socket in sockets:
        with pytest.raises((ConnectionClosed, OSError)):
            socket.recv(timeout=20)
    assert time.monotonic() - began < CUT_SECONDS
    assert (person.ask(host, "/api").status, member.ask(host, "/api").status) == (401, 404)
    assert door.visitor(User.objects.get(username="alice")).opens(host).status == 200
