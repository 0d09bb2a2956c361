"""Programs that outlive the process which started them, found again by pid and start time."""

import contextlib
import http.client
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.lab.errors import LabError
from deploy.lab.files import wait_limit, write_private
from deploy.lab.holds import HOME, hold
from deploy.lab.identity import identity, is_of_this_boot

STOP_LIMIT_S = 3.0  # an API server would wait a minute for its watchers to leave


@dataclass(frozen=True)
class ProgramStatus:
    name: str
    pid: int | None
    memory_mib: int


class Process:
    """One program of one lab. A pid that was given to another program since is never taken for ours."""

    def __init__(self, state_dir: Path, name: str, *, stop_limit: float = STOP_LIMIT_S) -> None:
        self.name = name
        self._stop_limit = stop_limit
        self.log = state_dir / "log" / f"{name}.log"
        self._record = state_dir / "run" / f"{name}.json"
        self._home = state_dir.absolute()

    def pid(self) -> int | None:
        """None where it does not run."""
        saved = self._saved()
        # without an identity it had ended before it was written down
        if not saved or not saved["identity"] or identity(saved["pid"]) != saved["identity"]:
            return None
        return int(saved["pid"])

    def runs(self, command: Sequence[str]) -> bool:
        """Whether it runs, and with these very arguments."""
        return self.pid() is not None and self._saved()["command"] == list(command)

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """In a session of its own; with no environment but what is given, PATH and whose it is: programs read settings there."""
        for path in (self.log, self._record):
            path.parent.mkdir(parents=True, exist_ok=True)
        hold(self._home)
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.before"))
        pid = os.posix_spawn(
            command[0],
            list(command),
            {"PATH": os.defpath, "HOME": str(self._home), HOME: str(self._home), **(environment or {})},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM],
        )
        record = {"pid": pid, "identity": identity(pid), "command": list(command)}
        write_private(self._record, json.dumps(record))

    def stop(self, *, kill: bool = False) -> None:
        """Returns when it is gone; `kill` gives it no chance to say goodbye."""
        saved = self._saved()
        if not kill and self._signal(signal.SIGTERM):
            self._signal(signal.SIGCONT)  # a paused program would never see the signal
            self._wait_gone(self._stop_limit)
        if self._signal(signal.SIGKILL):
            self._wait_gone(STOP_LIMIT_S)
        if saved and self.pid() is None:
            _end_workers(int(saved["pid"]), saved["identity"])
        if self.pid():
            raise LabError(f"{self.name} (pid {self.pid()}) does not end")
        self._record.unlink(missing_ok=True)

    def pause(self) -> None:
        """It keeps its connections and answers nothing, as a machine that hangs."""
        if not self._signal(signal.SIGSTOP):
            raise LabError(f"{self.name} does not run")

    def resume(self) -> None:
        if not self._signal(signal.SIGCONT):
            raise LabError(f"{self.name} does not run")

    def memory_mib(self) -> int:
        return resident_mib(self.pid())

    def log_end(self, lines: int = 25) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(it wrote no log)"

    def _saved(self) -> dict[str, Any]:
        try:
            saved: dict[str, Any] = json.loads(self._record.read_text())
        except (OSError, ValueError):
            return {}
        return saved

    def _signal(self, number: signal.Signals) -> bool:
        pid = self.pid()
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return True

    def _wait_gone(self, limit: float) -> None:
        end = time.monotonic() + limit
        while self.pid() and time.monotonic() < end:
            time.sleep(0.02)


def wait_until(
    probe: Callable[[], bool],
    problem: str,
    programs: Sequence[Process],
    *,
    fatal: Callable[[Exception], bool] = lambda _: False,
) -> None:
    """Returns when `probe` is true. Raises LabError when it is not in time, or one of `programs` ends; the last is the one whose
    `problem` it is. A probe may fail until then, but for what is `fatal`."""
    limit, answer, waited = wait_limit(), "no answer yet", programs[-1]
    end = time.monotonic() + limit
    while time.monotonic() < end:
        for each in programs:
            if not each.pid():
                raise LabError(f"{each.name} ended:\n{each.log_end()}")
        try:
            if probe():
                return
        except (OSError, http.client.HTTPException, LabError) as error:
            if fatal(error):
                raise
            answer = str(error)
        time.sleep(0.05)
    words = f"{waited.name}: {problem} after {limit:.0f} s ({answer})"
    raise LabError(f"{words}; the end of its log:\n{waited.log_end()}")


def resident_mib(pid: int | None) -> int:
    """Of what does not run: 0."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) // 1024
    return 0


def _end_workers(leader: int, known: str | None) -> None:
    """What a leader that is gone has left in its group. The number means nobody else while the group has members."""
    if identity(leader) not in (None, known) or not known or not is_of_this_boot(known):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
