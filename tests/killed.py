"""SIGKILL at a chosen moment of what a forked process does."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from django.db import connections

KILLS = 9


def life(work: Callable[[], object], *, until: int, code: str) -> int:
    """Of a forked process that does `work`, killed at its moment number `until`; 0 if killed, else how many there were.

    A moment is a call or a return that code below the path `code` makes or meets, those of the interpreter's own functions
    (write, fsync, rename, …) included.
    """
    connections.close_all()
    heard, told = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=_live, args=(work, until, code, told))
    process.start()
    os.close(told)
    with os.fdopen(heard) as lines:
        said = lines.read()
    process.join(60)
    assert process.exitcode == (0 if said else -signal.SIGKILL)
    return int(said or 0)


def _live(work: Callable[[], object], until: int, code: str, told: int) -> None:
    moments = 0

    def look(frame: FrameType, _event: str, _about: object) -> None:
        nonlocal moments
        if frame.f_code.co_filename.startswith(code):
            moments += 1
            if moments == until:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)
    work()
    sys.setprofile(None)
    connections.close_all()
    os.write(told, str(moments).encode())
    os._exit(0)


def moments_of(total: int, kills: int = KILLS) -> list[int]:
    """From the first to the last, most of them near the end, where things get their names."""
    return sorted({1, *(total * step // kills for step in range(1, kills)), total - 12, total - 4, total})
