"""Connections to a port of a pod through the API server, as `kubectl port-forward` makes them, each over a WebSocket of its
own. Channels: data, or the site's error; the first frame of each says the port again.
"""

import asyncio

from websockets.asyncio.client import ClientConnection

from gpuaas.core.errors import NotFound
from gpuaas.providers.kubeapi.channels import CHUNK, V4, frame_of, opened, send
from gpuaas.providers.kubeapi.client import Api

DATA, ERROR = 0, 1
PORT_BYTES = 2
# for what comes back once nothing more is sent there; the site is not told of that end
ANSWER_SECONDS = 60


async def forward(
    api: Api, path: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """path: of the pod. Carries both ways until the pod ends, or some time after nothing more is read. Raises the errors of a call."""
    async with opened(api, f"{path}/portforward?ports={port}", [V4]) as site:
        await _carry(site, reader, writer)


async def _carry(site: ClientConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    there, back = asyncio.create_task(_there(site, reader)), asyncio.create_task(_back(site, writer))
    ways = (there, back)
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if there.done() and there.exception() is None:
            await asyncio.wait([back], timeout=ANSWER_SECONDS)
        for way in ways:
            if way.done():
                way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _there(site: ClientConnection, reader: asyncio.StreamReader) -> None:
    while chunk := await reader.read(CHUNK):
        await send(site, DATA, chunk)


async def _back(site: ClientConnection, writer: asyncio.StreamWriter) -> None:
    begun: set[int] = set()
    async for message in site:
        channel, content = frame_of(message)
        if channel not in begun:
            begun.add(channel)
            content = content[PORT_BYTES:]
        if channel == ERROR and content:
            raise NotFound(f"the pod does not take the connection: {content.decode(errors='replace')[:300]}")
        if channel == DATA and content:
            writer.write(content)
            await writer.drain()
