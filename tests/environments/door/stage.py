"""A door with its Envoy in a thread of the test, and people who come in by it."""

import asyncio
import http.client
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from django.conf import settings
from django.test import Client
from websockets.sync.client import ClientConnection, connect

from gpuaas.environments.door.loop import Loop
from gpuaas.environments.door.process import Door, place_made
from gpuaas.environments.models import Environment
from tenants.models import User

DOMAIN = "apps.test"
PAGE = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    cookies: list[str]
    text: str

    @property
    def location(self) -> str:
        return self.headers.get("location", "")

    @property
    def asked(self) -> Any:
        """What the simulated environment was asked."""
        return json.loads(self.text)


class Here(http.client.HTTPSConnection):
    """To the door on this machine, whatever the name."""

    def __init__(self, host: str, port: int) -> None:
        context = ssl.create_default_context(cafile=settings.DOOR_CERTIFICATE)
        super().__init__(host, port, context=context, timeout=20)
        self.tls = context

    def connect(self) -> None:
        plain = socket.create_connection(("127.0.0.1", self.port), 20)
        self.sock = self.tls.wrap_socket(plain, server_hostname=self.host)


@dataclass
class Visitor:
    """A browser: its session at the portal, and its cookies by host."""

    port: int
    user: User | None = None
    portal: Client = field(default_factory=Client)
    cookies: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.user is not None:
            self.portal.force_login(self.user)

    def ask(
        self, host: str, path: str = "/", method: str = "GET", body: str | None = None, **headers: str
    ) -> Answer:
        """headers: by name with _ for -."""
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        known = self.cookies.setdefault(host, {})
        own = "; ".join(f"{key}={value}" for key, value in known.items())
        cookies = "; ".join(filter(None, (own, sent.pop("cookie", ""))))
        connection = Here(host, self.port)
        try:
            connection.request(method, path, body, {**({"Cookie": cookies} if cookies else {}), **sent})
            got = connection.getresponse()
            answer = Answer(
                got.status,
                {key.lower(): value for key, value in got.getheaders()},
                got.headers.get_all("set-cookie") or [],
                got.read().decode(),
            )
        finally:
            connection.close()
        for line in answer.cookies:
            key, _, value = line.partition(";")[0].partition("=")
            known[key] = value
        return answer

    def page(self, host: str, path: str = "/") -> Answer:
        return self.ask(host, path, **PAGE)

    def opens(self, host: str, path: str = "/") -> Answer:
        """All redirects, to the portal and back; the last answer."""
        at, answer = f"https://{host}:{self.port}{path}", self.page(host, path)
        for _ in range(6):
            if answer.status not in {302, 303}:
                return answer
            at = urljoin(at, answer.location)
            answer = self.follows(host, at)
        raise AssertionError(f"it leads on and on: {answer.location}")

    def follows(self, host: str, location: str) -> Answer:
        there = urlsplit(location)
        path = f"{there.path}?{there.query}" if there.query else there.path
        if there.hostname and not there.hostname.endswith(DOMAIN):
            got = self.portal.get(path)
            return Answer(
                got.status_code, {"location": got.headers.get("Location", "")}, [], got.content.decode()
            )
        return self.page(there.hostname or host, path)

    def socket(self, host: str, **headers: str) -> ClientConnection:
        """A WebSocket to it."""
        own = "; ".join(f"{key}={value}" for key, value in self.cookies.get(host, {}).items())
        here = Here(host, self.port)
        plain = socket.create_connection(("127.0.0.1", self.port), 20)
        return connect(
            f"wss://{host}:{self.port}/ws",
            sock=plain,
            ssl=here.tls,
            server_hostname=host,
            additional_headers={"Cookie": own, "Origin": f"https://{host}:{self.port}", **headers},
            open_timeout=20,
        )


def host_of(row: Environment) -> str:
    return f"{row.label}.{DOMAIN}"


@dataclass
class Running:
    door: Door
    port: int

    def visitor(self, user: User | None = None) -> Visitor:
        return Visitor(self.port, user)


def envoys(parent: int | None = None) -> list[int]:
    """Children of a process, by default of this one."""
    found = []
    for pid in Path("/proc").iterdir():
        try:
            name, known = (
                (pid / "comm").read_text().strip(),
                (pid / "stat").read_text().rpartition(")")[2].split()[1],
            )
        except OSError:
            continue
        if name == "envoy" and int(known) == (parent or os.getpid()):
            found.append(int(pid.name))
    return found


@contextmanager
def door_running(port: int) -> Iterator[Running]:
    """Until the block ends. Settings name the domain, the certificate and the port."""
    begun, loops = threading.Event(), []

    async def run(door: Door) -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        begun.set()
        await door.run(stop)

    def runs() -> None:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(run(door))

    assert settings.DOOR_DOMAIN
    with place_made() as place:
        door = Door(place)
        thread = threading.Thread(target=runs)
        thread.start()
        try:
            begun.wait(20)
            yield Running(door, port)
        finally:
            loop, stop = loops[0]
            loop.call_soon_threadsafe(stop.set)
            thread.join(30)
    assert not thread.is_alive()
