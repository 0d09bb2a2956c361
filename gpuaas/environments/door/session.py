"""A session of SSH: what somebody asked to run in an environment, and its streams, each side waiting for the other."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import asyncssh

from gpuaas.providers.base import Size

WAITING_MOST = 1 << 20  # bytes that came and were not read yet
# in the home, which survives, by the best shell of the image. $1: home, $2: kind of terminal, $3: command, $4: mark
SHELL: Final = """export HOME="$1"; cd "$1" 2>/dev/null; if [ -n "$2" ]; then export TERM="$2" GPUAAS_SESSION="$4"; fi
for SHELL in /bin/bash /bin/sh; do if [ -x "$SHELL" ]; then break; fi; done; export SHELL
if [ -n "$3" ]; then exec "$SHELL" -c "$3"; else exec "$SHELL" -l; fi"""
SFTP: Final = """export HOME="$1"; cd "$1" 2>/dev/null
for each in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec /usr/lib
do if [ -x "$each/sftp-server" ]; then exec "$each/sftp-server"; fi; done
echo "gpuaas: this image has no sftp-server; tar and cat through ssh work with any image" >&2; exit 127"""

# a terminal whose client has gone, which the site leaves open: its first process gets SIGHUP, and at its end the kernel sends that
# to what runs in front. $1: mark
HANG_UP: Final = """for each in /proc/[0-9]*; do
if grep -q "GPUAAS_SESSION=$1" "$each/environ" 2>/dev/null && read -r _ _ _ _ _ session _ < "$each/stat"
then if [ "/proc/$session" = "$each" ]; then kill -HUP "$session"; fi; fi; done"""


class Session(asyncssh.SSHServerSession[bytes]):
    """serve: runs it by its streams, and returns the exit code. over: is told that nothing of it is left."""

    channel: asyncssh.SSHServerChannel[bytes]

    def __init__(
        self, serve: Callable[["Session"], Awaitable[int]], over: Callable[["Session"], None]
    ) -> None:
        self._serve, self._over = serve, over
        self._asked, self._is_sftp, self._terminal = "", False, ""
        self._came: asyncio.Queue[bytes | Size] = asyncio.Queue()
        self._waiting = 0
        self._size: Size | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None
        self._mark = secrets.token_hex(8)

    @property
    def is_terminal(self) -> bool:
        return bool(self._terminal) and not self._is_sftp

    def command(self, home: str) -> tuple[str, ...]:
        """Of the program that is to be started."""
        if self._is_sftp:
            return ("/bin/sh", "-c", SFTP, "sh", home)
        return ("/bin/sh", "-c", SHELL, "sh", home, self._terminal, self._asked, self._mark)

    def hang_up(self) -> tuple[str, ...]:
        """The command that ends what runs in the terminal."""
        return ("/bin/sh", "-c", HANG_UP, "sh", self._mark)

    # -- its streams -------------------------------------------------------------------------------------------------

    async def read(self) -> bytes | Size:
        content = await self._came.get()
        if isinstance(content, Size):
            newest, self._size = self._size or content, None
            return newest
        self._waiting -= len(content)
        if self._waiting < WAITING_MOST:
            self.channel.resume_reading()
        return content

    async def write(self, content: bytes, *, is_error: bool) -> None:
        await self._writable.wait()
        self.channel.write(content, asyncssh.EXTENDED_DATA_STDERR if is_error else None)

    # -- what asyncssh tells -----------------------------------------------------------------------------------------

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self.channel = chan

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        del term_modes
        self._terminal = term_type or "dumb"
        self.terminal_size_changed(*term_size)
        return True

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        self._asked = command
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        self._is_sftp = subsystem == "sftp"
        return self._is_sftp

    def session_started(self) -> None:
        self._task = asyncio.create_task(self._run())

    def data_received(self, data: bytes, datatype: Any) -> None:
        del datatype
        self._waiting += len(data)
        self._came.put_nowait(data)
        if self._waiting >= WAITING_MOST:
            self.channel.pause_reading()

    def eof_received(self) -> bool:
        """The output goes on."""
        self._came.put_nowait(b"")
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Of several that nobody has read the newest is enough."""
        del pixwidth, pixheight
        if 0 < width < 1 << 16 and 0 < height < 1 << 16:
            if self._size is None:
                self._came.put_nowait(Size(width, height))
            self._size = Size(width, height)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._task is not None:
            self._task.cancel()
        self._over(self)

    async def _run(self) -> None:
        try:
            self.channel.exit(await self._serve(self) & 0xFF)
        except (OSError, asyncssh.Error):  # the client has gone
            self.channel.close()


class Unread:
    """Streams of a program without input, whose output nobody reads."""

    async def read(self) -> bytes:
        return b""

    async def write(self, content: bytes, *, is_error: bool) -> None:
        del content, is_error
