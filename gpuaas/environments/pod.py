"""A question by HTTP to what runs in a pod, by the way that the door takes.

What answers is a tenant's program: no more than MOST bytes are read, within SECONDS.
"""

import asyncio
import re
import socket
from collections.abc import Callable
from typing import Final

from gpuaas.core.errors import NotFound, Unavailable
from gpuaas.core.outside import outside_transaction
from gpuaas.environments.door.ways import pass_on
from gpuaas.environments.models import Environment
from gpuaas.environments.spec import ENVIRONMENTS, spec_of
from gpuaas.providers.base import Address, Carry

SECONDS, MOST = 10, 1 << 20
# what an answer that is none, or another one, leads to
NONSENSE: Final = (
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    OSError,
    RecursionError,
    asyncio.LimitOverrunError,
)
TOO_MUCH: Final = "its API answers with too much"
TEXT: Final = "text/plain"


def asker(
    row: Environment, *, accept: str = "application/json", seconds: float = 0
) -> Callable[[str], bytes]:
    """What answers a path with its body, of a 200 alone. Needs what `spec_of` needs. Raises the errors of the site, Unavailable
    where it does not answer, and NONSENSE."""
    outside_transaction()
    site = ENVIRONMENTS.at(row.site)
    if site is None:
        raise NotFound("the site offers no environments")
    spec = spec_of(row)
    return lambda path: asyncio.run(_answer(site.reach(spec), path, accept, seconds or SECONDS))


async def _answer(way: Address | Carry, path: str, accept: str, seconds: float) -> bytes:
    """The body of a 200 to one GET."""
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here, limit=MOST)
    far = await asyncio.open_connection(sock=there)
    carried = asyncio.create_task(pass_on(way, *far))
    asked = asyncio.create_task(_get(reader, writer, path, accept))
    try:
        async with asyncio.timeout(seconds):
            await asyncio.wait({carried, asked}, return_when=asyncio.FIRST_COMPLETED)
            if carried.done():
                carried.result()
                far[1].close()
            return await asked
    except TimeoutError as error:
        raise Unavailable(f"its API does not answer within {seconds:g} seconds") from error
    except EOFError as error:
        raise Unavailable("its API ends the connection without an answer") from error
    finally:
        for task in (carried, asked):
            task.cancel()
        await asyncio.gather(carried, asked, return_exceptions=True)
        writer.close()
        far[1].close()


async def _get(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, accept: str) -> bytes:
    # 1.1, in which an answer says where it ends
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n".encode()
    )
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status = head.split(" ", 2)[1]
    if not re.fullmatch(r"[0-9]{3}", status):  # it is written down, and a null character cannot be
        raise ValueError("no status")
    if status != "200":
        raise Unavailable(f"its API answers with {status[:3]}")
    if accept == TEXT and not _header(head, "content-type").lower().startswith(TEXT):
        raise Unavailable("its API answers with something else than text")
    if _header(head, "transfer-encoding").lower() == "chunked":
        return await _chunks(reader)
    length = _header(head, "content-length")
    if re.fullmatch(r"[0-9]{1,9}", length):
        if int(length) > MOST:
            raise Unavailable(TOO_MUCH)
        return await reader.readexactly(int(length))
    if accept == TEXT:  # what is counted must not be a part of it
        raise Unavailable("its API does not say where its answer ends")
    body = bytearray()
    while chunk := await reader.read(MOST):
        body += chunk
        if len(body) > MOST:
            raise Unavailable(TOO_MUCH)
    return bytes(body)


def _header(head: str, name: str) -> str:
    """Its first value, "" without."""
    found = re.search(rf"(?i)^{name}:[ \t]*(.*?)[ \t]*\r$", head, re.MULTILINE)
    return found[1] if found else ""


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        if not 0 < size <= MOST - len(body):
            raise Unavailable(TOO_MUCH)
        body += (await reader.readexactly(size + 2))[:-2]
    return bytes(body)
