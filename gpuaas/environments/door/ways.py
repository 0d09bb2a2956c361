"""From a socket of this machine to the pod: what Envoy connects to where no route of its own leads there."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import structlog

from gpuaas.core.connections import in_thread, in_thread_of
from gpuaas.core.errors import GpuaasError, NotFound, Unavailable
from gpuaas.core.rows import one_or_none
from gpuaas.environments.models import Environment
from gpuaas.environments.spec import ENVIRONMENTS, FOR_SPEC, spec_of
from gpuaas.providers.base import Address, Carry, Environments, EnvironmentSpec

log = structlog.get_logger(__name__)
CONNECT_SECONDS, CHUNK = 10, 1 << 16
MOST = 1 << 20  # more than a reader holds
# with the time that calls to the same site take before it
SITE_SECONDS = 30
Done = TypeVar("Done")


def found(environment_id: uuid.UUID) -> tuple[Environments, EnvironmentSpec]:
    """The site's part and what it is asked with. Raises NotFound where there is none."""
    row = one_or_none(Environment.objects.select_related(*FOR_SPEC).filter(pk=environment_id))
    site = ENVIRONMENTS.at(row.site) if row is not None else None
    if row is None or site is None:
        raise NotFound("the site offers no environments")
    return site, spec_of(row)


async def at_site(environment_id: uuid.UUID, ask: Callable[[Environments, EnvironmentSpec], Done]) -> Done:
    """What the site answers. Asked without a connection to the database, in threads of the site: one that hangs takes those that
    wait for it, and nobody else. Raises NotFound where there is no way, and the errors of the site."""
    site, spec = await in_thread(found, environment_id)
    try:
        async with asyncio.timeout(SITE_SECONDS):
            return await in_thread_of(str(site.connection.site_id), ask, site, spec)
    except TimeoutError as error:
        raise Unavailable("the site does not answer") from error


async def carry(
    environment_id: uuid.UUID, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One connection. Its way is found anew, with the site's credentials and the pod's address of now; of a refusal Envoy is
    told no more than an end."""
    try:
        way = await at_site(environment_id, lambda site, spec: site.reach(spec))
        await pass_on(way, reader, writer)
    except GpuaasError as error:
        log.warning("door_no_way", environment=str(environment_id), error=error.message)
    except OSError as error:  # one side has gone
        log.debug("door_way_ended", environment=str(environment_id), error=type(error).__name__)
    finally:
        writer.close()


async def pass_on(way: Address | Carry, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one side ends. Raises the errors of core."""
    await (_connect(way, reader, writer) if isinstance(way, Address) else way(reader, writer))


async def _connect(way: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    near, ended = cast("asyncio.Transport", writer.transport), loop.create_future()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            far, _ = await loop.create_connection(lambda: _Side(near, ended), way.host, way.port)
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"no connection to {way.host}: is there a route to the site's pods?") from error
    try:
        asked = await reader.read(MOST)
        if asked and not reader.at_eof() and not far.is_closing():
            near.set_protocol(_Side(far, ended))
            far.write(asked)
            await ended
    finally:
        far.close()


class _Side(asyncio.Protocol):
    """One side of a connection. What it gets is passed on in the same turn of the loop; the other side slows it, and ends with it."""

    def __init__(self, other: asyncio.Transport, ended: "asyncio.Future[None]") -> None:
        self.other, self.ended = other, ended

    def data_received(self, data: bytes) -> None:
        self.other.write(data)

    def pause_writing(self) -> None:
        self.other.pause_reading()

    def resume_writing(self) -> None:
        self.other.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        self.other.close()
        if not self.ended.done():
            self.ended.set_result(None)


async def served(socket: Path, environment_id: uuid.UUID) -> asyncio.Server:
    """The folder of the socket is its owner's alone."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await carry(environment_id, reader, writer)

    return await asyncio.start_unix_server(connected, socket)
