"""Bytes from a socket to the address of a pod and back, on Python's own loop, where `activity.py` asks, and on the door's."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from gpuaas.environments.door.loop import Loop as DoorLoop
from gpuaas.environments.door.ways import pass_on
from gpuaas.providers.base import Address

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Pod = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Loop = Callable[[Coroutine[Any, Any, None]], None]
CHUNK, MANY, SECONDS = b"." * (1 << 16), 1024, 20


def run_as_door(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=DoorLoop) as runner:
        runner.run(main)


LOOPS = pytest.mark.parametrize("run", [asyncio.run, run_as_door], ids=["asyncio", "the door's"])


async def opened(pod: Pod) -> tuple[Streams, asyncio.Task[None], asyncio.Server]:
    """As Envoy has a connection, and the door's work for it."""
    server = await asyncio.start_server(pod, "127.0.0.1", 0)
    here, there = socket.socketpair()
    far = await asyncio.open_connection(sock=there)
    work = asyncio.create_task(pass_on(Address("127.0.0.1", server.sockets[0].getsockname()[1]), *far))
    work.add_done_callback(lambda _: far[1].close())
    return await asyncio.open_connection(sock=here), work, server


@LOOPS
def test_who_reads_slowly_slows_the_pod_and_gets_all_of_it(run: Loop) -> None:
    sent: asyncio.Queue[int] = asyncio.Queue()

    async def pod(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read(3) == b"ask"
        for number in range(MANY):
            writer.write(CHUNK)
            try:
                async with asyncio.timeout(1):
                    await writer.drain()
            except TimeoutError:
                sent.put_nowait(number + 1)
                break
        else:
            sent.put_nowait(MANY)
        writer.close()

    async def main() -> None:
        (reader, writer), work, server = await opened(pod)
        writer.write(b"ask")
        async with asyncio.timeout(SECONDS):
            count = await sent.get()
            assert count < MANY
            assert await reader.read(-1) == CHUNK * count
            await work
        writer.close()
        server.close()

    run(main())


@LOOPS
def test_what_is_asked_arrives_whole_at_a_pod_that_reads_slowly(run: Loop) -> None:
    read = asyncio.Event()

    async def pod(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read.wait()
        writer.write(str(len(await reader.readexactly(MANY * len(CHUNK)))).encode() + b"\n")

    async def main() -> None:
        (reader, writer), work, server = await opened(pod)
        async with asyncio.timeout(SECONDS):
            writer.write(CHUNK * MANY)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await writer.drain()
            read.set()
            assert int(await reader.readline()) == MANY * len(CHUNK)
            writer.close()
            await work
        server.close()

    run(main())


@LOOPS
@pytest.mark.parametrize("first", ["before it is asked", "after its answer", "the client"])
def test_it_ends_with_either_side(run: Loop, first: str) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def pod(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if first != "before it is asked":
            writer.write(await reader.read(3))
        if first == "the client":
            heard.put_nowait(await reader.read(-1))
        writer.close()

    async def main() -> None:
        (reader, writer), work, server = await opened(pod)
        async with asyncio.timeout(SECONDS):
            if first != "before it is asked":
                writer.write(b"ask")
                assert await reader.readexactly(3) == b"ask"
            if first == "the client":
                writer.close()
            assert await reader.read(-1) == b""
            await work
            assert first != "the client" or await heard.get() == b""
        writer.close()
        server.close()

    run(main())
