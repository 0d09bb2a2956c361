"""Small files in the home of an environment, up and down: the site starts a program for each request, and its answer is waited for.

It is called from a web request, so all is bounded: bytes, seconds, and how much is under way (decision 0122).
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from asgiref.sync import async_to_sync

from gpuaas.core.connections import connection_return
from gpuaas.core.errors import Conflict, NotFound, Unavailable
from gpuaas.core.outside import outside_transaction
from gpuaas.core.places import Limit, Places
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
# at once in one process; each may hold a whole file in memory. A program of somebody else may never end, so that nobody and no
# site has all places
AT_ONCE, OF_SITE, OF_PERSON, OF_ONE = 8, 6, 3, 2
OTHERS: Final = "other files are being copied: try again in a moment"
YOURS: Final = f"you have {OF_PERSON} files or folders under way: try again when one has ended"
_places = Places(Unavailable)


class _Full(Exception):
    """It writes more than is taken."""


class _Unsure(Unavailable):
    """It may have been done."""


class _Streams:
    """What a program is given, and the first `most` bytes that it writes. begun: it has been started, since it is asked what it
    reads."""

    def __init__(self, most: int, given: bytes = b"") -> None:
        self.output, self.errors, self.begun = bytearray(), b"", False
        self._given, self._most = memoryview(given), most

    async def read(self) -> bytes:
        self.begun = True
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


def folder_list(*, actor: Actor, environment: Environment, path: str = "") -> Folder:
    """ "" is the home. Raises Invalid at `path`, NotFound for what is not there, Conflict where it does not run, and the errors of
    the site. The same holds for all that follows."""
    found = path_read(path)
    streams = _Streams(LISTED_MOST)
    with _entered(actor, environment) as row:
        cut = _asked(row, FileVerb.LIST, (str(found) or ".",), streams)
    return listed(found, bytes(streams.output), cut=cut)


def file_read(*, actor: Actor, environment: Environment, path: str) -> bytes:
    """Its content. Raises Conflict for one of more than FILE_MOST bytes."""
    found = file_path_read(path)
    streams = _Streams(FILE_MOST)
    with _entered(actor, environment) as row:
        if _asked(row, FileVerb.READ, (found.folder, found.name, str(FILE_MOST)), streams):
            raise Conflict("the file has become larger meanwhile: copy it by scp")
    return bytes(streams.output)


def file_write(
    *,
    actor: Actor,
    environment: Environment,
    path: str,
    read: Callable[[int], bytes],
    overwrite: bool = False,
) -> None:
    """Whole or not at all; `read` as of a file, and so much is asked of it. Raises Conflict for what is there already, unless a
    file may be replaced."""
    found = file_path_read(path, new=not overwrite)
    over = FileOver.NOTHING
    if overwrite:
        over = FileOver.EITHER if found.is_plain else FileOver.FILE
    with _entered(actor, environment) as row:
        content = read(FILE_MOST + 1)
        if len(content) > FILE_MOST:
            raise Conflict(f"a file of more than {FILE_MOST >> 20} MiB is copied by scp")
        part = f".gpuaas-{secrets.token_hex(8)}.part"
        words = (found.folder, found.name, str(len(content)), part, over)
        with _audited(row, actor, "file_upload", path=str(found), bytes=len(content), overwrite=overwrite):
            _done(row, FileVerb.WRITE, words, content)


def folder_make(*, actor: Actor, environment: Environment, path: str) -> None:
    found = file_path_read(path, new=True)
    with _entered(actor, environment) as row, _audited(row, actor, "folder_create", path=str(found)):
        _done(row, FileVerb.FOLDER, (found.folder, found.name))


def file_remove(*, actor: Actor, environment: Environment, path: str) -> None:
    """A file, a link, or a folder in which nothing is."""
    found = file_path_read(path)
    with _entered(actor, environment) as row, _audited(row, actor, "file_remove", path=str(found)):
        _done(row, FileVerb.REMOVE, (found.folder, found.name))


def file_move(*, actor: Actor, environment: Environment, path: str, to: str) -> None:
    """Whatever it is, to another name or folder of the home. Raises Invalid at `to`, and Conflict for what is there already."""
    found, goal = file_path_read(path), file_path_read(to, at="to", new=True)
    with (
        _entered(actor, environment) as row,
        _audited(row, actor, "file_move", path=str(found), to=str(goal)),
    ):
        _done(row, FileVerb.MOVE, (found.folder, found.name, goal.folder, goal.name))


@contextmanager
def _entered(actor: Actor, environment: Environment) -> Iterator[Environment]:
    """With a place in it. Raises Unavailable where there is none."""
    shell_require(actor, environment)
    outside_transaction()
    row = Environment.objects.select_related(*FOR_SPEC).get(pk=environment.pk)
    ENVIRONMENT.require(row, Verb.RUN)
    if is_asleep(row.workspace):
        raise Conflict("its workspace is suspended: resume it first")
    use_note([row.pk])
    limits = (
        Limit(("environment", row.pk), OF_ONE, OTHERS),
        Limit(("person", actor.user_id), OF_PERSON, YOURS),
        Limit(("site", row.site.pk), OF_SITE, OTHERS),
        Limit("all", AT_ONCE, OTHERS),
    )
    with _places.take(*limits):
        yield row


@contextmanager
def _audited(row: Environment, actor: Actor, action: str, **values: str | int) -> Iterator[None]:
    """Also where it is not known whether it was done; then the audit log says so."""
    try:
        yield
    except _Unsure:
        ENVIRONMENT.audit(row, actor, action, after={**values, "outcome": "not known"})
        raise
    ENVIRONMENT.audit(row, actor, action, **{"before" if "remove" in action else "after": values})


def _done(row: Environment, verb: FileVerb, words: tuple[str, ...], given: bytes = b"") -> None:
    """Raises _Unsure where it was begun and has perhaps been done."""
    streams = _Streams(ERRORS_MOST, given)
    why = "the environment answers what it was not asked"
    try:
        if not _asked(row, verb, words, streams):
            return
    except Unavailable as error:
        if not streams.begun:
            raise
        why = error.message
    raise _Unsure(f"{why}: it is not known whether it was done, so look before you try again")


def _asked(row: Environment, verb: FileVerb, words: tuple[str, ...], streams: _Streams) -> bool:
    """Whether it wrote more than is taken."""
    try:
        run = _run(row, verb, words)
        connection_return()
        code = async_to_sync(_ended)(run, streams)
    except _Full:
        return True
    except NotFound as error:
        raise Conflict(f"the environment cannot be asked now: {error.message}") from error
    end_require(code, streams.errors, verb, *words)
    return False


def _run(row: Environment, verb: FileVerb, words: tuple[str, ...]) -> Run:
    spec = spec_of(row)
    return ENVIRONMENTS.require(row.site).run(spec, command(spec.home, verb, *words), terminal=False)


async def _ended(run: Run, streams: _Streams) -> int:
    try:
        async with asyncio.timeout(SECONDS):
            return await run(streams)
    except TimeoutError as error:
        raise Unavailable(f"the environment does not answer within {SECONDS} seconds") from error
