"""What somebody asked to run by SSH in an environment, and its streams, each side waiting for the other."""

import secrets
from collections.abc import Sequence
from typing import Final

import asyncssh

from gpuaas.environments.door.ways import CHUNK
from gpuaas.providers.base import Size

# in the home, which survives, by the best shell of the image. $1: home, $2: kind of terminal, $3: command, $4: mark. This shell stays
# above it: containerd ends the input of a program that has closed its output (`cat > file`), and by its mark it is found
SHELL: Final = """export HOME="$1"; cd "$1" 2>/dev/null; if [ -n "$2" ]; then export TERM="$2"; fi
for SHELL in /bin/bash /bin/sh; do if [ -x "$SHELL" ]; then break; fi; done; export SHELL
if [ -n "$3" ]; then "$SHELL" -c "$3"; else "$SHELL" -l; fi; exit"""
# a terminal whose client has gone, which the site leaves open: that shell gets SIGHUP, and at its end the kernel sends that to what
# runs in front. $1: mark
HANG_UP: Final = """for each in /proc/[0-9]*; do
if [ "$each" != "/proc/$$" ] && grep -q "$1" "$each/cmdline" 2>/dev/null; then kill -HUP "${each#/proc/}"; fi; done"""
# a script whose words begin with $1 in the home
AT_HOME: Final = 'cd "$1" 2>/dev/null; shift; export LC_ALL=C; '


def at_home(home: str, script: str, words: Sequence[str]) -> tuple[str, ...]:
    return ("/bin/sh", "-c", AT_HOME + script, "sh", home, *words)


class Session:
    """One of a connection, as `Streams`."""

    def __init__(
        self,
        stdin: asyncssh.SSHReader[bytes],
        stdout: asyncssh.SSHWriter[bytes],
        stderr: asyncssh.SSHWriter[bytes],
    ) -> None:
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        self._mark = secrets.token_hex(8)
        columns, rows, *_ = self.channel.get_terminal_size()
        self._size = Size(columns, rows) if self.is_terminal and columns and rows else None

    @property
    def channel(self) -> asyncssh.SSHServerChannel[bytes]:
        channel = self._stdin.channel
        if not isinstance(channel, asyncssh.SSHServerChannel):
            raise TypeError("not of a server")
        return channel

    @property
    def is_terminal(self) -> bool:
        return bool(self.channel.get_terminal_type())

    def command(self, home: str) -> tuple[str, ...]:
        """Of the program that is to be started."""
        asked = self.channel.get_command() or ""
        return ("/bin/sh", "-c", SHELL, "sh", home, self.channel.get_terminal_type() or "", asked, self._mark)

    def hang_up(self) -> tuple[str, ...]:
        """The command that ends what runs in the terminal."""
        return ("/bin/sh", "-c", HANG_UP, "sh", self._mark)

    async def read(self) -> bytes | Size:
        if self._size is not None:
            size, self._size = self._size, None
            return size
        while True:
            try:
                return await self._stdin.read(CHUNK)
            except asyncssh.TerminalSizeChanged as changed:
                if 0 < changed.width < 1 << 16 and 0 < changed.height < 1 << 16:
                    return Size(changed.width, changed.height)
            except (asyncssh.BreakReceived, asyncssh.SignalReceived):
                continue  # a terminal sends its own as characters

    async def write(self, content: bytes, *, is_error: bool) -> None:
        to = self._stderr if is_error else self._stdout
        to.write(content)
        await to.drain()


class Unread:
    """Streams of a program without input, whose output nobody reads."""

    async def read(self) -> bytes:
        return b""

    async def write(self, content: bytes, *, is_error: bool) -> None:
        del content, is_error
