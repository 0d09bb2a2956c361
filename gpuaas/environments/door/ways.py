"""From a socket of this machine to the pod: what Envoy connects to where no route of its own leads there."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from gpuaas.core.connections import in_thread, in_thread_of
from gpuaas.core.errors import GpuaasError, NotFound, Unavailable
from gpuaas.core.rows import one_or_none
from gpuaas.environments.models import Environment
from gpuaas.environments.spec import ENVIRONMENTS, FOR_SPEC, spec_of
from gpuaas.providers.base import Address, Carry, Environments, EnvironmentSpec

log = structlog.get_logger(__name__)
CONNECT_SECONDS, CHUNK = 10, 1 << 16
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
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def pass_on(way: Address | Carry, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one side ends. Raises the errors of core."""
    await (_connect(way, reader, writer) if isinstance(way, Address) else way(reader, writer))


async def _connect(way: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            from_pod, to_pod = await asyncio.open_connection(way.host, way.port)
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"no connection to {way.host}: is there a route to the site's pods?") from error
    try:
        both = [asyncio.create_task(_copy(reader, to_pod)), asyncio.create_task(_copy(from_pod, writer))]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for each in both:
            each.cancel()
        await asyncio.gather(*both, return_exceptions=True)
    finally:
        to_pod.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()


async def served(socket: Path, environment_id: uuid.UUID) -> asyncio.Server:
    """The folder of the socket is its owner's alone."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await carry(environment_id, reader, writer)

    return await asyncio.start_unix_server(connected, socket)
