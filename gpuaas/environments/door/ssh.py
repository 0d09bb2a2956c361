"""The way in by SSH: a shell, a command, sftp or a forwarded port inside an environment.

The name of the account is the label of the environment, and a person is known by a public key of theirs. The site starts what they
ask for (`Environments.run`), so nothing of the portal is in the pod.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

import asyncssh
import structlog
from asyncssh.stream import SSHServerStreamSession, SSHTCPStreamSession
from django.db import DatabaseError, InterfaceError

from gpuaas.core.errors import GpuaasError, NotFound
from gpuaas.core.rate import Rate
from gpuaas.core.request import RequestInfo
from gpuaas.environments.door import ways
from gpuaas.environments.door.desk import LABEL, TRIES
from gpuaas.environments.door.files import Files, Run
from gpuaas.environments.door.passes import Admission, Shown, Verdict
from gpuaas.environments.door.session import Session, Unread, at_home
from gpuaas.providers.base import Environments, EnvironmentSpec, Streams

log = structlog.get_logger(__name__)
# at once: connections of which it is not known whose they are, of all and of one network; those of one person to one environment;
# and what is asked for by one connection
STRANGERS_MOST, OF_NETWORK_MOST, OF_PERSON_MOST, CHANNELS_MOST = 400, 50, 50, 50
LOGIN_SECONDS, ALIVE_SECONDS = 30, 60
HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
FAILED = 255  # as `ssh` ends where the connection fails

Done = TypeVar("Done")
Find = Callable[[Collection[Shown]], Awaitable[dict[Shown, Admission]]]
Note = Callable[[Admission, str | None], Awaitable[None]]
Reader: TypeAlias = asyncssh.SSHReader[bytes]
Writer: TypeAlias = asyncssh.SSHWriter[bytes]


@dataclass
class Gate:
    """Everybody who is connected. note: that somebody came in, from which address."""

    find: Find
    note: Note
    rate: Rate = field(default_factory=Rate)
    strangers: set["Visitor"] = field(default_factory=set)
    inside: set["Visitor"] = field(default_factory=set)

    async def serve(self, address: tuple[str, int], key: str) -> None:
        """Until it is cancelled. key: the door's private one, in OpenSSH's format."""
        asyncssh.set_log_level(logging.WARNING)  # it would log labels and commands
        server = await asyncssh.listen(
            *address,
            server_host_keys=[asyncssh.import_private_key(key)],
            server_factory=partial(Visitor, self),
            server_version="gpuaas",
            encoding=None,
            line_editor=False,
            compression_algs=["none"],
            password_auth=False,
            kbdint_auth=False,
            gss_host=None,
            agent_forwarding=False,
            login_timeout=LOGIN_SECONDS,
            keepalive_interval=ALIVE_SECONDS,
            reuse_port=True,
        )
        try:
            await server.wait_closed()
        finally:
            server.close()
            for each in [*self.strangers, *self.inside]:
                each.connection.abort()

    async def look(self) -> None:
        """One round: who may no longer stay is cut off."""
        there = list(self.inside)
        found = await self.find({each.shown for each in there}) if there else {}
        for each in there:
            now = found.get(each.shown)
            if now is None or now.verdict is not Verdict.ADMITTED or now.user_id != each.admission.user_id:
                each.connection.abort()

    def connections_like(self, newcomer: "Visitor") -> int:
        """How many of the same person are in the same environment."""
        person, label = newcomer.admission.user_id, newcomer.shown.label
        return sum((each.admission.user_id, each.shown.label) == (person, label) for each in self.inside)

    def labels(self) -> set[str]:
        """Of the environments in which somebody is."""
        return {each.shown.label for each in self.inside}


class _Session(SSHServerStreamSession[bytes]):
    """With sftp by version 3 of its protocol, which OpenSSH speaks. among: what counts."""

    def __init__(
        self, among: set[Any], serve: Callable[[Reader, Writer, Writer], Awaitable[None]], run: Run
    ) -> None:
        super().__init__(serve, self._files, 3)
        self._among, self._run = among, run
        self._programs: set[asyncio.Task[int]] = set()
        among.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncssh waits for what sftp was asked before it looks whether anybody is still there."""
        self._among.discard(self)
        for task in self._programs:
            task.cancel()
        super().connection_lost(exc)

    def _files(self, channel: Any) -> asyncssh.SFTPServer:
        return Files(channel, self._ran)

    async def _ran(self, script: str, words: Sequence[str], streams: Streams) -> int:
        if self not in self._among:
            raise asyncssh.SFTPConnectionLost("nobody is there any more")
        task = asyncio.ensure_future(self._run(script, words, streams))
        self._programs.add(task)
        task.add_done_callback(self._programs.discard)
        return await task


class _Forward(SSHTCPStreamSession[bytes]):
    """Counts from the moment in which it was asked for until nothing is carried."""

    def __init__(self, among: set[Any], carry: Callable[[Reader, Writer], Awaitable[None]]) -> None:
        super().__init__(self._begin)
        self._among, self._carry = among, carry
        self.work: asyncio.Task[None] | None = None
        among.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.work is None:
            self._among.discard(self)
        super().connection_lost(exc)

    def _begin(self, reader: Reader, writer: Writer) -> None:
        self.work = asyncio.ensure_future(self._carry(reader, writer))
        self.work.add_done_callback(lambda _: self._among.discard(self))


class Visitor(asyncssh.SSHServer):
    """One connection. admission: what the newest key that was shown is worth; once it is known whose the connection is, that
    person's."""

    connection: asyncssh.SSHServerConnection
    network: str
    shown: Shown
    admission: Admission

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.sessions: set[_Session] = set()
        self.forwards: set[_Forward] = set()

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self.connection = conn
        self.network = RequestInfo(ip=self._address()).network
        near = sum(each.network == self.network for each in self.gate.strangers)
        if len(self.gate.strangers) >= STRANGERS_MOST or near >= OF_NETWORK_MOST:
            conn.abort()
        else:
            self.gate.strangers.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.gate.strangers.discard(self)
        self.gate.inside.discard(self)
        for each in self.forwards:
            if each.work is not None:
                each.work.cancel()

    # -- who it is ---------------------------------------------------------------------------------------------------

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Asked when a key is offered, and again with the signature, of which asyncssh then looks at the signature. A question
        cancels the one before, so that the last answer is about the key that was accepted."""
        if not LABEL.fullmatch(username):
            return False
        caller = f"ssh {self.network}"
        if self.gate.rate.seconds_to_wait(caller, most=TRIES):
            return False
        shown = Shown(username, key.get_fingerprint())
        try:
            found = (await self.gate.find([shown])).get(shown)
        except (DatabaseError, InterfaceError) as error:
            log.warning("door_not_asked", error=type(error).__name__)
            found = None
        if found is None:
            return False
        self.gate.rate.take_back(caller)
        self.shown, self.admission = shown, found
        return True

    async def auth_completed(self) -> None:
        self.gate.strangers.discard(self)
        if self.gate.connections_like(self) >= OF_PERSON_MOST:
            self.connection.disconnect(
                asyncssh.DISC_TOO_MANY_CONNECTIONS,
                "you have too many connections to this environment: end one",
            )
            return
        self.gate.inside.add(self)
        if self.admission.verdict is not Verdict.ADMITTED:
            return
        try:
            await self.gate.note(self.admission, self._address())
        except (DatabaseError, InterfaceError) as error:
            log.warning("door_not_noted", error=type(error).__name__)
            self.connection.abort()

    def _address(self) -> str | None:
        peer = self.connection.get_extra_info("peername")
        return str(peer[0]) if peer else None

    # -- what they ask for -------------------------------------------------------------------------------------------

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        self._room_require()
        return _Session(self.sessions, self._serve, self._script)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> asyncssh.SSHTCPSession[bytes]:
        """To ports of the environment alone, as seen from inside it."""
        del orig_host, orig_port
        if dest_host not in HERE or not 1 <= dest_port <= 65535:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "only to ports of the environment, as localhost"
            )
        self._room_require()
        return _Forward(self.forwards, partial(self._carried, dest_port))

    def _room_require(self) -> None:
        if len(self.sessions) + len(self.forwards) >= CHANNELS_MOST:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, "too many at once")

    async def _serve(self, stdin: Reader, stdout: Writer, stderr: Writer) -> None:
        session = Session(stdin, stdout, stderr)
        work = asyncio.ensure_future(self._worked(session))
        gone = asyncio.ensure_future(session.channel.wait_closed())
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if work.done():
            session.channel.exit(work.result() & 0xFF)
            return
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        if session.is_terminal:
            await self._hang_up(session)

    async def _worked(self, session: Session) -> int:
        """The exit code."""
        try:
            run = await self._at_site(
                lambda site, spec: site.run(spec, session.command(spec.home), terminal=session.is_terminal)
            )
            return await run(session)
        except GpuaasError as error:
            log.info("door_not_run", environment=str(self.admission.environment_id), error=error.message)
            words = error.message
        except (OSError, asyncssh.Error):  # the client has gone
            return FAILED
        except Exception as error:  # noqa: BLE001  the database is away, or worse: whoever waits is told
            log.warning("door_failed", error=type(error).__name__)
            words = "the portal could not start it: try again"
        await session.write(f"gpuaas: {words}\r\n".encode(), is_error=True)
        return FAILED

    async def _script(self, script: str, words: Sequence[str], streams: Streams) -> int:
        run = await self._at_site(
            lambda site, spec: site.run(spec, at_home(spec.home, script, words), terminal=False)
        )
        return await run(streams)

    async def _hang_up(self, session: Session) -> None:
        try:
            run = await self._at_site(lambda site, spec: site.run(spec, session.hang_up(), terminal=False))
            await run(Unread())
        except (GpuaasError, DatabaseError, InterfaceError) as error:  # it is gone with its pod, or goes on
            log.info("door_not_hung_up", error=type(error).__name__)

    async def _carried(self, port: int, reader: Reader, writer: Writer) -> None:
        try:
            carry = await self._at_site(lambda site, spec: site.reach_inside(spec, port))
            await carry(cast("asyncio.StreamReader", reader), cast("asyncio.StreamWriter", writer))
        except GpuaasError as error:
            log.info("door_no_way", environment=str(self.admission.environment_id), error=error.message)
        except (OSError, asyncssh.Error) as error:  # one side has gone
            log.debug("door_way_ended", error=type(error).__name__)
        finally:
            writer.close()

    async def _at_site(self, ask: Callable[[Environments, EnvironmentSpec], Done]) -> Done:
        """Raises NotFound where it does not run."""
        if self.admission.verdict is not Verdict.ADMITTED:
            raise NotFound("the environment does not run: start it in the portal")
        return await ways.at_site(self.admission.environment_id, ask)
