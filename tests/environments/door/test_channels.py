"""What one connection by SSH may have open, and what becomes of it when the client has gone; at a site that never comes to an end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import asyncssh

from gpuaas.core.ids import uuid7
from gpuaas.environments.door.passes import Admission, Shown, Verdict
from gpuaas.environments.door.ssh import CHANNELS_MOST, OF_PERSON_MOST, Gate, Visitor

LABEL = "1" * 32


@dataclass
class Site:
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, *given: Any) -> int:
        del given
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return 0


class There(Visitor):
    def __init__(self, gate: Gate, site: Site) -> None:
        super().__init__(gate)
        self.site = site

    async def _at_site(self, ask: Callable[..., Any]) -> Any:
        del ask
        return self.site.run


async def everybody(shown: Collection[Shown]) -> dict[Shown, Admission]:
    return {
        each: Admission(each.fingerprint, each.label, uuid7(), Verdict.ADMITTED, "alice") for each in shown
    }


async def nothing(found: Admission, client: str | None) -> None:
    del found, client


@asynccontextmanager
async def served(site: Site) -> AsyncIterator[Callable[[str], Any]]:
    """How the same person connects to an environment, by its label."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[key],
        server_factory=partial(There, Gate(everybody, nothing), site),
        encoding=None,
    )
    given: dict[str, Any] = {"known_hosts": None, "client_keys": [key], "config": None, "agent_path": None}
    ways: list[asyncssh.SSHClientConnection] = []

    async def connect(label: str) -> asyncssh.SSHClientConnection:
        ways.append(await asyncssh.connect("127.0.0.1", server.get_port(), username=label, **given))
        return ways[-1]

    try:
        yield connect
    finally:
        for way in ways:
            way.abort()
        server.close()


@asynccontextmanager
async def connected(site: Site) -> AsyncIterator[asyncssh.SSHClientConnection]:
    async with served(site) as connect:
        yield await connect(LABEL)


def test_what_sftp_asked_for_ends_with_its_client() -> None:
    """A pipe in the home to which nobody writes is enough for a program that never ends."""

    async def main() -> None:
        site = Site()
        async with connected(site) as way:
            files = await way.start_sftp_client()
            asked = asyncio.ensure_future(files.open("pipe"))
            await site.begun.wait()
            way.abort()
            async with asyncio.timeout(5):
                await site.ended.wait()
            await asyncio.gather(asked, return_exceptions=True)

    asyncio.run(main())


def test_what_sftp_asked_for_ends_with_its_channel() -> None:
    async def main() -> None:
        site = Site()
        async with connected(site) as way:
            stdin, _, _ = await way.open_session(subsystem="sftp", encoding=None)
            version, link = b"\0\0\0\5\1\0\0\0\3", b"\0\0\0\x0d\x13\0\0\0\1\0\0\0\4pipe"
            stdin.write(version + link)
            await site.begun.wait()
            stdin.channel.abort()
            async with asyncio.timeout(5):
                await site.ended.wait()

    asyncio.run(main())


def test_forwarded_ports_are_counted_when_they_are_asked_for() -> None:
    """Many may come in one part, before the first of them is carried."""

    async def main() -> None:
        async with connected(Site()) as way:
            asked = [way.open_connection("localhost", 8888) for _ in range(CHANNELS_MOST + 10)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            refused = [each for each in answers if isinstance(each, BaseException)]
            assert len(answers) - len(refused) == CHANNELS_MOST
            assert {str(each) for each in refused} == {"too many at once"}

    asyncio.run(main())


def test_one_person_has_so_many_connections_to_an_environment_and_no_more() -> None:
    """Who has as many comes in elsewhere, and here again where one has ended."""

    async def main() -> None:
        async with served(Site()) as connect:
            inside = [await connect(LABEL) for _ in range(OF_PERSON_MOST)]
            async with asyncio.timeout(20):
                await (await connect(LABEL)).wait_closed()
                await (await connect("2" * 32)).open_connection("localhost", 8888)
                inside[0].abort()
                await inside[0].wait_closed()
                while not await comes_in(await connect(LABEL)):
                    pass
            assert {each.is_closed() for each in inside[1:]} == {False}

    asyncio.run(main())


async def comes_in(way: asyncssh.SSHClientConnection) -> bool:
    try:
        await way.open_connection("localhost", 8888)
    except (asyncssh.DisconnectError, asyncssh.ChannelOpenError):
        return False
    return True
