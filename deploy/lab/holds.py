"""Who uses which lab: a lab that a run of the tests started or found running is to end with the last run that uses it.

A run is the process whose number and identity GPUAAS_LAB_OWNER says. All of them have their files in one folder, one for each lab
that they use; that lab's own folder says which processes it has. Without an owner nothing is written: what a person starts stays.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.lab.files import CACHE, write_private
from deploy.lab.identity import identity

OWNER = "GPUAAS_LAB_OWNER"
HOME = "GPUAAS_LAB_HOME"  # each process of a lab has it: the folder that it belongs to
FOLDER = CACHE / "gpuaas-lab-processes"


@dataclass(frozen=True)
class Hold:
    """lab: the class that knows how to end what is in the folder, "" where no class does."""

    file: Path
    owner: str
    home: Path
    lab: str


def owner_of(pid: int) -> str:
    return f"{pid}@{identity(pid)}"


def is_over(owner: str) -> bool:
    pid, _, known = owner.partition("@")
    return not pid.isdecimal() or identity(int(pid)) != known


def hold(home: Path, lab: str = "") -> None:
    """To be called before anything is started in the folder, so that no moment to be killed at is the wrong one."""
    owner = os.environ.get(OWNER)
    if not owner:
        return
    digest = hashlib.sha256(f"{owner} {home}".encode()).hexdigest()[:12]
    file = FOLDER / f"{owner.partition('@')[0]}-{home.name}-{digest}.json"
    if lab or not file.exists():
        write_private(file, json.dumps({"owner": owner, "home": str(home), "lab": lab}))


def holds() -> list[Hold]:
    """Those of a folder before those of folders in it."""
    return sorted(_read(), key=lambda one: len(one.home.parts))


def forget(home: Path) -> None:
    """Nothing runs there any more, or below."""
    for one in _read():
        if one.home.is_relative_to(home):
            one.file.unlink(missing_ok=True)


@contextlib.contextmanager
def disowned() -> Iterator[None]:
    """What is started meanwhile outlives the run."""
    owner = os.environ.pop(OWNER, None)
    try:
        yield
    finally:
        if owner is not None:
            os.environ[OWNER] = owner


def _read() -> Iterator[Hold]:
    for file in FOLDER.glob("*.json"):
        with contextlib.suppress(OSError, ValueError):  # taken away this moment
            found = json.loads(file.read_text())
            yield Hold(file, found["owner"], Path(found["home"]), found["lab"])
