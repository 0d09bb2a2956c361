"""Processes found by what they were started with: nothing that a lab or a run of the tests starts escapes by a session of its own."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from deploy.lab.holds import HOME
from deploy.lab.processes import STOP_LIMIT_S

Wanted = Callable[[dict[str, str]], bool]


def of_lab(home: Path) -> Wanted:
    """Of what is in the folder or in one below."""
    return lambda environment: HOME in environment and Path(environment[HOME]).is_relative_to(home)


def leftovers_end(wanted: Wanted) -> int:
    """By SIGTERM; what is there still after a while by SIGKILL. What they start meanwhile is found too. How many it were."""
    told: set[int] = set()
    begun = time.monotonic()
    while time.monotonic() < begun + 2 * STOP_LIMIT_S:
        is_late, left = time.monotonic() > begun + STOP_LIMIT_S, 0
        for pid, process in leftovers(wanted):
            left += 1
            if is_late:
                _signal(process, signal.SIGKILL)
            elif pid not in told:
                _signal(process, signal.SIGTERM)
                _signal(process, signal.SIGCONT)  # a paused program would never see the other
            told.add(pid)
        if not left:
            break
        time.sleep(0.02)
    return len(told)


def leftovers(wanted: Wanted) -> Iterator[tuple[int, int]]:
    """Numbers of processes with such an environment, and handles on them, which no other process can get."""
    ours = _numbers_of(os.getpid())
    for pid in [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]:
        try:
            process = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            # in a container of its own, other processes have the numbers that it speaks of
            if pid != os.getpid() and _numbers_of(pid) == ours and wanted(_environment(pid)):
                yield pid, process
        finally:
            os.close(process)


def _numbers_of(pid: int) -> str:
    """The namespace where processes have their numbers; "" where we may not know."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def _environment(pid: int) -> dict[str, str]:
    """What it was started with; nothing where it ended or is somebody else's."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (word.decode(errors="surrogateescape").partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def _signal(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(process, number)
