"""What has come by TLS is read whole by somebody who was slow, although the other side has ended the connection meanwhile."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from deploy.embedded.certificate import certificate_make
from gpuaas.environments.door.loop import Loop

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[int, ssl.SSLContext], Awaitable[Streams]]
NAME = "site.gpu.test"
# more than a reader takes before it lets its transport pause, and less than what the transport then still takes
CONTENT = bytes(range(256)) * 960
TURNS, SECONDS = 200, 20


async def at_once(port: int, trusted: ssl.SSLContext) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port, ssl=trusted, server_hostname=NAME)


async def behind_a_proxy(port: int, trusted: ssl.SSLContext) -> Streams:
    """As the client of WebSockets has it once a proxy has connected it."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    plain, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
    transport = await loop.start_tls(plain, protocol, trusted, server_hostname=NAME)
    assert transport is not None
    protocol.connection_made(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


@pytest.mark.parametrize("connect", [at_once, behind_a_proxy])
@pytest.mark.parametrize("says_so", [True, False], ids=["with a word", "without"])
def test_the_end_of_it_is_not_lost(tmp_path: Path, connect: Connect, says_so: bool) -> None:
    certificate, key = certificate_make(tmp_path, "gpu.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listening, ended = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def serve() -> None:
        with context.wrap_socket(listening.accept()[0], server_side=True) as site:
            site.sendall(CONTENT)
            if says_so:
                site.setblocking(False)
                with pytest.raises(ssl.SSLWantReadError):
                    site.unwrap()
        ended.set()

    async def main() -> bytes:
        async with asyncio.timeout(SECONDS):
            trusted = ssl.create_default_context(cafile=str(certificate))
            reader, writer = await connect(listening.getsockname()[1], trusted)
            await asyncio.to_thread(ended.wait)
            for _ in range(TURNS):
                await asyncio.sleep(0)
            content = await reader.read(-1)
            writer.close()
            return content

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with listening, asyncio.Runner(loop_factory=Loop) as runner:
            assert runner.run(main()) == CONTENT
    finally:
        thread.join()
