"""Connections to a port of a pod through the API server, as `kubectl port-forward` makes them, each over a WebSocket of its
own. Frames begin with a channel: data, or the site's error; the first of each says the port again.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from gpuaas.core.errors import NotFound, Unavailable
from gpuaas.providers.kubeapi.client import CONNECT_SECONDS, READ_SECONDS, Api, refusal
from gpuaas.providers.reach import addresses_of

PROTOCOL = Subprotocol("v4.channel.k8s.io")
DATA, ERROR = 0, 1
PORT_BYTES = 2
CHUNK = 1 << 16
ALIVE_SECONDS = 30  # what balances load in front of a site ends connections on which nothing is said


async def forward(
    api: Api, path: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """path: of the pod. Carries both ways until one side ends. Raises the errors of a call."""
    server = urlsplit(api.server)
    address = f"ws{api.server.removeprefix('http')}{path}/portforward?ports={port}"
    try:
        async with connect(
            address,
            subprotocols=[PROTOCOL],
            additional_headers=api.authorization(),
            user_agent_header="gpuaas",
            compression=None,
            proxy=api.proxy,
            open_timeout=CONNECT_SECONDS + READ_SECONDS,
            ping_interval=ALIVE_SECONDS,
            ping_timeout=None,
            **(await _options(api, server.hostname or "", server.port)),
        ) as site:
            await _carry(site, reader, writer)
    except InvalidStatus as error:
        response = error.response
        message = (response.body or b"").decode(errors="replace")[:500]
        raise refusal(response.status_code, {"message": message}) from error
    except (InvalidHandshake, ValueError) as error:
        raise Unavailable(f"the site does not forward to the pod: {error}") from error
    except ConnectionClosed as error:
        raise Unavailable("the site ended the connection to the pod") from error
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"the site's API server does not answer: {error}") from error


async def _options(api: Api, host: str, port: int | None) -> dict[str, Any]:
    """Without a proxy it connects to the address that was judged; redirects elsewhere are so refused, too."""
    options: dict[str, Any] = {}
    if api.tls is not None:
        options |= {"ssl": api.tls, "server_hostname": api.tls_name}
    if api.proxy is None:
        addresses = await asyncio.to_thread(addresses_of, host, port)
        options |= {"host": addresses[0], "port": port or (443 if api.tls is not None else 80)}
    return options


async def _carry(site: ClientConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    ways = [asyncio.create_task(_there(site, reader)), asyncio.create_task(_back(site, writer))]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _there(site: ClientConnection, reader: asyncio.StreamReader) -> None:
    while chunk := await reader.read(CHUNK):
        await site.send(bytes([DATA]) + chunk)


async def _back(site: ClientConnection, writer: asyncio.StreamWriter) -> None:
    begun: set[int] = set()
    async for message in site:
        frame = message.encode() if isinstance(message, str) else message
        channel, content = frame[0], frame[1:]
        if channel not in begun:
            begun.add(channel)
            content = content[PORT_BYTES:]
        if channel == ERROR and content:
            raise NotFound(f"the pod does not take the connection: {content.decode(errors='replace')[:300]}")
        if channel == DATA and content:
            writer.write(content)
            await writer.drain()
