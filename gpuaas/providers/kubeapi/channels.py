"""WebSockets of an API server on which frames begin with a channel, as those of `kubectl exec` and `kubectl port-forward`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from gpuaas.core.connections import in_thread_of
from gpuaas.core.errors import Unavailable
from gpuaas.providers.kubeapi.client import CONNECT_SECONDS, READ_SECONDS, Api, refusal
from gpuaas.providers.reach import addresses_of

V4, V5 = Subprotocol("v4.channel.k8s.io"), Subprotocol("v5.channel.k8s.io")
CHUNK = 1 << 16
FRAME = 1 << 15
ALIVE_SECONDS = 30  # what balances load in front of a site ends connections on which nothing is said


@asynccontextmanager
async def opened(api: Api, path: str, protocols: Sequence[Subprotocol]) -> AsyncIterator[ClientConnection]:
    """path: with its query. Raises the errors of a call, also for what happens to the connection inside the block."""
    server = urlsplit(api.server)
    try:
        async with connect(
            f"ws{api.server.removeprefix('http')}{path}",
            subprotocols=protocols,
            additional_headers=api.authorization(),
            user_agent_header="gpuaas",
            compression=None,
            proxy=api.proxy,
            open_timeout=CONNECT_SECONDS + READ_SECONDS,
            ping_interval=ALIVE_SECONDS,
            ping_timeout=None,
            **(await _options(api, server.hostname or "", server.port)),
        ) as site:
            yield site
    except InvalidStatus as error:
        response = error.response
        message = (response.body or b"").decode(errors="replace")[:500]
        raise refusal(response.status_code, {"message": message}) from error
    except (InvalidHandshake, ValueError) as error:
        raise Unavailable(f"the site does not lead to the pod: {error}") from error
    except ConnectionClosed as error:
        raise Unavailable("the site ended the connection to the pod") from error
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"the site's API server does not answer: {error}") from error


async def send(site: ClientConnection, channel: int, content: bytes) -> None:
    """In frames of the size that kubectl sends: of longer ones a part can be lost on the way."""
    for at in range(0, len(content), FRAME):
        await site.send(bytes([channel]) + content[at : at + FRAME])


def frame_of(message: bytes | str) -> tuple[int, bytes]:
    """Its channel and its content."""
    frame = message.encode() if isinstance(message, str) else message
    return frame[0], frame[1:]


async def _options(api: Api, host: str, port: int | None) -> dict[str, Any]:
    """Without a proxy it connects to the address that was judged; redirects elsewhere are so refused, too."""
    options: dict[str, Any] = {}
    if api.tls is not None:
        options |= {"ssl": api.tls, "server_hostname": api.tls_name}
    if api.proxy is None:
        async with asyncio.timeout(CONNECT_SECONDS + READ_SECONDS):
            addresses = await in_thread_of(f"name {host}", addresses_of, host, port)
        options |= {"host": addresses[0], "port": port or (443 if api.tls is not None else 80)}
    return options
