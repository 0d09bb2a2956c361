"""What goes over the wire: every HTTP call of this process, signing in and discovery too."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import requests

_IDS = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}|gpu-[^&/]+")


@dataclass
class Calls:
    made: list[requests.PreparedRequest] = field(default_factory=list)

    @property
    def urls(self) -> list[tuple[str, str]]:
        return [(str(request.method), str(request.url)) for request in self.made]

    @property
    def count(self) -> int:
        return len(self.made)

    @property
    def kinds(self) -> Counter[str]:
        """By method and path, ids apart."""
        return Counter(f"{method} {_IDS.sub('*', url.split('://', 1)[1])}" for method, url in self.urls)


@contextmanager
def counted() -> Iterator[Calls]:
    calls, send = Calls(), requests.Session.send

    def noted(self: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        calls.made.append(request)
        return send(self, request, **options)

    with patch.object(requests.Session, "send", noted):
        yield calls
