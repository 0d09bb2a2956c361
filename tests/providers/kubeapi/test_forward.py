"""A forwarded connection whose client has sent all that it wants, at a port that answers afterwards."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import yaml
from websockets.asyncio.server import ServerConnection, serve

from gpuaas.providers.kubeapi import forward as module
from gpuaas.providers.kubeapi.channels import V4
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubeapi.forward import DATA, ERROR, forward

PORT = (8888).to_bytes(2, "little")


@asynccontextmanager
async def forwarding(*, answers: bool) -> AsyncIterator[Api]:
    """An API server that forwards to one port: what is asked there is answered once all of it has come, or never."""

    async def connected(site: ServerConnection) -> None:
        for channel in (DATA, ERROR):
            await site.send(bytes([channel]) + PORT)
        asked = await site.recv()
        assert asked == bytes([DATA]) + b"how are you?"
        if answers:
            await site.send(bytes([DATA]) + b"well, thanks")
        else:
            await site.wait_closed()

    async with serve(connected, "127.0.0.1", 0, subprotocols=[V4]) as server:
        yield api_at(server.sockets[0].getsockname()[1])


def api_at(port: int) -> Api:
    named = {"clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}]}
    users = [{"name": "u", "user": {"token": "t"}}]
    contexts = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
    return Api(yaml.safe_dump({**named, "users": users, "contexts": contexts, "current-context": "x"}))


async def asked(api: Api) -> bytes:
    """By a client that ends what it sends before it reads."""
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=there)
    from_door, to_door = await asyncio.open_connection(sock=here)
    way = asyncio.ensure_future(forward(api, "/api/v1/namespaces/n/pods/p", 8888, reader, writer))
    to_door.write(b"how are you?")
    to_door.write_eof()
    try:
        async with asyncio.timeout(10):
            await way
    finally:
        writer.close()
    content = await from_door.read(-1)
    to_door.close()
    return content


def test_an_answer_comes_after_the_end_of_the_question() -> None:
    async def main() -> bytes:
        async with forwarding(answers=True) as api:
            return await asked(api)

    assert asyncio.run(main()) == b"well, thanks"


def test_who_has_gone_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.2)

    async def main() -> bytes:
        async with forwarding(answers=False) as api:
            return await asked(api)

    assert asyncio.run(main()) == b""
