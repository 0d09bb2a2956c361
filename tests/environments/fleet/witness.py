"""What the API server itself says of pods and quotas, written down by the test: which there were, from when until when.

Nothing of the portal is asked for it, neither its meter nor the way in which it reads pods.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from gpuaas.providers.kubeapi.client import Api, Object

GPU = "nvidia.com/gpu"
PODS, QUOTAS = "/api/v1/pods", "/api/v1/resourcequotas"


@dataclass(frozen=True)
class Ran:
    """A pod that was bound to a node, over [start, end): from when the scheduler had bound it until its last container had ended."""

    uid: str
    name: str
    namespace: str
    node: str
    gpus: int
    start: datetime
    end: datetime

    @property
    def seconds(self) -> int:
        return int((self.end - self.start).total_seconds())


@dataclass(frozen=True)
class Allowed:
    """What the quota of a namespace was, by the controller that counts it, since then."""

    since: datetime
    gpus: int


@dataclass
class Witness:
    """Follows both collections, from before the first workspace until it is left."""

    api: Api
    pods: dict[str, Object] = field(default_factory=dict)  # as each was last, by uid
    gone: set[str] = field(default_factory=set)
    allowed: dict[str, list[Allowed]] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watching(self) -> Iterator["Witness"]:
        threads = [
            threading.Thread(target=self._follow, args=(path,), daemon=True) for path in (PODS, QUOTAS)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join(20)

    def _follow(self, path: str) -> None:
        try:
            version = self.api.get(path)["metadata"]["resourceVersion"]
            while not self._over.is_set():
                for event in self.api.watch(path, version=version, seconds=2):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._note(path, event["type"], event["object"])
        except Exception as error:  # noqa: BLE001  the test says which
            self.failures.append(error)

    def _note(self, path: str, kind: str, body: Object) -> None:
        meta = body["metadata"]
        if path == QUOTAS:
            self._quota(meta, (body.get("status") or {}).get("hard") or {})
            return
        self.pods[meta["uid"]] = body
        if kind == "DELETED":
            self.gone.add(meta["uid"])

    def _quota(self, meta: Object, hard: Object) -> None:
        key, told = f"requests.{GPU}", self.allowed.setdefault(meta["namespace"], [])
        if meta["name"] != "gpuaas" or key not in hard or (told and told[-1].gpus == int(hard[key])):
            return
        written = [each for each in meta["managedFields"] if "f:hard" in each["fieldsV1"].get("f:status", {})]
        at = max(datetime.fromisoformat(each["time"]) for each in written)
        told.append(Allowed(at, int(hard[key])))

    def left(self, namespaces: Iterable[str]) -> list[str]:
        """Pods of these that are still there."""
        wanted = set(namespaces)
        there = [body for uid, body in list(self.pods.items()) if uid not in self.gone]
        return [each["metadata"]["name"] for each in there if each["metadata"]["namespace"] in wanted]

    def ran(self, namespaces: Iterable[str]) -> list[Ran]:
        """All of these that ever ran, in the order of their begin; each has ended."""
        wanted = set(namespaces)
        bodies = [body for body in self.pods.values() if body["metadata"]["namespace"] in wanted]
        return sorted(filter(None, map(_ran, bodies)), key=lambda each: (each.start, each.uid))


def _ran(body: Object) -> Ran | None:
    """None for one that no node ever had: it held nothing."""
    meta, status = body["metadata"], body["status"]
    bound = [
        each["lastTransitionTime"]
        for each in status.get("conditions") or []
        if (each["type"], each["status"]) == ("PodScheduled", "True")
    ]
    if not bound:
        return None
    ended = [each["state"]["terminated"]["finishedAt"] for each in status["containerStatuses"]]
    asked = [each["resources"].get("limits", {}).get(GPU, "0") for each in body["spec"]["containers"]]
    start, end = datetime.fromisoformat(bound[0]), max(map(datetime.fromisoformat, ended))
    node, gpus = body["spec"]["nodeName"], sum(map(int, asked))
    return Ran(meta["uid"], meta["name"], meta["namespace"], node, gpus, start, end)
