"""What an environment tells of its own use, by the API that its kind names: asked of its pod, the way that the door goes.

What answers is a tenant's program: no more than MOST bytes are read, and it is believed about use alone.
"""

import asyncio
import json
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpuaas.core.errors import NotFound, Unavailable
from gpuaas.core.outside import outside_transaction
from gpuaas.environments.definition import definition_read
from gpuaas.environments.door.ways import pass_on
from gpuaas.environments.models import Environment
from gpuaas.environments.spec import ENVIRONMENTS, spec_of
from gpuaas.providers.base import Address, Carry

SECONDS, MOST = 10, 1 << 20
RESTING = frozenset({"idle", "dead"})
QUIET = "?no_track_activity=1"  # what Jupyter then does not take for use itself
# what a JSON that is none, or another one, leads to
NONSENSE = (
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    OSError,
    RecursionError,
    asyncio.LimitOverrunError,
)
Ask = Callable[[str], Any]


@dataclass(frozen=True)
class Told:
    """at: of its last use, None where it does not tell. using: what uses it at this moment, in words; "" = nothing."""

    at: datetime | None = None
    using: str = ""


def told_by(row: Environment) -> Told:
    """Calls the site, unless the kind names no API. Needs what `spec_of` needs. Raises the errors of the site, and Unavailable
    where it does not answer, or not as that API does."""
    read = READERS.get(definition_read(row.made_of.document).activity)
    if read is None:
        return Told()
    outside_transaction()
    site = ENVIRONMENTS.at(row.site)
    if site is None:
        raise NotFound("the site offers no environments")
    spec = spec_of(row)
    try:
        return read(lambda path: json.loads(asyncio.run(_answer(site.reach(spec), path))))
    except NONSENSE as error:
        raise Unavailable("its API does not answer as it should") from error


def jupyter(ask: Ask) -> Told:
    """A kernel that computes is use, and one that somebody looks at; else what its server counts as the last activity, with
    that of terminals."""
    kernels, status = ask(f"/api/kernels{QUIET}"), ask(f"/api/status{QUIET}")
    at = datetime.fromisoformat(status["last_activity"])
    if at.tzinfo is None:
        raise ValueError("a time without a zone")
    if any(each["execution_state"] not in RESTING for each in kernels):
        return Told(at, "a kernel is busy")
    if any(each.get("connections", 0) for each in kernels):
        return Told(at, "somebody is connected to a kernel")
    return Told(at)


def code_server(ask: Ask) -> Told:
    """Its heart beats once a minute as long as an editor is open."""
    return Told(datetime.fromtimestamp(ask("/healthz")["lastHeartbeat"] / 1000, UTC))


READERS: Mapping[str, Callable[[Ask], Told]] = {"jupyter": jupyter, "code-server": code_server}


async def _answer(way: Address | Carry, path: str) -> bytes:
    """The body of a 200 to one GET."""
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here, limit=MOST)
    far = await asyncio.open_connection(sock=there)
    carried = asyncio.create_task(pass_on(way, *far))
    asked = asyncio.create_task(_get(reader, writer, path))
    try:
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({carried, asked}, return_when=asyncio.FIRST_COMPLETED)
            if carried.done():
                carried.result()
                far[1].close()
            return await asked
    except TimeoutError as error:
        raise Unavailable(f"its API does not answer within {SECONDS} seconds") from error
    except EOFError as error:
        raise Unavailable("its API ends the connection without an answer") from error
    finally:
        for task in (carried, asked):
            task.cancel()
        await asyncio.gather(carried, asked, return_exceptions=True)
        writer.close()
        far[1].close()


async def _get(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> bytes:
    writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode())
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status = head.split(" ", 2)[1]
    if status != "200":
        raise Unavailable(f"its API answers with {status[:3]}")
    length = re.search(r"(?i)^content-length: *(\d{1,9})\r$", head, re.MULTILINE)
    if length:
        if int(length[1]) > MOST:
            raise Unavailable("its API answers with too much")
        return await reader.readexactly(int(length[1]))
    body = b""
    while chunk := await reader.read(MOST):
        body += chunk
        if len(body) > MOST:
            raise Unavailable("its API answers with too much")
    return body
