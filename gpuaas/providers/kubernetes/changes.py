"""Changes by others to what is ours, as a stream: one watch for each kind, told together.

A quiet site is quiet here: what only a status says (a quota's use, a node's heartbeat) and what we have written
ourselves is passed over. For that the watch remembers a digest of each object; a label selector keeps it to ours, and an object
that loses the label counts as deleted.
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
from gpuaas.providers.kubernetes import guards, names, namespaces, objects
from gpuaas.providers.kubernetes.client import Api, Expired, Object

_OURS = f"{names.MANAGED_BY}={names.MANAGER}"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
COALESCE_SECONDS = 0.2
PROOF_SECONDS = 10.0
_QUEUE = 10_000


@dataclass(frozen=True)
class Kind:
    """optional: not every site serves it, or lets us see it. selector "" = all of them."""

    path: str
    selector: str = _OURS
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
    Kind(f"{_ADMISSION}/mutatingadmissionpolicies", site_wide=True, optional=True),
    Kind(f"{_ADMISSION}/mutatingadmissionpolicybindings", site_wide=True, optional=True),
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
    """Of one driver, between its watches: what each object was when it was last seen."""

    seen: dict[str, dict[str, Seen]] = field(default_factory=dict)

    def news(self, kind: Kind, event: Object) -> bool:
        """Whether somebody else has changed something in it."""
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
        """A full list: its version, and the workspaces of what is not as it was remembered."""
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
    """Everything of this kind up to this version has been told."""

    path: str
    version: str


class _End:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


_Item = SiteChange | _Mark | _End


def watch_changes(api: Api, memory: Memory, cursor: str, *, seconds: int) -> Iterator[SiteChange]:
    """One thread for each kind; the iterator ends when all of them have, or with the first that fails."""
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
        """What comes in one go; empty where nothing came in time."""
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
            self._tell(end)

    def _follow(self, kind: Kind, version: str) -> None:
        deadline = time.monotonic() + self.seconds
        if not version:
            self._tell(SiteChange())
            version = self._fill(kind, told=False)
        while not self.stop.is_set() and (left := int(deadline - time.monotonic())) >= 1:
            try:
                version = self._window(kind, version, left)
            except Expired:
                version = self._fill(kind, told=True)

    def _fill(self, kind: Kind, *, told: bool) -> str:
        """The present. What was changed since it was last seen is told; where nothing was, look at everything."""
        if told and kind.path not in self.memory.seen:
            self._tell(SiteChange())
            told = False
        version, changed = self.memory.fill(kind, self.api)
        for name in sorted(changed) if told else ():
            self._tell(SiteChange(workspace_name=name))
        self._tell(_Mark(kind.path, version))
        return version

    def _window(self, kind: Kind, version: str, seconds: int) -> str:
        """One watch; the version from which the next goes on."""
        for event in self.api.watch(kind.path, version=version, seconds=seconds, **_query(kind)):
            if self.stop.is_set():
                break
            found = event["object"]
            version = found["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK" and self.memory.news(kind, event):
                self._tell(SiteChange(workspace_name=_workspace(kind, found)))
            self._tell(_Mark(kind.path, version))
        return version

    def _tell(self, item: _Item) -> None:
        while not self.stop.is_set():
            try:
                self.items.put(item, timeout=0.5)
            except queue.Full:
                continue
            return


def digest(kind: Kind, found: Object) -> bytes:
    """Of what a person or a controller sets. Of nodes also what they have and whether they can take work."""
    said: Any = objects.content(found)
    if kind.path == "/api/v1/nodes":
        status = found.get("status") or {}
        conditions = sorted((c["type"], c["status"]) for c in status.get("conditions") or [])
        labels = found["metadata"].get("labels")
        said = [labels, found.get("spec"), status.get("capacity"), status.get("allocatable"), conditions]
    text = json.dumps(said, sort_keys=True, default=str)
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
