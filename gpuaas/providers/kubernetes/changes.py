"""Changes by others to our objects, as a stream: one watch for each kind, merged.

Changes of status only (a quota's use, a node's heartbeat) and our own writes are skipped, for which the watch remembers a
digest of each object. A label selector restricts it to our objects; one that loses the label counts as deleted.
"""

import contextlib
import hashlib
import json
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuaas.core.errors import NotFound, Permanent, Unauthorized
from gpuaas.providers.base import SiteChange
from gpuaas.providers.kubeapi import guards, namespaces, objects, queues
from gpuaas.providers.kubeapi.client import Api, Expired, Object
from gpuaas.providers.kubeapi.guards.kinds import mutating
from gpuaas.providers.kubeapi.guards.writing import OURS

COALESCE_SECONDS = 0.2
PROOF_SECONDS = 10.0
PAUSE_SECONDS = 1.0  # between the beginnings of two windows: a site may end each at once
_QUEUE = 10_000


@dataclass(frozen=True)
class Kind:
    """optional: not every site serves it, or allows us to read it. selector "" = all objects."""

    path: str
    selector: str = OURS
    site_wide: bool = False
    optional: bool = False


KINDS = (
    Kind(namespaces.COLLECTION),
    Kind("/api/v1/resourcequotas"),
    Kind("/api/v1/limitranges"),
    Kind("/api/v1/serviceaccounts"),
    Kind("/apis/networking.k8s.io/v1/networkpolicies"),
    Kind("/apis/rbac.authorization.k8s.io/v1/rolebindings"),
    Kind(guards.CLUSTER_ROLES, site_wide=True),
    Kind(guards.POLICIES, site_wide=True),
    Kind(guards.BINDINGS, site_wide=True),
    Kind(mutating("v1"), site_wide=True, optional=True),
    Kind(mutating("v1", bindings=True), site_wide=True, optional=True),
    Kind(queues.CLUSTER_QUEUES, optional=True),  # named as their namespaces
    Kind(f"{queues.KUEUE}/localqueues", optional=True),
    Kind("/api/v1/nodes", "", site_wide=True),
    Kind("/apis/resource.k8s.io/v1/deviceclasses", "", site_wide=True, optional=True),
    Kind("/apis/resource.k8s.io/v1/resourceslices", "", site_wide=True, optional=True),
)


class Seen(NamedTuple):
    digest: bytes
    written: str  # when somebody last set a field of it
    workspace: str  # "" for what is the whole site's


@dataclass
class Memory:
    """Each object as it was last seen, for one driver between its watches."""

    seen: dict[str, dict[str, Seen]] = field(default_factory=dict)

    def news(self, kind: Kind, event: Object) -> bool:
        """Whether somebody else changed the object."""
        found = event["object"]
        known = self.seen.setdefault(kind.path, {})
        key = found["metadata"]["uid"]
        if event["type"] == "DELETED":
            known.pop(key, None)
            return True
        before, now = known.get(key), _seen(kind, found)
        known[key] = now
        by_us = objects.last_written(found)[1]
        if before is None:
            return event["type"] != "ADDED" or not by_us
        return before.digest != now.digest and not (by_us and now.written > before.written)

    def fill(self, kind: Kind, api: Api) -> tuple[str, set[str]]:
        """Read a full list: its version, and the workspaces of objects that differ from those remembered."""
        before = self.seen.get(kind.path, {})
        after: dict[str, Seen] = {}
        version = ""
        for page in api.pages(kind.path, **_query(kind)):
            version = page["metadata"]["resourceVersion"]
            after |= {item["metadata"]["uid"]: _seen(kind, item) for item in page.get("items") or []}
        self.seen[kind.path] = after
        keys = before.keys() | after.keys()
        changed = [key for key in keys if before.get(key) != after.get(key)]
        return version, {(after.get(key) or before[key]).workspace for key in changed}


class _Mark(NamedTuple):
    """Everything of this kind up to this version has been reported."""

    path: str
    version: str


class _End:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


_Item = SiteChange | _Mark | _End


def watch_changes(api: Api, memory: Memory, cursor: str, *, seconds: int) -> Iterator[SiteChange]:
    """One thread for each kind; the iterator ends when all have ended, or with the first that fails."""
    watch = _Watch(api, memory, _versions(cursor), seconds)
    try:
        yield from watch.follow()
    finally:
        watch.stop.set()


class _Watch:
    def __init__(self, api: Api, memory: Memory, versions: dict[str, str], seconds: int) -> None:
        self.api = api
        self.memory = memory
        self.versions = versions
        self.seconds = seconds
        self.stop = threading.Event()
        self.items: queue.Queue[_Item] = queue.Queue(_QUEUE)

    def follow(self) -> Iterator[SiteChange]:
        for kind in KINDS:
            name = f"changes-{kind.path.rsplit('/', 1)[-1]}"
            version = self.versions.get(kind.path, "")
            threading.Thread(target=self._read, args=(kind, version), name=name, daemon=True).start()
        running, proof_at = len(KINDS), time.monotonic() + PROOF_SECONDS
        while running:
            batch = self._batch(proof_at - time.monotonic())
            ends = [item for item in batch if isinstance(item, _End)]
            yield from dict.fromkeys(item for item in batch if isinstance(item, SiteChange))
            if error := next((end.error for end in ends if end.error), None):
                raise error
            self.versions |= {item.path: item.version for item in batch if isinstance(item, _Mark)}
            running -= len(ends)
            if time.monotonic() >= proof_at or not running:
                yield SiteChange(proof=True, cursor=json.dumps(self.versions, sort_keys=True))
                proof_at = time.monotonic() + PROOF_SECONDS

    def _batch(self, seconds: float) -> list[_Item]:
        """The items that arrive together; empty if none arrived in time."""
        found: list[_Item] = []
        with contextlib.suppress(queue.Empty):
            found.append(self.items.get(timeout=max(seconds, 0.001)))
            deadline = time.monotonic() + COALESCE_SECONDS
            while (left := deadline - time.monotonic()) > 0:
                found.append(self.items.get(timeout=left))
        return found

    def _read(self, kind: Kind, version: str) -> None:
        end = _End()
        try:
            self._follow(kind, version)
        except (NotFound, Permanent, Unauthorized) as error:
            end = _End(None if kind.optional else error)
        except Exception as error:  # noqa: BLE001  carried over to the thread that decides what to do
            end = _End(error)
        finally:
            self._emit(end)

    def _follow(self, kind: Kind, version: str) -> None:
        deadline = time.monotonic() + self.seconds
        if not version:
            version = self._fill(kind, report=False)
        while not self.stop.is_set() and (left := int(deadline - time.monotonic())) >= 1:
            began = time.monotonic()
            try:
                version = self._window(kind, version, left)
            except Expired:
                version = self._fill(kind, report=True)
            self.stop.wait(max(began + PAUSE_SECONDS - time.monotonic(), 0))

    def _fill(self, kind: Kind, *, report: bool) -> str:
        """Read the present state and report what changed since it was last seen; if it never was, the whole site. Of a kind that
        the site does not serve nothing is reported."""
        known = report and kind.path in self.memory.seen
        version, changed = self.memory.fill(kind, self.api)
        for name in sorted(changed) if known else ("",):
            self._emit(SiteChange(workspace_name=name))
        self._emit(_Mark(kind.path, version))
        return version

    def _window(self, kind: Kind, version: str, seconds: int) -> str:
        """One watch; returns the version at which the next one continues."""
        for event in self.api.watch(kind.path, version=version, seconds=seconds, **_query(kind)):
            if self.stop.is_set():
                break
            found = event["object"]
            version = found["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK" and self.memory.news(kind, event):
                self._emit(SiteChange(workspace_name=_workspace(kind, found)))
            self._emit(_Mark(kind.path, version))
        return version

    def _emit(self, item: _Item) -> None:
        while not self.stop.is_set():
            try:
                self.items.put(item, timeout=0.5)
            except queue.Full:
                continue
            return


def digest(kind: Kind, found: Object) -> bytes:
    """Of the fields that people or controllers set; of nodes also capacity and conditions."""
    relevant: Any = objects.content(found)
    if kind.path == "/api/v1/nodes":
        status = found.get("status") or {}
        conditions = sorted((c["type"], c["status"]) for c in status.get("conditions") or [])
        labels = found["metadata"].get("labels")
        relevant = [labels, found.get("spec"), status.get("capacity"), status.get("allocatable"), conditions]
    text = json.dumps(relevant, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _seen(kind: Kind, found: Object) -> Seen:
    return Seen(digest(kind, found), objects.last_written(found)[0], _workspace(kind, found))


def _workspace(kind: Kind, found: Object) -> str:
    metadata = found["metadata"]
    return "" if kind.site_wide else str(metadata.get("namespace") or metadata["name"])


def _query(kind: Kind) -> dict[str, str]:
    return {"labelSelector": kind.selector} if kind.selector else {}


def _versions(cursor: str) -> dict[str, str]:
    try:
        found = json.loads(cursor) if cursor else {}
    except ValueError:
        return {}
    known = {kind.path for kind in KINDS}
    return {str(k): str(v) for k, v in found.items() if k in known} if isinstance(found, dict) else {}
