"""The namespaces that are the node, and programs that run in them.

They live as long as their process 1: when it ends, the kernel ends every process, mount and interface with it.
"""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.lab.commands import output_of
from deploy.lab.errors import LabError
from deploy.lab.files import wait_limit
from deploy.lab.node.cgroups import Groups, trees
from deploy.lab.node.settings import HERE, NAME
from deploy.lab.processes import STOP_LIMIT_S, Process, resident_mib, wait_until

KINDS = ("--mount", "--net", "--pid", "--ipc", "--uts", "--cgroup")
HIDDEN = (Path("/run"), Path("/var/lib"), Path("/var/log"))  # the node has its own


class Inside(Process):
    """A program of the node. What is started here is its door, nsenter, which ends with it; `inner` is the program itself."""

    def inner(self) -> int | None:
        return first_child(self.pid())

    def memory_mib(self) -> int:
        return resident_mib(self.inner())

    def pause(self) -> None:
        self._inner_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._inner_signal(signal.SIGCONT)

    def stop(self, *, kill: bool = False) -> None:
        inner = self.inner()
        if inner is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(inner, signal.SIGKILL if kill else signal.SIGTERM)
                os.kill(inner, signal.SIGCONT)
            _wait_ended(inner)
        super().stop(kill=kill)
        if inner is not None:
            _wait_ended(inner)

    def _inner_signal(self, number: signal.Signals) -> None:
        inner = self.inner()
        if inner is None:
            raise LabError(f"{self.name} does not run")
        os.kill(inner, number)


class Machine:
    def __init__(self, state_dir: Path, tag: str, *, hold: Path) -> None:
        self.process = Process(state_dir, "node")
        self.groups = Groups(state_dir, f"gpuaas-node-{tag}")
        self._state_dir, self._hold = state_dir, hold

    def first(self) -> int | None:
        """Its process 1, as this machine counts; None until that has everything it is to have."""
        found = first_child(self.process.pid())
        with contextlib.suppress(OSError):
            if found and Path(f"/proc/{found}/comm").read_text().strip() == self._hold.name:
                return found
        return None

    def start(self) -> None:
        if hidden := next((one for one in HIDDEN if self._state_dir.is_relative_to(one)), None):
            raise LabError(f"the lab's folder cannot be in {hidden}: the node has one of its own there")
        self.process.stop()
        self.groups.make()
        around = {
            "PATH": os.environ.get("PATH", os.defpath),
            "NAME": NAME,
            "STATE": str(self._state_dir),
            "TREES": " ".join(tree.names for tree in trees()),
            "HOLD": str(self._hold),
        }
        alone = [_path("unshare"), *KINDS, "--fork", "--kill-child", "--mount-proc"]
        self.process.start(self._in_groups([*alone, "sh", str(HERE / "inside.sh")]), around)
        wait_until(lambda: self.first() is not None, "its process 1 does not begin", [self.process])

    def stop(self) -> None:
        """Pulls its plug."""
        first = first_child(self.process.pid())
        self.process.stop(kill=True)
        if first is not None:
            _wait_ended(first, limit=wait_limit())
        self.groups.remove()

    def command(self, program: Sequence[str]) -> list[str]:
        """What runs the program in the node."""
        first = self.first()
        if first is None:
            raise LabError("the node does not run")
        return self._in_groups([_path("nsenter"), "--target", str(first), "--all", "--", *program])

    def run(self, *program: str, environment: Mapping[str, str] | None = None) -> str:
        """To its end, in the node. What it wrote; raises LabError with its words where it failed."""
        return output_of(*self.command(program), environment=environment)

    def _in_groups(self, program: Sequence[str]) -> list[str]:
        """The groups are arguments, so that no name of a folder is read as a command."""
        enter = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit; shift; done; shift; exec "$@"'
        return [_path("sh"), "-c", enter, "enter", *map(str, self.groups.paths()), "--", *program]


def first_child(pid: int | None) -> int | None:
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None
    return None


def _wait_ended(pid: int, *, limit: float = STOP_LIMIT_S) -> None:
    end = time.monotonic() + limit
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)


def _path(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise LabError(f"no {name}: install util-linux")
    return found
