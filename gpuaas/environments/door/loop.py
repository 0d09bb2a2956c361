"""The door's event loop: uvloop's, with the TLS of asyncio.

Where the other side ends a connection while nobody reads it, uvloop's TLS throws away what has come by then and was not read yet
(https://github.com/MagicStack/uvloop/pull/661): a slow client would miss the end of a file.
"""

import asyncio
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from ssl import SSLContext
from typing import Any

import uvloop


class Loop(uvloop.Loop):
    async def create_connection(  # type: ignore[override]  # the options that are passed on
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        *,
        ssl: SSLContext | None = None,
        server_hostname: str | None = None,
        **options: Any,
    ) -> tuple[Any, asyncio.BaseProtocol]:
        if ssl is None:
            return await super().create_connection(protocol_factory, host, port, **options)
        below: Any
        below, _ = await super().create_connection(asyncio.Protocol, host, port, **options)
        protocol = protocol_factory()
        return await _tls(self, below, protocol, ssl, server_hostname or host), protocol

    async def start_tls(  # type: ignore[override]  # by a client alone
        self,
        transport: asyncio.Transport,
        protocol: asyncio.BaseProtocol,
        sslcontext: SSLContext,
        *,
        server_hostname: str | None = None,
        **options: Any,
    ) -> asyncio.Transport:
        return await _tls(
            self, transport, protocol, sslcontext, server_hostname, call_connection_made=False, **options
        )


async def _tls(
    loop: Loop,
    below: asyncio.Transport,
    protocol: asyncio.BaseProtocol,
    context: SSLContext,
    name: str | None,
    **options: Any,
) -> asyncio.Transport:
    """As asyncio's own loop does it."""
    done = loop.create_future()
    tls = SSLProtocol(loop, protocol, context, done, server_hostname=name, **options)
    below.pause_reading()
    below.set_protocol(tls)
    tls.connection_made(below)
    below.resume_reading()
    try:
        await done
    except BaseException:
        below.close()
        raise
    return tls._app_transport
