"""What breaks, at random by a seed: every deed has an end, after which what it broke may be chosen again."""

import logging
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.e2e.portal import wait_until
from tests.reliability.portal import KINDS, Fleet
from tests.reliability.world import SICK, SITES

log = logging.getLogger(__name__)

# from one deed to the next, in parts of what it takes to start the processes: on a machine where that takes long, they would
# otherwise be killed before they have done anything
PACE = (0.1, 0.4)
MOST = 3  # what waits for the portal would otherwise wait as long as it is broken
DATABASE, REDIS = "database", "redis"
HEALTHY = sorted(set(SITES) - {SICK})


@dataclass
class Broken:
    """`whole` sets it right; it is tried again where it cannot yet (a site's switches are in the database)."""

    target: str
    until: float
    whole: Callable[[], None]


@dataclass
class Chaos:
    """deeds: how often each was done. Whoever ends by itself is started again, as a service manager does."""

    fleet: Fleet
    dice: random.Random
    deeds: Counter[str] = field(default_factory=Counter)
    _broken: list[Broken] = field(default_factory=list)

    def run(self, over: threading.Event, *, at_least: int) -> None:
        """Until the load is over and so many deeds were done, or MOST times as many; then all is set right."""
        while (done := sum(self.deeds.values())) < at_least or not over.is_set():
            if done >= MOST * at_least:
                break
            self._do_one()
            end = time.monotonic() + self.dice.uniform(*PACE) * self.fleet.seconds_to_start
            while (left := end - time.monotonic()) > 0:
                self._heal(time.monotonic())
                time.sleep(min(left, 0.1))  # the pace of what breaks
        wait_until("everything to be set right", lambda: not self._heal(float("inf")), seconds=60)
        wait_until("the database to take writes", self.fleet.database_whole, seconds=60)

    def calm(self, site: str) -> None:
        """The slow site answers at once again, as soon as its switches can be reached."""

        def done() -> bool:
            try:
                self.fleet.dial(site, latency_ms=0)
            except psycopg.Error:
                return False
            return True

        wait_until(f"{site} to be quick again", done, seconds=60)

    def _heal(self, now: float) -> list[Broken]:
        """What is broken still."""
        due = [one for one in self._broken if one.until <= now]
        for one in sorted(due, key=lambda one: one.target != DATABASE):
            if one.target in SITES and self._is_broken(DATABASE):
                continue
            try:
                one.whole()
            except psycopg.Error:
                continue
            self._broken.remove(one)
        for name in self.fleet.ended():
            self.deeds[f"{name} ended by itself"] += 1
            self.fleet.start_piece(name)
        return self._broken

    def _do_one(self) -> None:
        """One of what is not broken already."""
        target = self.dice.choice([*KINDS, *KINDS, DATABASE, REDIS, REDIS, *HEALTHY])
        choices = self._choices(target)
        name, deed = self.dice.choice(sorted(choices.items()))
        seconds = self.dice.uniform(0, 6)
        if self._is_broken(target) or (target in SITES and self._is_broken(DATABASE)):
            return
        log.info("%s: %s for %.1f s", target, name, seconds)
        self.deeds[name] += 1
        try:
            whole = deed(target)
        except psycopg.Error:  # it has not come back from the last deed
            return
        self._broken.append(Broken(target, time.monotonic() + seconds, whole))

    def _is_broken(self, target: str) -> bool:
        return any(one.target == target for one in self._broken)

    def _choices(self, target: str) -> dict[str, Callable[[str], Callable[[], None]]]:
        if target == DATABASE:
            full = {"disk full": self._disk_full} if self.fleet.has_disk else {}
            return {"database crash": self._crash, "database pause": self._database_pause, **full}
        if target == REDIS:
            return {"redis kill": self._redis_kill, "redis pause": self._redis_pause, "flush": self._flush}
        if target in SITES:
            return {"site away": self._site_away}
        wrong = {"clock": self._clock} if self.fleet.has_clocks else {}
        return {"kill": self._kill, "pause": self._pause, "restart": self._restart, **wrong}

    # -- processes ----------------------------------------------------------------------------------------------------

    def _kill(self, name: str) -> Callable[[], None]:
        self.fleet.kill(name)
        return lambda: self.fleet.start_piece(name)

    def _pause(self, name: str) -> Callable[[], None]:
        self.fleet.signal_piece(name, signal.SIGSTOP)
        return lambda: self.fleet.signal_piece(name, signal.SIGCONT)

    def _restart(self, name: str) -> Callable[[], None]:
        self.fleet.restart_piece(name)
        return lambda: None

    def _clock(self, name: str) -> Callable[[], None]:
        self.fleet.clock_set(name, self.dice.choice((-40, -5, 5, 40)))
        return lambda: self.fleet.clock_set(name, 0)

    # -- services -----------------------------------------------------------------------------------------------------

    def _crash(self, _: str) -> Callable[[], None]:
        self.fleet.database_stop()
        return self.fleet.database_start

    def _database_pause(self, _: str) -> Callable[[], None]:
        pids = self.fleet.database_pids()
        for pid in pids:
            _signal(pid, signal.SIGSTOP)

        def whole() -> None:
            for pid in reversed(pids):
                _signal(pid, signal.SIGCONT)

        return whole

    def _disk_full(self, _: str) -> Callable[[], None]:
        """Not a byte is left. PostgreSQL may go on, refuse, or fall: it is started where it has."""
        ballast = self.fleet.data / "ballast"
        _fill(ballast)

        def whole() -> None:
            ballast.unlink(missing_ok=True)
            if not self.fleet.database_pids():
                self.fleet.database_start()

        return whole

    def _redis_kill(self, _: str) -> Callable[[], None]:
        self.fleet.redis_signal(signal.SIGKILL)
        return self.fleet.redis_start

    def _redis_pause(self, _: str) -> Callable[[], None]:
        self.fleet.redis_signal(signal.SIGSTOP)
        return lambda: self.fleet.redis_signal(signal.SIGCONT)

    def _flush(self, _: str) -> Callable[[], None]:
        self.fleet.redis_flush()
        return lambda: None

    # -- sites --------------------------------------------------------------------------------------------------------

    def _site_away(self, site: str) -> Callable[[], None]:
        self.fleet.dial(site, down=True, retry_after=1)
        return lambda: self.fleet.dial(site, down=False)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _fill(path: Path) -> None:
    """Until not a page is left, though others write meanwhile."""
    with path.open("wb") as file:
        disk = os.statvfs(path.parent)
        piece, end = disk.f_bavail * disk.f_frsize, 0
        while piece >= disk.f_frsize:
            try:
                os.posix_fallocate(file.fileno(), end, piece)
            except OSError:
                piece //= 2
            else:
                end += piece
