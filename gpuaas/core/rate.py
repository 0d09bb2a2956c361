"""How often one caller may ask: so many times at once, and so many a minute from then on. Each process counts for itself, in
memory."""

import threading

from gpuaas.core import clock

MINUTE = 60.0


class Rate:
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

    def take_back(self, caller: str) -> None:
        """One that was counted, and is not to count."""
        with self._lock:
            if found := self._used.get(caller):
                self._used[caller] = (max(found[0] - 1, 0.0), found[1])

    def _forget(self, now: float) -> None:
        """Callers that did not ask for a minute have the whole limit again. Those who asked last are at the end."""
        while (first := next(iter(self._used))) and self._used[first][1] <= now - MINUTE:
            del self._used[first]
