"""One process of the demo: started again when it dies, as a service manager would do it (deploy/systemd)."""

import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from honcho.printer import Message

RAN_SECONDS = 10
DEATHS_MOST, DEATHS_SECONDS = 5, 60.0
LEFT_SECONDS = 2.0  # for what a process has left, between being told to stop and being killed
LOOK_SECONDS = 0.05
KILLED = 128  # and the number of the signal: the exit code that shells make of it


class Kept:
    """Killed, or failed though it has once run for a while, it is started again; told to stop, it is waited for; ended by itself,
    it is not, and that ends the demo. What it left in its group ends with it each time.

    Its end is that of the process itself: what it has left may hold its output open."""

    def __init__(
        self, cmd: str, *, name: str, colour: str, env: dict[str, str], cwd: str, **_given: Any
    ) -> None:
        self._command, self._environment, self._folder = f"exec {cmd}", env, cwd
        self.name, self._colour = name, colour
        self._lock, self._told = threading.Lock(), False
        self._child: subprocess.Popen[bytes] | None = None

    def run(self, events: "queue.Queue[Message]") -> None:
        """What ends the demo, or stops it, waits until each of its processes has said that it started and that it stopped."""
        try:
            code = self._keep(events)
        except OSError as error:
            code = 1
            self._say(events, "line", f"{self.name} cannot be started: {error}\n")
            if self._child is None:
                self._say(events, "start", {"pid": 0})
        self._say(events, "stop", {"returncode": code if code >= 0 else KILLED - code})

    def _keep(self, events: "queue.Queue[Message]") -> int:
        """Its last exit code, as Popen has it: below 0 is the number of the signal that killed it."""
        deaths, ran, code = deque[float](maxlen=DEATHS_MOST), False, 0
        while child := self._begin(events):
            began = time.monotonic()
            code = self._wait(child)
            ended = time.monotonic()
            ran = ran or ended - began >= RAN_SECONDS
            over = self._told or not (code < 0 or (code and ran))
            if not over:
                deaths.append(ended)
                how = f"ended with {code}" if code >= 0 else f"was killed by signal {-code}"
                over = len(deaths) == DEATHS_MOST and ended - deaths[0] <= DEATHS_SECONDS
                times = f", {DEATHS_MOST} times within {DEATHS_SECONDS:.0f} s: the demo ends"
                words = f"{self.name} {how}{times if over else ', and is started again'}"
                self._say(events, "line", f"{words}\n")
            left_end(child.pid)
            self._reader.join(LEFT_SECONDS)
            if over:
                break
        return code

    def end(self, *, force: bool = False) -> None:
        """Tells the process in front to stop, and nothing below: a worker lets its pool finish what is under way, where a signal to
        the whole group would kill the pool's processes within their tasks. By force all of them are killed."""
        with self._lock, suppress(ProcessLookupError):
            self._told = True
            if self._child is not None and self._child.returncode is None:
                (os.killpg if force else os.kill)(
                    self._child.pid, signal.SIGKILL if force else signal.SIGTERM
                )

    def _begin(self, events: "queue.Queue[Message]") -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._told:
                return None
            child = self._child = subprocess.Popen(
                ["sh", "-c", self._command],
                env=self._environment,
                cwd=self._folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._say(events, "start", {"pid": child.pid})
        self._reader = threading.Thread(target=self._read, args=(child, events), daemon=True)
        self._reader.start()
        return child

    def _wait(self, child: "subprocess.Popen[bytes]") -> int:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:  # nobody signals a process that is gone
            return child.wait()

    def _read(self, child: "subprocess.Popen[bytes]", events: "queue.Queue[Message]") -> None:
        for line in child.stdout or ():
            self._say(events, "line", line)

    def _say(self, events: "queue.Queue[Message]", kind: str, data: object) -> None:
        events.put(
            Message(
                type=kind, data=data, time=datetime.now(UTC).astimezone(), name=self.name, colour=self._colour
            )
        )


def left_end(group: int) -> None:
    """What is left in the group of a process that has ended."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + LEFT_SECONDS
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(LOOK_SECONDS)
        os.killpg(group, signal.SIGKILL)


def kept_by(manager: Any) -> None:
    """Its processes are `Kept`, each in a thread: no process of the launcher's own stands between, whose end nobody would notice."""

    def start() -> None:
        for each in manager._processes.values():
            threading.Thread(target=each["obj"].run, args=(manager.events,), daemon=True).start()

    def end(*, force: bool = False) -> None:
        word = "SIGKILL" if force else "SIGTERM"
        for name, each in manager._processes.items():
            if "returncode" not in each:
                manager._system_print(f"sending {word} to {name} (pid {each['pid']})\n")
                each["obj"].end(force=force)

    manager.events, manager._process_ctor = queue.Queue(), Kept
    manager._start, manager._killall = start, end
