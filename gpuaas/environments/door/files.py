"""sftp, and so scp, in an environment: each request by a small program in the pod, so that any image with `sh`, `stat` and `find` will do.

Nothing here is asked of the door's own files: every method of asyncssh's server, which would, is another one here, and a test
counts them. Files are read and written from one end to the other.
"""

import asyncio
import os
import re
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import asyncssh
import structlog

from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import Streams

log = structlog.get_logger(__name__)
PARTS_MOST = 16  # that wait to be written
# of what a program writes: whoever owns the image decides what that is, and the door is everybody's
OUTPUT_MOST, ERRORS_MOST = 1 << 24, 1 << 12
LOOK: Final = "%f %s %u %g %X %Y"
LATEST: Final = (1 << 32) - 1  # of a time in version 3 of the protocol, whose first is 0
LOOKED: Final = re.compile(rb"([0-9a-f]+) (\d+) (\d+) (\d+) (-?\d+) (-?\d+)(?: \./(.*))?", re.DOTALL)
MISSING, DENIED = re.compile(b"(?i)no such file|nonexistent"), re.compile(b"(?i)permission denied")
THERE = re.compile(b"(?i)file exists")
NOT_THERE: Final = 'if [ -e "$2" ] || [ -L "$2" ]; then echo "File exists" >&2; exit 1; fi; '
NO_FOLDER: Final = 'if [ -d "$1" ]; then echo "it is a folder" >&2; exit 1; fi; '
# in place of a link to a folder, into which `mv` would move it; where the image's `mv` lacks -T it is refused
OVER: Final = """if [ -d "$2" ] && [ -L "$2" ]; then mv -fT -- "$1" "$2"; exit; fi
if [ -d "$2" ]; then rmdir -- "$2" || exit 1; fi; mv -f -- "$1" "$2\""""

Run = Callable[[str, Sequence[str], Streams], Awaitable[int]]


@dataclass
class Said:
    """What a program wrote that has no input."""

    output: bytes = b""
    errors: bytes = b""

    async def read(self) -> bytes:
        return b""

    async def write(self, content: bytes, *, is_error: bool) -> None:
        if is_error:
            self.errors = (self.errors + content)[-ERRORS_MOST:]
        else:
            await self.took(content)

    async def took(self, content: bytes) -> None:
        if len(self.output) + len(content) > OUTPUT_MOST:
            raise asyncssh.SFTPFailure("there is too much to tell")
        self.output += content


@dataclass
class Flow(Said):
    """What goes to a program in parts, b"" at the end: each side waits for the other."""

    parts: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(PARTS_MOST))

    async def read(self) -> bytes:
        return await self.parts.get()


class Coming(Flow):
    """What comes from it."""

    async def read(self) -> bytes:
        return b""

    async def took(self, content: bytes) -> None:
        await self.parts.put(content)


@dataclass
class Open:
    """A file that is read or written. size: when it was opened to be written; position: of the next byte; work: the program that does
    it, which begins with the first part. is_appended: at its end, whatever the position."""

    path: bytes
    flow: Flow = field(default_factory=Flow)
    work: "asyncio.Task[int] | None" = None
    size: int = 0
    position: int = 0
    rest: bytes = b""
    is_appended: bool = False


async def _refused(*given: Any, **named: Any) -> NoReturn:
    del given, named
    raise _unsupported()


def _never(*given: Any, **named: Any) -> NoReturn:
    """Paths are those of the pod, and none is one of the door's."""
    del given, named
    raise _unsupported()


class Files(asyncssh.SFTPServer):
    """run: a script with its words, in the home of the environment; returns its exit code."""

    map_path = reverse_map_path = _never
    open56 = lsetstat = lock = unlock = statvfs = fstatvfs = _refused

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], run: Run) -> None:
        super().__init__(channel)
        self._run = run
        self._opened: set[asyncio.Task[int]] = set()

    # -- what is there -----------------------------------------------------------------------------------------------

    async def realpath(self, path: bytes) -> bytes:
        return (await self._do('readlink -f -- "$1"', path)).removesuffix(b"\n")

    async def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        return _looked(await self._do(f"stat -L -c '{LOOK}' -- \"$1\"", path))

    async def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
        return _looked(await self._do(f"stat -c '{LOOK}' -- \"$1\"", path))

    async def fstat(self, file_obj: object) -> asyncssh.SFTPAttrs:
        return await self.stat(_of(file_obj).path)

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        """A name with a new line in it is shown up to there."""
        look = f"find . -mindepth 1 -maxdepth 1 -exec stat -c '{LOOK} %n' {{}} +"
        for line in (await self._do(f'cd -- "$1" && {look}', path)).splitlines():
            if (found := LOOKED.fullmatch(line)) and found[7]:
                yield asyncssh.SFTPName(found[7], attrs=_looked(line))

    async def readlink(self, path: bytes) -> bytes:
        return (await self._do('readlink -- "$1"', path)).removesuffix(b"\n")

    def format_user(self, uid: int | None) -> str:
        return str(uid or 0)

    def format_group(self, gid: int | None) -> str:
        return str(gid or 0)

    # -- what changes ------------------------------------------------------------------------------------------------

    async def remove(self, path: bytes) -> None:
        await self._do(f'if [ ! -L "$1" ]; then {NO_FOLDER}fi; rm -- "$1"', path)

    async def mkdir(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        await self._do('mkdir -- "$1"', path)
        await self.setstat(path, attrs)

    async def rmdir(self, path: bytes) -> None:
        await self._do('rmdir -- "$1"', path)

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Never over something that is there (section 6.5 of draft-ietf-secsh-filexfer-02)."""
        await self._do(f'{NOT_THERE}mv -- "$1" "$2"', oldpath, newpath)

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        await self._do(OVER, oldpath, newpath)

    async def symlink(self, oldpath: bytes, newpath: bytes) -> None:
        await self._do(f'{NOT_THERE}ln -s -- "$1" "$2"', oldpath, newpath)

    async def link(self, oldpath: bytes, newpath: bytes) -> None:
        await self._do(f'{NOT_THERE}ln -- "$1" "$2"', oldpath, newpath)

    async def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Sizes, modes and times; owners stay, as nobody in an environment may give files away."""
        if attrs.size is not None:
            await self._do('truncate -s "$2" -- "$1"', path, str(attrs.size).encode())
        if attrs.permissions is not None:
            await self._do('chmod "$2" -- "$1"', path, f"{stat.S_IMODE(attrs.permissions):o}".encode())
        if attrs.mtime is not None:
            await self._do('touch -d "@$2" -- "$1"', path, str(int(attrs.mtime)).encode())

    async def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> None:
        found = _of(file_obj)
        await self._finish(found)
        await self.setstat(found.path, attrs)

    # -- files -------------------------------------------------------------------------------------------------------

    async def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        """What cannot be read or written is refused now, not with the first part. A mode is that of a new file alone."""
        if not pflags & asyncssh.FXF_WRITE:
            await self._do(f'{NO_FOLDER}exec 3< "$1"', path)
            return Open(path, Coming())
        if pflags & asyncssh.FXF_READ:
            raise _unsupported()
        new = "" if pflags & asyncssh.FXF_CREAT else '[ -e "$1" ] || { echo "No such file" >&2; exit 1; }; '
        only = "set -C; " if pflags & asyncssh.FXF_EXCL else ""
        into = ">" if pflags & (asyncssh.FXF_TRUNC | asyncssh.FXF_EXCL) else ">>"
        made = await self._do(f'{NO_FOLDER}{new}{only}[ -e "$1" ] || echo new; : {into} "$1"', path)
        if made and attrs.permissions is not None:
            await self.setstat(path, asyncssh.SFTPAttrs(permissions=attrs.permissions))
        size = (await self.stat(path)).size or 0
        return Open(path, size=size, is_appended=bool(pflags & asyncssh.FXF_APPEND))

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        found = _of(file_obj)
        if found.work is None or offset != found.position:
            await self._stop(found)
            found.flow, found.rest, found.position = Coming(), b"", offset
            self._begin(found, 'tail -c "+$2" -- "$1"', str(offset + 1).encode())
        while len(found.rest) < size and (part := await self._part(found)):
            found.rest += part
        content, found.rest = found.rest[:size], found.rest[size:]
        found.position += len(content)
        return content

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """From the beginning or the end on. `1<>` keeps what is there: scp cuts the file to its length afterwards."""
        found = _of(file_obj)
        if not data:  # which would be the end
            return 0
        if found.work is None and (found.is_appended or offset in {0, found.size}):
            # with a shell above it, as in session.py
            self._begin(found, f'cat {">>" if offset or found.is_appended else "1<>"} "$1"; exit')
            found.position = offset
        if found.work is None or (offset != found.position and not found.is_appended):
            raise asyncssh.SFTPOpUnsupported("a file is written from its beginning or its end on")
        put = asyncio.ensure_future(found.flow.parts.put(data))
        await asyncio.wait([put, self._working(found)], return_when=asyncio.FIRST_COMPLETED)
        if not put.done():  # nobody reads any more
            put.cancel()
            await self._finish(found)
        found.position += len(data)
        return len(data)

    async def close(self, file_obj: object) -> None:
        await self._finish(_of(file_obj))

    async def fsync(self, file_obj: object) -> None:
        del file_obj

    async def exit(self) -> None:
        """The client has asked for all that it wanted, or has gone. scp takes an end without an exit code for a failure."""
        for task in self._opened:
            task.cancel()
        await asyncio.gather(*self._opened, return_exceptions=True)
        if not self.channel.is_closing():
            self.channel.exit(0)

    # -- programs ----------------------------------------------------------------------------------------------------

    def _begin(self, found: Open, script: str, *words: bytes) -> None:
        found.work = asyncio.ensure_future(self._run(script, _words(found.path, *words), found.flow))
        self._opened.add(found.work)
        found.work.add_done_callback(self._opened.discard)

    def _working(self, found: Open) -> "asyncio.Task[int]":
        if found.work is None:
            raise asyncssh.SFTPFailure("it is not open")
        return found.work

    async def _part(self, found: Open) -> bytes:
        """The next one, b"" at the end. Raises SFTPError where the program failed."""
        work = self._working(found)
        got = asyncio.ensure_future(found.flow.parts.get())
        await asyncio.wait([got, work], return_when=asyncio.FIRST_COMPLETED)
        if got.done():
            return got.result()
        got.cancel()
        if not found.flow.parts.empty():
            return found.flow.parts.get_nowait()
        _code_require(await _ended(work), found.flow.errors)
        return b""

    async def _finish(self, found: Open) -> None:
        """What was written is in the file then. Raises SFTPError where it is not."""
        if isinstance(found.flow, Coming):
            await self._stop(found)
        elif found.work is not None:
            work, found.work = found.work, None
            put = asyncio.ensure_future(found.flow.parts.put(b""))
            await asyncio.wait([work])
            put.cancel()
            _code_require(await _ended(work), found.flow.errors)

    async def _stop(self, found: Open) -> None:
        if found.work is not None:
            found.work.cancel()
            await asyncio.gather(found.work, return_exceptions=True)
            found.work = None

    async def _do(self, script: str, *words: bytes) -> bytes:
        """What it writes. Raises SFTPError."""
        said = Said()
        with _in_words():
            code = await self._run(script, _words(*words), said)
        _code_require(code, said.errors)
        return said.output


def _words(*words: bytes) -> tuple[str, ...]:
    return tuple(os.fsdecode(word) for word in words)


def _of(file_obj: object) -> Open:
    if not isinstance(file_obj, Open):
        raise asyncssh.SFTPFailure("it is not open")
    return file_obj


def _looked(line: bytes) -> asyncssh.SFTPAttrs:
    found = LOOKED.fullmatch(line.removesuffix(b"\n"))
    if found is None:
        raise asyncssh.SFTPFailure("the image's stat says something else")
    size, uid, gid, *times = map(int, found.groups()[1:6])
    accessed, changed = (min(max(each, 0), LATEST) for each in times)
    mode = int(found[1], 16)
    return asyncssh.SFTPAttrs(
        size=size, uid=uid, gid=gid, permissions=mode, atime=accessed, mtime=changed, nlink=1
    )


async def _ended(work: "asyncio.Task[int]") -> int:
    with _in_words():
        return await work


@contextmanager
def _in_words() -> Iterator[None]:
    """asyncssh sends its client the text of any other error. Raises SFTPError."""
    try:
        yield
    except GpuaasError as error:
        raise asyncssh.SFTPFailure(error.message) from error
    except asyncssh.Error:
        raise
    except Exception as error:
        log.warning("door_failed", error=type(error).__name__)
        raise asyncssh.SFTPFailure("the portal could not do it: try again") from error


def _code_require(code: int, errors: bytes) -> None:
    if not code:
        return
    words = errors.decode(errors="replace").strip()[-300:] or f"it ended with code {code}"
    if MISSING.search(errors):
        raise asyncssh.SFTPNoSuchFile(words)
    if DENIED.search(errors):
        raise asyncssh.SFTPPermissionDenied(words)
    if THERE.search(errors):
        raise asyncssh.SFTPFileAlreadyExists(words)
    raise asyncssh.SFTPFailure(words)


def _unsupported() -> asyncssh.SFTPError:
    return asyncssh.SFTPOpUnsupported("not in environments")
