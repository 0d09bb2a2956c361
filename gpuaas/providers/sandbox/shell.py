"""What a program in a simulated environment does: a terminal repeats each line, anything else its input."""

from collections.abc import Sequence

from gpuaas.providers.base import Size, Streams

PROMPT, END, ENTER = b"$ ", b"\x04", b"\r"
ASKED = 6  # of the words with which the door starts a shell, what somebody typed


async def run(place: str, command: Sequence[str], streams: Streams, *, terminal: bool) -> int:
    """The exit code. `exit N` ends with that code, and what else is asked for without a terminal is written as an error."""
    asked = command[ASKED] if len(command) > ASKED else ""
    told = f"This site is simulated: nothing runs in {place}."
    if terminal and not asked:
        return await _repeat(f"{told} It repeats each line until `exit`.", streams)
    if asked.startswith("exit "):
        return int(asked.removeprefix("exit "))
    await streams.write(f"{told} It was asked for: {asked}\n".encode(), is_error=True)
    while content := await streams.read():
        if isinstance(content, bytes):
            await streams.write(content, is_error=False)
    return 0


async def _repeat(told: str, streams: Streams) -> int:
    """As a terminal does: what is typed is shown."""
    await streams.write(told.encode() + b"\r\n" + PROMPT, is_error=False)
    line = b""
    while content := await streams.read():
        if isinstance(content, Size):
            await streams.write(f"[{content.columns} x {content.rows}] ".encode(), is_error=False)
            continue
        await streams.write(content.replace(ENTER, b"\r\n"), is_error=False)
        *whole, line = (line + content).split(ENTER)
        for each in whole:
            if each.strip() == b"exit":
                return 0
            await streams.write(each + b"\r\n" + PROMPT, is_error=False)
        if END in line:
            return 0
    return 0
