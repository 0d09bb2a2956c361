"""The portal at work beside a test, on the test's own database: workers, the scheduler's rounds, and the meter's process."""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from gpuaas.celery import app
from gpuaas.core import clock
from gpuaas.core import queue as pokes
from gpuaas.metering.models import SiteMeter
from tests.lab.fixtures import until
from tests.metering.meters import Started, end, start

THREADS = 4
# of the scheduler's rounds, at its own pace: what brings forward what is due, and what is counted
ROUNDS = ("workspaces-sweep", "environments-sweep", "metering-held")
ROOMS = {"workspaces", "environments", "metering", "quotas"}
Job = tuple[str, tuple[str, ...]]


class Crew:
    """Does the tasks that services and rounds send, by their own names."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._waiting: set[Job] = set()
        self._lock, self._over = threading.Lock(), threading.Event()

    def send(self, task: str, ids: Sequence[str], **_options: Any) -> None:
        job = (task, tuple(ids))
        with self._lock:
            if job in self._waiting or task.partition(".")[0] not in ROOMS:
                return
            self._waiting.add(job)
        self._jobs.put(job)

    @contextmanager
    def at_work(self) -> Iterator["Crew"]:
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(THREADS)]
        threads.append(threading.Thread(target=self._beat, daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for _ in range(THREADS):
                self._jobs.put(None)
            for thread in threads:
                thread.join(60)

    def _work(self) -> None:
        try:
            while (job := self._jobs.get()) is not None and not self._over.is_set():
                with self._lock:
                    self._waiting.discard(job)
                try:
                    app.tasks[job[0]](*job[1])
                except Exception as error:  # noqa: BLE001  the test says which
                    self.failures.append(f"{job}: {error!r}")
        finally:
            connections.close_all()

    def _beat(self) -> None:
        rounds = {settings.CELERY_BEAT_SCHEDULE[name]["task"]: name for name in ROUNDS}
        due = dict.fromkeys(rounds, 0.0)
        while not self._over.wait(0.2):
            for task, name in rounds.items():
                if due[task] <= time.monotonic():
                    self.send(task, ())
                    due[task] = time.monotonic() + settings.CELERY_BEAT_SCHEDULE[name]["schedule"]


@contextmanager
def crew_at_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    app.loader.import_default_modules()
    crew = Crew()
    with monkeypatch.context() as patched:
        patched.setattr(settings, "QUEUE_ENABLED", True)
        patched.setattr(pokes, "send", crew.send)
        with crew.at_work():
            yield crew


class Metering:
    """`manage.py meter`, which may be killed."""

    def __init__(self) -> None:
        self._processes: Started = []

    def begin(self) -> None:
        """Returns when it has heard the site."""
        began = clock.now()
        start(self._processes)
        heard = SiteMeter.objects.filter(last_proof_at__gt=began)
        until(heard.exists, "the meter has heard the site")

    def kill(self) -> None:
        end(self._processes)
        SiteMeter.objects.update(claim_until=clock.now())  # instead of waiting until it lapses

    def caught_up(self) -> None:
        """It has heard of all that is over now: a moment of the site in which nothing happens any more."""
        quiet = clock.now() + timedelta(seconds=1)
        heard = SiteMeter.objects.filter(last_proof_at__gt=quiet)
        until(heard.exists, "the meter has heard of the end")


@contextmanager
def metering() -> Iterator[Metering]:
    found = Metering()
    try:
        found.begin()
        yield found
    finally:
        found.kill()
