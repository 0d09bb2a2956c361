"""A driver's usage stream, read in a thread of its own, so that a quiet site delays neither a flush nor a stop."""

import threading

from django.db import connections

from gpuaas.core.mailbox import Mailbox
from gpuaas.providers.base import UsageCapability, UsageEvent

MAILBOX_SIZE = 10_000


class End:
    """The stream has ended, normally or by `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


class Stream:
    def __init__(self, driver: UsageCapability, cursor: str, *, seconds: int, name: str) -> None:
        self._box: Mailbox[UsageEvent | End] = Mailbox(MAILBOX_SIZE)
        self._thread = threading.Thread(
            target=self._read, args=(driver, cursor, seconds), name=f"watch-{name}", daemon=True
        )
        self._thread.start()

    def take(self, *, timeout: float) -> list[UsageEvent | End]:
        """Events since the last call, in order; empty if none came in time."""
        return self._box.take(timeout=timeout)

    def close(self) -> None:
        """A read that blocks is left to its daemon thread; what it still returns is dropped."""
        self._box.close()
        self._thread.join(timeout=1.0)

    def _read(self, driver: UsageCapability, cursor: str, seconds: int) -> None:
        end = End()
        try:
            for event in driver.watch_usage(cursor, seconds=seconds):
                if not self._box.put(event):
                    return
        except Exception as error:  # noqa: BLE001  carried over to the thread that decides what to do
            end = End(error)
        finally:
            connections.close_all()
            self._box.put(end)
