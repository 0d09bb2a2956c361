"""Advisory locks between processes, with a bounded wait."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from deploy.lab.errors import LabError


@contextlib.contextmanager
def locked(path: Path, *, limit: float, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Holds the lock file; `waiting` is called once when somebody else has it."""
    end = time.monotonic() + limit
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            if _try(file.fileno()):
                if _still_there(file.fileno(), path):
                    yield
                    return
                continue  # its folder was purged while we waited: lock the new file
        if waiting:
            waiting()
            waiting = None
        if time.monotonic() > end:
            raise LabError(f"another process has held {path} for {limit:.0f} s")
        time.sleep(0.1)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still_there(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
