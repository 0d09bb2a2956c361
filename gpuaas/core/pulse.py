"""The heartbeat of a long-running process: it says that the process is alive, and renews the claims it holds.

A claim made in a process with a heartbeat lasts ALIVE_SECONDS and is renewed until it is released or its own limit is
reached. So the work of a killed process is taken over within ALIVE_SECONDS, while one call to a slow site may take as
long as the claim's limit. A process without a heartbeat (a command, a test) claims for the whole limit at once.
"""

import atexit
import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection, models

from gpuaas import __version__
from gpuaas.core import clock, traces
from gpuaas.core.models import Process, ProcessKind

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
log = structlog.get_logger(__name__)

BEAT_SECONDS = 1.5
ALIVE_SECONDS = 6  # with a sweep every 3 seconds, the work of a killed process is taken over within 10
FORGOTTEN = timedelta(days=1)


@dataclass(frozen=True)
class HeldClaim:
    """A claim of this process on the row `pk`, made at `since`. It is renewed until `limit`."""

    model: type[models.Model]
    pk: Any
    limit: datetime
    since: datetime


_held: dict[uuid.UUID, HeldClaim] = {}
_beating = threading.Event()


def claim_end(*, now: datetime, limit: datetime) -> datetime:
    """When a claim made or extended `now` ends, unless it is renewed."""
    return min(limit, now + timedelta(seconds=ALIVE_SECONDS)) if _beating.is_set() else limit


def hold(token: uuid.UUID, model: type[models.Model], pk: Any, *, now: datetime, limit: datetime) -> None:
    """The heartbeat renews the claim on the row `pk` from now on; called again when the limit moves."""
    known = _held.get(token)
    _held[token] = HeldClaim(model, pk, limit, known.since if known is not None else now)


def let_go(token: uuid.UUID) -> None:
    """The claim was released or lost; it is no longer renewed."""
    _held.pop(token, None)


class Pulse:
    """One per process; a process that was forked starts its own."""

    def __init__(self, kind: ProcessKind) -> None:
        now = clock.now()
        self.row = Process(
            kind=kind,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            started_at=now,
            seen_at=now,
        )
        self._lost = 0  # rounds in a row
        self._beaten = time.monotonic()  # when the last round went well
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        _held.clear()  # what a parent process held is not ours
        _beating.set()
        self._thread.start()

    def stop(self) -> None:
        """Ends the heartbeat and removes the row; claims still held end on their own. A last round of the thread must find the
        heartbeat on, or it would extend the claims to their limits. It is given up after ALIVE_SECONDS, as where the database hangs."""
        self._stop.set()
        self._thread.join(timeout=ALIVE_SECONDS)
        if not self._thread.is_alive():
            _beating.clear()

    def beat(self) -> None:
        """One round: the row, then the claims. Raises the database's errors."""
        self.row.skew_seconds = clock_skew()
        now = clock.now()
        self.row.seen_at = now
        self.row.claim_since = min((claim.since for claim in list(_held.values())), default=None)
        Process.objects.bulk_create(
            [self.row],
            update_conflicts=True,
            unique_fields=["id"],
            update_fields=["seen_at", "skew_seconds", "claim_since"],
        )
        renew(now=now)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._round(self.beat)
            self._touch()
            self._stop.wait(BEAT_SECONDS)
        self._round(self._end)

    def _touch(self) -> None:
        """Whatever became of the beat: an outage of the database is no reason to start a process again."""
        if settings.ALIVE_FILE:
            with contextlib.suppress(OSError):  # a full disk
                Path(settings.ALIVE_FILE).touch()

    def _end(self) -> None:
        Process.objects.filter(pk=self.row.pk).delete()

    def _silent(self) -> float:
        return round(time.monotonic() - self._beaten, 1)

    def _round(self, do: Callable[[], None]) -> None:
        """Nothing ends the thread but `stop`: claims are made for ALIVE_SECONDS as long as it is thought to run."""
        try:
            try:
                do()
            finally:
                connection.close()
            silent = self._silent()
            if silent > ALIVE_SECONDS:  # under load, or where the host slept: claims have ended meanwhile
                log.warning("pulse_lost", reason="the beat was late", silent_seconds=silent)
            self._lost, self._beaten = 0, time.monotonic()
        except Exception as error:  # noqa: BLE001 (see above)
            self._lost += 1
            if self._lost > 1:  # a fork may close the first connection under it; claims outlast one round
                log.warning(
                    "pulse_lost",
                    error=type(error).__name__,
                    reason=str(error).strip(),
                    rounds=self._lost,
                    silent_seconds=self._silent(),
                )


_own: list[Pulse] = []


def begin(kind: ProcessKind) -> None:
    """Starts the heartbeat of this process, and its traces; both end with `end`, or in order with the interpreter."""
    traces.begin(kind)
    pulse = Pulse(kind)
    _own[:] = [pulse]
    pulse.start()
    atexit.register(end)


def end() -> None:
    """Ends the heartbeat of this process, if it has one and it is not one inherited by a fork."""
    while _own:
        pulse = _own.pop()
        if pulse.row.pid == os.getpid():
            traces.end()
            pulse.stop()


def lifespan(kind: ProcessKind) -> Callable[[Any, Receive, Send], Coroutine[Any, Any, None]]:
    """An application of ASGI's lifespan protocol: a heartbeat from the server's start to its end."""

    async def run(_scope: Any, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "lifespan.startup":
            begin(kind)
            await send({"type": "lifespan.startup.complete"})
        await sync_to_async(end)()
        await send({"type": "lifespan.shutdown.complete"})

    return run


def clock_skew() -> float:
    """By how many seconds this host's clock is at least ahead of the database's (negative: behind). The answer was given
    between the question and its arrival, so a slow database is no skew."""
    asked = clock.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        answered: datetime = cursor.fetchone()[0]
    ahead, behind = asked - answered, clock.now() - answered
    return max(ahead.total_seconds(), 0.0) or min(behind.total_seconds(), 0.0)


def renew(*, now: datetime) -> None:
    """Extends every claim this process holds, each at most to its limit. A claim that another process has taken
    meanwhile has another token and stays as it is. One statement a row, so that no two rows are locked together."""
    for token, claim in list(_held.items()):
        rows = claim.model._default_manager.filter(pk=claim.pk, claim_token=token)
        rows.update(claim_until=claim_end(now=now, limit=claim.limit))


def processes_forget() -> int:
    """Deletes rows of processes that were not seen for a day."""
    gone, _ = Process.objects.filter(seen_at__lt=clock.now() - FORGOTTEN).delete()
    return gone
