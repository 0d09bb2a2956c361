"""Caches what one driver read a moment ago, so that the steps of one visit do not read the same repeatedly.

Only for a second, and only within one driver object: the reconciler creates one for each visit, under its claim.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuaas.providers.kubeapi import namespaces
from gpuaas.providers.kubeapi.client import Api, Object

SECONDS = 1.0
# a namespace that we created ourselves and gave nobody access to is known to be empty
FRESH_SECONDS = 2.0


@dataclass
class Recent:
    _values: dict[str, tuple[float, object]] = field(default_factory=dict)
    _made: dict[str, float] = field(default_factory=dict)

    def namespace(self, api: Api, name: str, workspace: uuid.UUID) -> Object | None:
        """See `own_namespace`; a missing namespace is not cached."""
        known = self.known(name)
        if known is not None and namespaces.is_ours(known, workspace):
            return known
        found = namespaces.own_namespace(api, name, workspace)
        if found is not None and not namespaces.is_terminating(found):
            self._put(f"namespace/{name}", found)
        return found

    def known(self, name: str) -> Object | None:
        found = self._get(f"namespace/{name}")
        return found if isinstance(found, dict) else None

    def made(self, name: str, found: Object, *, anew: bool) -> None:
        self._put(f"namespace/{name}", found)
        if anew:
            self._made[name] = time.monotonic()

    def entered(self, name: str) -> None:
        """Members have access from now on."""
        if self._made.pop(name, None) is not None:
            self._put(f"entered/{name}", name)

    def is_fresh(self, name: str) -> bool:
        """It contains only what this visit created, and nobody has access yet."""
        return time.monotonic() - self._made.get(name, float("-inf")) < FRESH_SECONDS

    def was_fresh(self, name: str) -> bool:
        """Its first members got access a moment ago."""
        return self._get(f"entered/{name}") == name

    def classes(self, read: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        known = self._get("classes")
        if isinstance(known, dict):
            return known
        found = dict(read())
        self._put("classes", found)
        return found

    def note_confirmed(self, name: str, hard: Mapping[str, str]) -> None:
        self._put(f"confirmed/{name}", dict(hard))

    def is_confirmed(self, name: str, hard: Mapping[str, str]) -> bool:
        return self._get(f"confirmed/{name}") == dict(hard)

    def _get(self, key: str) -> object:
        at, value = self._values.get(key, (float("-inf"), None))
        return value if time.monotonic() - at < SECONDS else None

    def _put(self, key: str, value: object) -> None:
        self._values[key] = (time.monotonic(), value)
