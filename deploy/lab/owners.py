"""A run of the tests leaves nothing running, however it ends: `own` at its beginning, and a keeper beside it sees to the rest.

What a run has started is found in two ways: labs by the files of `holds`, and processes by what is in their environment, so that none
escapes by a session of its own.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.lab.errors import LabError
from deploy.lab.holds import FOLDER, OWNER, Hold, forget, holds, is_over, owner_of
from deploy.lab.leftovers import leftovers, leftovers_end, of_lab
from deploy.lab.processes import Process

CHECKOUT = str(Path(__file__).resolve().parents[2])
KEEP = "GPUAAS_LAB_KEEP"


def own() -> None:
    """From now on all labs that this process and its children use end with it. Nothing changes where a process that called this
    is above, or where GPUAAS_LAB_KEEP is set."""
    if os.environ.get(KEEP) or not is_over(os.environ.get(OWNER, "")):
        return
    os.environ.pop(OWNER, None)
    owner = owner_of(os.getpid())
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    log, flags = str(FOLDER / "keeper.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "deploy.lab.keeper", owner],
        {**os.environ, "PYTHONPATH": CHECKOUT},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    os.environ[OWNER] = owner


def orphans_end(*, also: str = "") -> int:
    """Ends what runs have left that are over, labs included that no other run uses; and the labs of the owner `also`, as if its run
    were over. How many processes it were."""
    ended = leftovers_end(lambda environment: OWNER in environment and is_over(environment[OWNER]))
    for one in holds():
        if one.file.exists() and _lab_is_left(one, also):
            ended += _lab_end(one, also)
    return ended


def _lab_is_left(found: Hold, also: str) -> bool:
    """Whether no run goes on that uses it, or something in it, or something that it is in."""
    homes = (one for one in holds() if one.owner != also and not is_over(one.owner))
    return not any(
        one.home.is_relative_to(found.home) or found.home.is_relative_to(one.home) for one in homes
    )


def _lab_end(found: Hold, also: str) -> int:
    ended = sum(1 for _ in leftovers(of_lab(found.home)))
    try:
        _in_order(found, lambda: not _lab_is_left(found, also))
    except (LabError, OSError, ValueError) as error:  # whoever comes next tries again
        print(f"{found.home}: {error}", file=sys.stderr, flush=True)
    return ended


def _in_order(found: Hold, is_used: Callable[[], bool]) -> None:
    """As the lab itself would: with what is more than processes, such as interfaces and control groups."""
    kind = _kind(found.lab)
    if kind is not None and found.home.exists():
        kind(state_dir=found.home).down(unless=is_used)
        return
    for record in sorted((found.home / "run").glob("*.json")):
        Process(found.home, record.stem).stop()
    leftovers_end(of_lab(found.home))
    forget(found.home)


def _kind(lab: str) -> Any:
    """None where no class is known that has it, as where another checkout wrote the name."""
    module, _, name = lab.partition(":")
    with contextlib.suppress(ImportError, AttributeError):
        return getattr(importlib.import_module(module), name) if module else None
    return None
