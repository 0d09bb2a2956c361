"""From a socket of this machine to the pod: what Envoy connects to where no route of its own leads there."""

import asyncio
import contextlib
import uuid
from pathlib import Path

import structlog

from gpuaas.core.errors import GpuaasError, NotFound
from gpuaas.environments.door.threads import in_thread
from gpuaas.environments.models import Environment
from gpuaas.environments.spec import environments_at, spec_of
from gpuaas.providers.base import Address, Carry

log = structlog.get_logger(__name__)
READS = ("site", "workspace", "made_of", "pool")


def reach(environment_id: uuid.UUID) -> Address | Carry:
    """Raises NotFound where there is no way, and the errors of the site."""
    row = Environment.objects.select_related(*READS).filter(pk=environment_id).first()
    site = environments_at(row.site) if row is not None else None
    if row is None or site is None:
        raise NotFound("the site offers no environments")
    return site.reach(spec_of(row))


async def carry(environment_id: uuid.UUID, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection. Its way is found anew, with the site's credentials of now; an end is all that Envoy is told of a
    refusal."""
    try:
        way = await in_thread(reach, environment_id)
        if not isinstance(way, Address):
            await way(reader, writer)
    except (GpuaasError, OSError) as error:
        words = error.message if isinstance(error, GpuaasError) else type(error).__name__
        log.warning("door_no_way", environment=str(environment_id), error=words)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def served(socket: Path, environment_id: uuid.UUID) -> asyncio.Server:
    """The folder of the socket is its owner's alone."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await carry(environment_id, reader, writer)

    return await asyncio.start_unix_server(connected, socket)
