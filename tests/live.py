"""The test's own web server, which answers in threads: nobody is answered any more when the tables are emptied.

A page that a test leaves has asked for more than the test looked at. Its thread would go on reading beside the emptying of the tables,
which then fails, and the next test finds what this one left.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.signals import request_finished, request_started

PATIENCE_S = 60.0


class Answering:
    """How many requests are being answered, in whatever thread."""

    def __init__(self) -> None:
        self.number = 0
        self.changed = threading.Condition()

    def begin(self, **_: Any) -> None:
        self._add(1)

    def end(self, **_: Any) -> None:
        self._add(-1)

    def over(self) -> bool:
        """Whether all that was asked is answered, at last."""
        with self.changed:
            return self.changed.wait_for(lambda: self.number <= 0, PATIENCE_S)

    def _add(self, more: int) -> None:
        with self.changed:
            self.number += more
            self.changed.notify_all()


@pytest.fixture
def live_server(live_server: Any) -> Iterator[Any]:
    """pytest-django's, which waits at the end of each test for what is still being answered."""
    answering = Answering()
    request_started.connect(answering.begin)
    request_finished.connect(answering.end)
    yield live_server
    over = answering.over()
    request_started.disconnect(answering.begin)
    request_finished.disconnect(answering.end)
    assert over, "the test's server still answers somebody"
