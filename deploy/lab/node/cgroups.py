"""Control groups of the node: one in each tree, below the group of whoever starts the lab, so that its limits hold for the node too."""

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.files import write_private

ROOT = Path("/sys/fs/cgroup")
GONE_S = 20.0


@dataclass(frozen=True)
class Tree:
    """names: the controllers, as the kernel writes them (`cpu,cpuacct`, `name=systemd`). own: the group of this process."""

    names: str
    own: Path


def trees() -> list[Tree]:
    """Those of the first version of cgroups; none where the machine has only the second, which the node does not know."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, names, path = line.split(":", 2)
        mounted = ROOT / names.removeprefix("name=")
        if number != "0" and mounted.is_mount():
            found.append(Tree(names, mounted / path.strip("/")))
    return found


class Groups:
    """Written down before they are made, so that whoever stops the lab finds all of them."""

    def __init__(self, state_dir: Path, name: str) -> None:
        self._record = state_dir / "run" / "cgroups.json"
        self._name = name

    def paths(self) -> list[Path]:
        try:
            return [Path(path) for path in json.loads(self._record.read_text())]
        except (OSError, ValueError):
            return []

    def make(self) -> None:
        wanted = [tree.own / self._name for tree in trees()]
        write_private(self._record, json.dumps([str(path) for path in wanted]))
        for path in wanted:
            path.mkdir(exist_ok=True)
            for part in (
                "cpuset.cpus",
                "cpuset.mems",
            ):  # a new group of this tree has none, and takes no process
                if (path / part).exists():
                    (path / part).write_text((path.parent / part).read_text())

    def remove(self) -> None:
        """With whatever runs in them still, as where a start was killed before it wrote down what it had started."""
        end = time.monotonic() + GONE_S
        while left := [path for path in self.paths() if not _removed(path)]:
            for path in left:
                _kill(path)
            if time.monotonic() > end:
                raise LabError(f"control groups are in use still: {', '.join(map(str, left))}")
            time.sleep(0.05)
        self._record.unlink(missing_ok=True)


def _kill(group: Path) -> None:
    for path in _all(group):
        with contextlib.suppress(OSError):
            for pid in (path / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)


def _all(group: Path) -> list[Path]:
    """The deepest first."""
    return [*sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True), group]


def _removed(group: Path) -> bool:
    for path in _all(group):
        with contextlib.suppress(OSError):
            path.rmdir()
    return not group.exists()
