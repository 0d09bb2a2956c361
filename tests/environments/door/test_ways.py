"""A site that takes questions and never answers, beside another one: what else has to wait for it."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gpuaas.core.connections import THREADS_OF_ONE, in_thread
from gpuaas.core.crypto import encrypt_json
from gpuaas.environments.door import base, ways
from gpuaas.environments.models import Environment
from gpuaas.providers.kubeapi import channels
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.environments import stage
from tests.factories.catalog import SiteFactory

pytestmark = pytest.mark.django_db(transaction=True)
MANY, LOOK_SECONDS = 60, 5


class Dead:
    """reached: once it was called as often at once as it may be."""

    def __init__(self) -> None:
        self.calls, self.reached = 0, asyncio.Event()

    def called(self) -> None:
        self.calls += 1
        if self.calls >= THREADS_OF_ONE:
            self.reached.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Its port."""
        held: list[asyncio.StreamWriter] = []

        async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            held.append(writer)
            self.called()

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for each in held:
                each.close()


@pytest.fixture
def notebook(as_alice: Actor, workspace: Workspace) -> Environment:
    return stage.ready(as_alice, workspace, gpus=0)


def at_dead_site(workspace: Workspace, host: str, *, direct: bool) -> Environment:
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    kubeconfig = {
        "current-context": "c",
        "contexts": [context],
        "clusters": [{"name": "c", "cluster": {"server": f"http://{host}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    dead = SiteFactory.create(
        driver="kubernetes",
        credentials=encrypt_json({"kubeconfig": json.dumps(kubeconfig)}),
        options={"environments_direct": direct},
    )
    return stage.row_in(workspace, "dead", site=dead)


async def connection_to(row: Environment) -> tuple[socket.socket, asyncio.Task[None]]:
    """As Envoy makes one, and the door's work for it."""
    here, there = socket.socketpair()
    return here, asyncio.create_task(ways.carry(row.pk, *await asyncio.open_connection(sock=there)))


async def others_are_served(notebook: Environment) -> None:
    async with asyncio.timeout(LOOK_SECONDS):
        ready, _, _ = await in_thread(base.round_of, [])
        assert ready[notebook.label or ""] == notebook.pk
        here, work = await connection_to(notebook)
        reader, writer = await asyncio.open_connection(sock=here)
        writer.write(b"GET /api HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await work


async def pending(row: Environment, dead: Dead, notebook: Environment) -> None:
    """While many wait for the dead one."""
    waiting = [await connection_to(row) for _ in range(MANY)]
    try:
        async with asyncio.timeout(20):
            await dead.reached.wait()
        await others_are_served(notebook)
        assert dead.calls == THREADS_OF_ONE
        assert [work for _, work in waiting if work.done()] == []
    finally:
        for here, work in waiting:
            work.cancel()
            here.close()
        await asyncio.gather(*(work for _, work in waiting), return_exceptions=True)


def test_a_site_that_does_not_answer_holds_up_nobody_else(
    workspace: Workspace, notebook: Environment
) -> None:
    async def main() -> None:
        dead = Dead()
        async with dead.listening() as port:
            row = await in_thread(at_dead_site, workspace, f"127.0.0.1:{port}", direct=True)
            await pending(row, dead, notebook)

    asyncio.run(main())


def test_a_name_that_is_not_resolved_holds_up_nobody_else(
    workspace: Workspace, notebook: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()

    async def main() -> None:
        dead, loop = Dead(), asyncio.get_running_loop()

        def resolve(host: str, port: int | None) -> list[str]:
            loop.call_soon_threadsafe(dead.called)
            answered.wait(60)
            raise OSError(f"no address of {host}:{port}")

        monkeypatch.setattr(channels, "addresses_of", resolve)
        row = await in_thread(at_dead_site, workspace, "dead.example:6443", direct=False)
        try:
            await pending(row, dead, notebook)
        finally:
            answered.set()

    asyncio.run(main())
