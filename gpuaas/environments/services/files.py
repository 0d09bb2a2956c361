"""Small files in the home of an environment, up and down: the site starts a program for each request, and its answer is waited for.

It is called from a web request, so all is bounded: bytes, seconds, and how much is under way (decision 0122).
"""

import asyncio
import secrets
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from asgiref.sync import async_to_sync

from gpuaas.core.connections import connection_return
from gpuaas.core.errors import Conflict, NotFound, Unavailable
from gpuaas.core.outside import outside_transaction
from gpuaas.environments.door.passes import use_note
from gpuaas.environments.door.ways import CHUNK
from gpuaas.environments.home import (
    FILE_MOST,
    LISTED_MOST,
    Folder,
    command,
    end_require,
    file_path_read,
    listed,
    path_read,
)
from gpuaas.environments.models import Environment
from gpuaas.environments.services.access import shell_require
from gpuaas.environments.services.rows import ENVIRONMENT
from gpuaas.environments.spec import ENVIRONMENTS, FOR_SPEC, spec_of
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import FileOver, FileVerb, Run
from gpuaas.workspaces.spec import is_asleep
from tenants.actors import Actor

# a file of FILE_MOST over a slow site takes some of it
SECONDS: Final = 45
ERRORS_MOST: Final = 1 << 12
# at once, in one process and in one environment: each may hold a whole file in memory
AT_ONCE, OF_ONE = 8, 2


class _Full(Exception):
    """It writes more than is taken."""


class _Streams:
    """What a program is given, and the first `most` bytes that it writes."""

    def __init__(self, given: bytes, most: int) -> None:
        self.output, self.errors = bytearray(), b""
        self._given, self._most = memoryview(given), most

    async def read(self) -> bytes:
        part, self._given = self._given[:CHUNK], self._given[CHUNK:]
        return bytes(part)

    async def write(self, content: bytes, *, is_error: bool) -> None:
        if is_error:
            self.errors = (self.errors + content)[-ERRORS_MOST:]
            return
        room = self._most - len(self.output)
        self.output += content[:room]
        if len(content) > room:
            raise _Full


class _Places:
    """Of what is under way, by environment."""

    def __init__(self) -> None:
        self._taken: Counter[uuid.UUID] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def place(self, environment: uuid.UUID) -> Iterator[None]:
        """Raises Unavailable where there is none."""
        with self._lock:
            if self._taken[environment] >= OF_ONE or self._taken.total() >= AT_ONCE:
                raise Unavailable("other files are being copied: try again in a moment")
            self._taken[environment] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[environment] -= 1
                self._taken += Counter()  # forgets who has none


_places = _Places()


def folder_list(*, actor: Actor, environment: Environment, path: str = "") -> Folder:
    """ "" is the home. Raises Invalid at `path`, NotFound for what is not there, Conflict where it does not run, and the errors of
    the site. The same holds for all that follows."""
    found = path_read(path)
    words = (str(found) or ".",)
    output, cut = _asked(actor, environment, FileVerb.LIST, words, most=LISTED_MOST)
    return listed(found, output, cut=cut)


def file_read(*, actor: Actor, environment: Environment, path: str) -> bytes:
    """Its content. Raises Conflict for one of more than FILE_MOST bytes."""
    found = file_path_read(path)
    words = (found.folder, found.name, str(FILE_MOST))
    output, cut = _asked(actor, environment, FileVerb.READ, words, most=FILE_MOST)
    if cut:
        raise Conflict("the file has become larger meanwhile: copy it by scp")
    return output


def file_write(
    *, actor: Actor, environment: Environment, path: str, content: bytes, overwrite: bool = False
) -> None:
    """Whole or not at all. Raises Conflict for what is there already, unless a file may be replaced."""
    found = file_path_read(path, new=not overwrite)
    part = f".gpuaas-{secrets.token_hex(8)}.part"
    over = FileOver.NOTHING
    if overwrite:
        over = FileOver.EITHER if found.is_plain else FileOver.FILE
    words = (found.folder, found.name, str(len(content)), part, over)
    if len(content) > FILE_MOST:
        raise Conflict(f"a file of more than {FILE_MOST >> 20} MiB is copied by scp")
    _done(actor, environment, FileVerb.WRITE, words, given=content)
    after = {"path": str(found), "bytes": len(content), "overwrite": overwrite}
    ENVIRONMENT.audit(environment, actor, "file_upload", after=after)


def folder_make(*, actor: Actor, environment: Environment, path: str) -> None:
    found = file_path_read(path, new=True)
    _done(actor, environment, FileVerb.FOLDER, (found.folder, found.name))
    ENVIRONMENT.audit(environment, actor, "folder_create", after={"path": str(found)})


def file_remove(*, actor: Actor, environment: Environment, path: str) -> None:
    """A file, a link, or a folder in which nothing is."""
    found = file_path_read(path)
    _done(actor, environment, FileVerb.REMOVE, (found.folder, found.name))
    ENVIRONMENT.audit(environment, actor, "file_remove", before={"path": str(found)})


def _done(
    actor: Actor, environment: Environment, verb: FileVerb, words: tuple[str, ...], *, given: bytes = b""
) -> None:
    _, cut = _asked(actor, environment, verb, words, given=given, most=ERRORS_MOST)
    if cut:
        raise Conflict(
            "the environment answers what it was not asked, so it is not known whether it was done"
        )


def _asked(
    actor: Actor,
    environment: Environment,
    verb: FileVerb,
    words: tuple[str, ...],
    *,
    given: bytes = b"",
    most: int,
) -> tuple[bytes, bool]:
    """What the program wrote, and whether that was cut."""
    shell_require(actor, environment)
    outside_transaction()
    row = Environment.objects.select_related(*FOR_SPEC).get(pk=environment.pk)
    ENVIRONMENT.require(row, Verb.RUN)
    if is_asleep(row.workspace):
        raise Conflict("its workspace is suspended: resume it first")
    use_note([row.pk])
    streams = _Streams(given, most)
    with _places.place(row.pk):
        try:
            run = _run(row, verb, words)
            connection_return()
            code = async_to_sync(_ended)(run, streams)
        except _Full:
            return bytes(streams.output), True
        except NotFound as error:
            raise Conflict(f"the environment cannot be asked now: {error.message}") from error
    end_require(code, streams.errors)
    return bytes(streams.output), False


def _run(row: Environment, verb: FileVerb, words: tuple[str, ...]) -> Run:
    spec = spec_of(row)
    return ENVIRONMENTS.require(row.site).run(spec, command(spec.home, verb, *words), terminal=False)


async def _ended(run: Run, streams: _Streams) -> int:
    try:
        async with asyncio.timeout(SECONDS):
            return await run(streams)
    except TimeoutError as error:
        raise Unavailable(f"the environment does not answer within {SECONDS} seconds") from error
