"""All test clients of a process share one chain of middleware, as all requests of a web process do: Django makes one for each client.

A setting that changes has it made anew. A test that replaces a part of a middleware calls `client.handler.load_middleware()`, and
that client has a chain of its own.
"""

from typing import Any

import pytest
from django.core.signals import setting_changed
from django.test.client import ClientHandler

MADE = ("_view_middleware", "_template_response_middleware", "_exception_middleware", "_middleware_chain")
_shared: dict[str, Any] = {}
_answer = ClientHandler.__call__


def _answer_by_the_shared(self: ClientHandler, environ: dict[str, Any]) -> Any:
    if self._middleware_chain is None:  # type: ignore[attr-defined]
        if not _shared:
            self.load_middleware()
            _shared.update({name: getattr(self, name) for name in MADE})
        vars(self).update(_shared)
    return _answer(self, environ)


def _forget(**_: object) -> None:
    _shared.clear()


def pytest_configure(config: pytest.Config) -> None:
    del config
    ClientHandler.__call__ = _answer_by_the_shared  # type: ignore[method-assign]
    setting_changed.connect(_forget)
