"""How often one caller may ask: so many times at once, and so many a minute from then on.

Each web process counts for itself, in memory: a count that all processes share would cost every request a write to the database,
for a limit that is there to leave each process time for the other callers.
"""

import math
import threading

from django.conf import settings
from rest_framework.exceptions import Throttled

from gpuaas.core import clock

MINUTE = 60.0


class Meter:
    """Of each caller: how much of the limit is used up, and when that was so. It is given back evenly within a minute."""

    def __init__(self) -> None:
        self._used: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def seconds_to_wait(self, caller: str, *, most: int) -> float:
        """0 = the request is counted and may go on."""
        now = clock.now().timestamp()
        with self._lock:
            used, since = self._used.pop(caller, (0.0, now))
            used = max(used - max(now - since, 0.0) * most / MINUTE, 0.0)
            wait = max(used + 1 - most, 0.0) * MINUTE / most
            self._used[caller] = (used if wait else used + 1, now)
            self._forget(now)
        return wait

    def _forget(self, now: float) -> None:
        """Whoever did not ask for a minute has the whole limit again. Those who asked last are at the end."""
        while (first := next(iter(self._used))) and self._used[first][1] <= now - MINUTE:
            del self._used[first]


class TooOften(Throttled):
    """`wait` seconds, which the answer has as Retry-After; the base class would add a sentence of its own."""

    def __init__(self, most: int, wait: int) -> None:
        super().__init__(detail=f"more than {most} requests in a minute; ask again after Retry-After")
        self.wait = wait


_meter = Meter()


def admit(caller: str) -> None:
    """Counts a request. Raises Throttled beyond GPUAAS_API_PER_MINUTE."""
    most = settings.API_PER_MINUTE
    if most and (wait := _meter.seconds_to_wait(caller, most=most)):
        raise TooOften(most, math.ceil(wait))
