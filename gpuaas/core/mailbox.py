"""Passes many small items from reading threads to one working thread, which takes all of them at once.

A queue.Queue wakes its reader for every item; at thousands of events a second that costs more than the work.
"""

import threading
from collections import deque
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Mailbox(Generic[ItemT]):
    """Any number of writers, one reader. A writer waits while there are `size` items."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[ItemT] = deque()
        self._filled = threading.Event()
        self._emptied = threading.Event()
        self._closed = threading.Event()

    def put(self, item: ItemT) -> bool:
        """False once the reader has left and nobody will take the item."""
        while len(self._items) >= self._size and not self._closed.is_set():
            self._emptied.clear()
            self._emptied.wait(0.2)
        if self._closed.is_set():
            return False
        self._items.append(item)
        if not self._filled.is_set():
            self._filled.set()
        return True

    def take(self, *, timeout: float) -> list[ItemT]:
        """All items in the order of arrival; empty if none came in time."""
        if not self._items:
            self._filled.wait(max(timeout, 0.0))
        self._filled.clear()
        taken = []
        while self._items:
            taken.append(self._items.popleft())
        self._emptied.set()
        return taken

    def close(self) -> None:
        """Called by the reader: writers stop waiting."""
        self._closed.set()
        self._emptied.set()
