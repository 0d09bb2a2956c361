"""What else watches a site while this process has its claim, each in a thread of its own."""

import threading
import time
from collections.abc import Callable
from copy import copy
from types import TracebackType
from typing import Self

from gpuaas.catalog.models import Site
from gpuaas.metering.warden import Warden
from gpuaas.providers.base import DriftCapability, Driver, UsageEvent, WardenCapability
from gpuaas.workspaces.watch import ChangesWatcher

Run = Callable[[threading.Event], None]
JOIN_SECONDS = 3.0


class Beside:
    """Starts them on entry, stops them on exit. `note` passes every event to the warden before it is written."""

    def __init__(self, site: Site, open_driver: Callable[[Site], Driver]) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        driver = open_driver(site)
        self._warden = Warden(site, driver, driver) if isinstance(driver, WardenCapability) else None
        self._runs: dict[str, Run] = {"warden": self._warden.run} if self._warden is not None else {}
        if isinstance(driver, DriftCapability):
            own = copy(site)  # it reads the row anew in its own thread
            self._runs["changes"] = lambda stop: ChangesWatcher(own, stop=stop, open_driver=open_driver).run()
        self._name = site.slug

    def note(self, event: UsageEvent) -> None:
        if self._warden is not None:
            self._warden.ledger.note(event)

    def __enter__(self) -> Self:
        for what, run in self._runs.items():
            thread = threading.Thread(
                target=run, args=(self._stop,), name=f"{what}-{self._name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A thread that still waits for the site is abandoned as a daemon; whatever it does may safely happen twice."""
        self._stop.set()
        end = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(end - time.monotonic(), 0.0))
