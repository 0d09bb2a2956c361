"""A read-only cloud: writes are compared with the present state and recorded as differences.

So `drift` runs `ensure` itself and cannot disagree with it. Reads are cached until the dry run is over; data that all workspaces
share (registered limits, roles, flavors and their grants) a little longer, across dry runs.
"""

import re
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from openstack.connection import Connection

from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Difference
from gpuaas.providers.openstack.client import Cloud, Object

# lifetime of shared reads; changes are reported only after it, so that no comparison uses older data
COMMON_SECONDS = 2.0
MISSING = "missing"
MOST_TEXT = 200
HOW = {"force"}  # keys that control a write and are not part of the state
_NEW = "not-made-yet"  # the id of objects that would be created
_COMMON = re.compile(
    r"identity /(services|registered_limits|roles)\b"
    r"|compute /flavors/(detail|[^/]+/os-flavor-access)\b"
    r"|network /networks (?!.*project_id)"
    r"|placement /resource_classes\b"
    r"|volume /types\b"
)
_ROLE = re.compile(r"/projects/[^/]+/(users|groups)/([^/]+)/roles/([^/]+)$")
_TAG = re.compile(r"/projects/([^/]+)/tags/([^/]+)$")
_FLAVOR = re.compile(r"/flavors/([^/]+)/(action|os-extra_specs)(/.+)?$")
_TYPE = re.compile(r"/types/([^/]+)/action$")
_INTERFACE = re.compile(r"/routers/([^/]+)/add_router_interface$")
_common: dict[tuple[str, str], tuple[float, Object]] = {}


class Reading(Cloud):
    """Caches every read. since: monotonic time before which shared reads are ignored."""

    def __init__(self, cloud: Cloud, *, since: float = float("-inf")) -> None:
        self._real = cloud
        self._since = since
        self._entry = cloud._entry
        self._seen: dict[str, Object] = {}

    @cached_property
    def _connection(self) -> Connection:
        return self._real._connection

    def items(self, service: str, path: str, key: str, **query: Any) -> list[Object]:
        if _NEW in path or _NEW in query.values():
            return []
        return super().items(service, path, key, **query)

    def _call(self, method: str, service: str, path: str, **options: Any) -> Object:
        if method != "GET":
            return self._write(method, service, path, options.get("json") or {})
        if _NEW in path:
            raise NotFound("it is not created yet")
        query: Mapping[str, Any] = options.get("params") or {}
        key = _key(service, path, query)
        if key not in self._seen:
            read = self._read_common if _COMMON.match(f"{key} ") else self._read
            self._seen[key] = read(key, service, path, query)
        return self._seen[key]

    def _read(self, _key: str, service: str, path: str, query: Mapping[str, Any]) -> Object:
        return self._real.get(service, path, **query)

    def _read_common(self, key: str, service: str, path: str, query: Mapping[str, Any]) -> Object:
        cached = _common.get((self._real.key, key))
        if cached is None or cached[0] < max(time.monotonic() - COMMON_SECONDS, self._since):
            cached = (time.monotonic(), self._real.get(service, path, **query))
            _common[self._real.key, key] = cached
        return cached[1]

    def assume(self, service: str, path: str, answer: Object, **query: Any) -> None:
        """Preset an answer of the cloud."""
        self._seen[_key(service, path, query)] = answer

    def _write(self, method: str, service: str, path: str, body: Object) -> Object:
        raise AssertionError(f"a reading does not write: {method} {service} {path} {sorted(body)}")


class DryRun(Reading):
    """`differences`: what the writes so far would change. Consequences of a missing object are not recorded separately."""

    def __init__(self, cloud: Cloud, *, since: float = float("-inf")) -> None:
        super().__init__(cloud, since=since)
        self.step = ""
        self.differences: list[Difference] = []

    def _write(self, method: str, service: str, path: str, body: Object) -> Object:
        follows = _NEW in path or _NEW in str(body)
        if method == "POST" and not (_FLAVOR.search(path) or _TYPE.search(path)):
            return self._made(path, body, record=not follows)
        if follows:
            return {}
        if method == "DELETE":
            self._surplus(service, path)
            return {}
        for name, field, wanted, found in self._changes(service, path, body):
            self._record(name, field, wanted, found)
        return body

    def _record(self, name: str, path: str, wanted: object, found: object) -> None:
        self.differences.append(Difference(name, path, _text(wanted), _text(found), step=self.step))

    def _made(self, path: str, body: Object, *, record: bool) -> Object:
        (key, given), *_ = body.items()
        for row in (given if isinstance(given, list) else [given]) if record else ():
            if "resource_limit" in row:
                self._record(f"Limit/{row['resource_name']}", "", row["resource_limit"], MISSING)
            else:
                self._record(f"{_kind(key)}/{_name(row, path)}", "", "present", MISSING)
        return {key: {**given, "id": _NEW}} if isinstance(given, dict) else body

    def _surplus(self, service: str, path: str) -> None:
        if role := _ROLE.search(path):
            self._record(self._role(*role.groups()), "", "", "present")
            return
        if spec := _FLAVOR.search(path):
            self._record(self._flavor(spec[1]), f"extra_specs[{(spec[3] or '')[1:]}]", "", "present")
            return
        found = self.find(service, path) or {}
        for key, row in found.items():
            self._record(f"{_kind(key)}/{_name(row, path)}", "", "", "present")
            return

    def _changes(self, service: str, path: str, body: Object) -> Iterator[tuple[str, str, object, object]]:
        """(object, path, wanted, found) of each field that differs."""
        if role := _ROLE.search(path):
            yield self._role(*role.groups()), "", "present", MISSING
        elif tag := _TAG.search(path):
            yield (
                f"Project/{self._named('identity', '/projects', tag[1])}",
                f"tags[{tag[2]}]",
                "present",
                MISSING,
            )
        elif interface := _INTERFACE.search(path):
            yield (
                f"Router/{self._named('network', '/routers', interface[1])}",
                "interface",
                "present",
                MISSING,
            )
        elif type_ := _TYPE.search(path):
            ((_, whom),) = body.items()
            name = f"VolumeType/{self._named('volume', '/types', type_[1])}"
            yield name, f"access[{whom['project']}]", "granted", "not granted"
        elif (flavor := _FLAVOR.search(path)) and flavor[2] == "action":
            ((verb, whom),) = body.items()
            access = ("granted", "not granted") if verb == "addTenantAccess" else ("not granted", "granted")
            yield self._flavor(flavor[1]), f"access[{whom['tenant']}]", *access
        else:
            found = self.find(service, path) or {}
            for key, wanted in body.items():
                there = found.get(key) or {}
                kind = "Flavor" if flavor else _kind(key)
                name = self._flavor(flavor[1]) if flavor else f"{kind}/{_name(there, service)}"
                prefix = key if flavor else ""
                for field, wish, fact in _leaves(prefix, wanted, there):
                    yield name, field, wish, fact

    def _role(self, kind: str, holder: str, role: str) -> str:
        who = self._named("identity", f"/{kind}", holder)
        return f"Role/{self._named('identity', '/roles', role)} of {kind[:-1]} {who}"

    def _flavor(self, flavor_id: str) -> str:
        return f"Flavor/{self._named('compute', '/flavors', flavor_id)}"

    def _named(self, service: str, collection: str, wanted: str) -> str:
        """Its name, or its id if it is gone."""
        found = self.find(service, f"{collection}/{wanted}") or {}
        return next((str(row["name"]) for row in found.values() if row.get("name")), wanted)


def _key(service: str, path: str, query: Mapping[str, Any]) -> str:
    return " ".join([service, path, *(f"{name}={value}" for name, value in sorted(query.items()))])


def _leaves(path: str, wanted: object, found: object) -> Iterator[tuple[str, object, object]]:
    """Desired fields that differ; additional fields are ignored."""
    if isinstance(wanted, Mapping):
        there = found if isinstance(found, Mapping) else {}
        for key, wish in sorted((key, wish) for key, wish in wanted.items() if key not in HOW):
            yield from _leaves(f"{path}.{key}" if path else str(key), wish, there.get(key))
    elif wanted != found:
        yield path, wanted, found


def _kind(key: str) -> str:
    """`security_group` → `SecurityGroup`."""
    return "".join(part.capitalize() for part in key.split("_"))


def _name(row: Mapping[str, Any], otherwise: str) -> str:
    return str(row.get("resource_name") or row.get("name") or row.get("id") or otherwise.rsplit("/", 1)[-1])


def _text(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
