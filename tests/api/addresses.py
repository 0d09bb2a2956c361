"""Every address of the API, from the URL conf itself: what is added there is met here."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Address:
    name: str
    parameters: frozenset[str]
    view: Any

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(method for method in METHODS if hasattr(self.view, method.lower()))

    def handler(self, method: str) -> Any:
        return getattr(self.view, method.lower())

    def path(self, **values: object) -> str:
        wanted = {name: str(value) for name, value in values.items() if name in self.parameters}
        return reverse(f"api:{self.name}", kwargs=wanted)


def addresses() -> Iterator[Address]:
    from gpuaas.api.v1.urls import urlpatterns

    for row in urlpatterns:
        pattern: Any = row
        yield Address(pattern.name, frozenset(pattern.pattern.converters), pattern.callback.view_class)
