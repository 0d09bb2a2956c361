"""Headers, cookies, queries and addresses by which somebody would like to be somebody, or to get at the door itself."""

import socket
import ssl
import stat
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from gpuaas.environments.door import envoy as told
from gpuaas.environments.door.desk import PASS
from gpuaas.environments.door.envoy import ADMIN
from tenants.models import User
from tests.environments.door.stage import DOMAIN, PAGE, Here, Running, Visitor, envoys
from tests.lab.fixtures import until

pytestmark = pytest.mark.django_db(transaction=True)
CLAIMS = {
    "X-Gpuaas-User": "olga",
    "x_gpuaas_user": "olga",
    "X-Gpuaas-Answer": "page",
    "X-Forwarded-For": "192.0.2.1",
    "X-Forwarded-User": "olga",
    "X-Forwarded-Proto": "http",
    "X-Forwarded-Host": "elsewhere.test",
    "Forwarded": "for=192.0.2.1",
    "X-Real-Ip": "192.0.2.1",
    "X-Auth-Request-User": "olga",
    "Remote-User": "olga",
    "X-Envoy-Original-Path": "/.gpuaas/enter",
    "X-Original-Url": "/.gpuaas/enter",
}
OWN = [
    "/.gpuaas/enter?ticket=x",
    "/.gpuaas",
    "/.gpuaas/",
    "//.gpuaas/enter",
    "/./.gpuaas/enter",
    "/tree/../.gpuaas/enter",
    "/tree/%2e%2e/.gpuaas/enter",
    "/%2egpuaas/enter",
    "/.gpuaas%2fenter",
    "/tree/..%2f.gpuaas/enter",
    "/.GPUAAS/enter",
    "/%252egpuaas/enter",
    "/.gpuaas\\enter",
]


@pytest.fixture
def inside(door: Running, host: str, alice: User) -> Visitor:
    visitor = door.visitor(alice)
    assert visitor.opens(host).status == 200
    return visitor


def test_what_is_claimed_does_not_reach_the_pod(inside: Visitor, host: str) -> None:
    asked = inside.ask(host, "/api?user=olga", **CLAIMS).asked
    headers: dict[str, list[str]] = {}
    for name, value in asked["headers"]:
        headers.setdefault(name, []).append(value)
    assert headers["x-gpuaas-user"] == ["alice"]
    assert len(headers["x-forwarded-for"]) == 1
    assert CLAIMS["X-Forwarded-For"] not in headers["x-forwarded-for"][0].split(",")
    assert headers["x-forwarded-proto"] == ["https"]
    assert headers["x-forwarded-host"] == headers["host"]
    claimed = {name.lower() for name in CLAIMS} - headers.keys()
    known = {"x-gpuaas-user", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"}
    assert claimed == {name.lower() for name in CLAIMS} - known
    assert not [name for name in headers if name.startswith(("x-envoy", "x-gpuaas-a"))]


def test_what_is_claimed_helps_nobody(door: Running, host: str) -> None:
    stranger = door.visitor()
    for more in ("", "?ticket=" + "x" * 43, "?user=alice"):
        assert stranger.ask(host, f"/api{more}", **CLAIMS, Authorization="Bearer alice").status == 401
    assert stranger.ask(host, "/api", cookie=f"{PASS}={'x' * 43}").status == 401
    assert stranger.ask(host, "/api", cookie=f"{PASS}=; sessionid=1").status == 401


def test_no_cookie_of_the_door_reaches_the_pod(inside: Visitor, host: str) -> None:
    secret = inside.cookies[host][PASS]
    for cookie in ("", "theme=dark", f"{PASS}=second", f"a=1; {PASS}=third; b=2"):
        asked = inside.ask(host, "/api", cookie=cookie).text
        assert PASS not in asked
        assert secret not in asked
    assert inside.ask(host, "/api", Authorization="Bearer mine").text.count("Bearer mine") == 1


def test_two_headers_of_cookies_help_nobody(inside: Visitor, host: str) -> None:
    """Browsers send one; of two Envoy makes what is no list of cookies."""
    own = f"{PASS}={inside.cookies[host][PASS]}"
    assert _raw(inside.port, host, "/api", ["a=1", own]) == 401
    assert _raw(inside.port, host, "/api", [own, "a=1"]) == 401
    for lines in ([f"{own}; a=1", "b=2"], ["b=2", f"a=1; {own}"]):
        assert _raw(inside.port, host, "/api", lines) in {200, 401}


def _raw(port: int, host: str, path: str, cookies: list[str]) -> int:
    connection = Here(host, port)
    connection.putrequest("GET", path)
    for cookie in cookies:
        connection.putheader("Cookie", cookie)
    connection.endheaders()
    try:
        answer = connection.getresponse()
        assert PASS not in answer.read().decode()
        return answer.status
    finally:
        connection.close()


def test_the_doors_own_addresses_are_never_passed_on(door: Running, inside: Visitor, host: str) -> None:
    """Alice may go everywhere, so that only the path can be what is refused."""
    found = {path: visitor.ask(host, path) for path in OWN for visitor in (door.visitor(), inside)}
    passed = {path: answer for path, answer in found.items() if answer.status not in {400, 403, 404}}
    assert not passed
    # a folder of that name may be anywhere else
    assert inside.ask(host, "/files/.gpuaas/notes").status == 200


def test_other_sites_cannot_ask_in_somebodys_name(inside: Visitor, host: str) -> None:
    other = f"https://{'0' * 32}.apps.test:{inside.port}"
    sibling = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
    framed = {**PAGE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}
    assert inside.ask(host, "/api", "POST", "{}", Origin=other).status == 403
    assert inside.ask(host, "/api", "POST", "{}", Origin="null").status == 403
    assert inside.ask(host, "/api", **sibling).status == 403
    assert inside.ask(host, "/api", **framed).status == 403
    assert inside.ask(host, "/api", "POST", "{}", Origin=f"https://{host}:{inside.port}").status == 200
    assert inside.ask(host, "/", **{**PAGE, "Sec-Fetch-Site": "cross-site"}).status == 200
    with pytest.raises(InvalidStatus):
        inside.socket(host, Origin=other)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door that waits a second where it waits ten, and a minute."""
    monkeypatch.setattr(told, "HANDSHAKE", "1s")
    monkeypatch.setattr(told, "UNASKED", "1s")


def test_a_connection_that_asks_nothing_ends_and_a_stream_goes_on(
    hasty: None, door: Running, host: str, alice: User
) -> None:
    visitor = door.visitor(alice)
    assert visitor.opens(host).status == 200
    with visitor.socket(host) as stream:
        for name in (host, f"nothing.{DOMAIN}"):
            with socket.create_connection(("127.0.0.1", door.port), 10) as begun:
                begun.sendall(_hello(name))
                while begun.recv(1 << 16):  # what Envoy says, until it ends the connection
                    pass
            silent = Here(host, door.port)
            silent.host = name
            silent.tls.check_hostname = False
            silent.connect()
            silent.sock.settimeout(10)
            assert silent.sock.recv(1) == b""
            silent.close()
        stream.send("hello")
        assert stream.recv(timeout=10) == "hello"


def _hello(name: str) -> bytes:
    """The first words of a handshake."""
    written = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), written, server_hostname=name).do_handshake()
    return written.read()


def test_the_administration_is_a_socket_of_its_owner(door: Running, host: str) -> None:
    path = door.door.place.folder / ADMIN
    found = path.stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [port for port in _ports() if port != door.port] == []


def _ports() -> list[int]:
    """At which an Envoy of this process listens, by what the kernel says."""
    inodes = {
        str(each.readlink()).removeprefix("socket:[").removesuffix("]")
        for pid in envoys()
        for each in Path(f"/proc/{pid}/fd").iterdir()
        if str(each.readlink()).startswith("socket:")
    }
    assert inodes
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    listening = [row for row in rows if row[3] == "0A" and row[9] in inodes]
    return sorted({int(row[1].rpartition(":")[2], 16) for row in listening})


def test_nothing_of_a_query_stands_in_the_log(door: Running, host: str, alice: User) -> None:
    visitor = door.visitor(alice)
    assert visitor.opens(host, "/tree?token=secret-word").status == 200
    (envoy,) = envoys()

    def logged() -> str:
        """What it has written so far, into what the suite makes of standard output."""
        text = Path(f"/proc/{envoy}/fd/1").read_text()
        return text if '"/tree"' in text and '"/.gpuaas/enter"' in text else ""

    text = until(logged, "both requests are logged")
    for word in ("ticket", "secret-word", visitor.cookies[host][PASS]):
        assert word not in text
