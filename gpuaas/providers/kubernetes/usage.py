"""Streams usage: one list, then a watch of pods, and of ResourceClaims if the site serves them.

A cursor is made of versions of lists or of bookmarks, never of an object: only those say "up to here, everything". On a
site without DRA it is the version of pods; else a small JSON object of both.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gpuaas.core.clock import now, whole_second
from gpuaas.core.mailbox import Mailbox
from gpuaas.providers.base import UsageEvent, UsageKind
from gpuaas.providers.kubeapi import claims, names, pods
from gpuaas.providers.kubeapi.client import Api, Expired, Object
from gpuaas.providers.kubeapi.names import NAMESPACES
from gpuaas.providers.kubernetes.allocations import Allocation, Claimants, ClaimBook, remember

PODS = "/api/v1/pods"
KINDS = {"ADDED": UsageKind.SEEN, "MODIFIED": UsageKind.SEEN, "DELETED": UsageKind.GONE}
MAILBOX_SIZE = 5_000


@dataclass(frozen=True)
class Position:
    """Where to resume; "" = unknown, so from a list. claims stays "" if the site has no DRA."""

    pods: str = ""
    claims: str = ""

    @classmethod
    def read(cls, cursor: str) -> "Position":
        if not cursor.startswith("{"):
            return cls(pods=cursor)
        held = json.loads(cursor)
        return cls(pods=str(held.get("pods", "")), claims=str(held.get("claims", "")))

    def write(self) -> str:
        if not self.claims:
            return self.pods
        return json.dumps({"pods": self.pods, "claims": self.claims}, separators=(",", ":"))


class UsageStream:
    """Caches between two watches what it would otherwise read again; a new object finds the same by itself."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._classes = claims.Classes()
        self._aliases: dict[str, str] = {}
        self._spaces: frozenset[str] = frozenset()
        self._told: frozenset[str] = frozenset()  # those of them whose consumers of before have all been told
        self._book = ClaimBook()
        self._pods: OrderedDict[str, pods.Fixed] = OrderedDict()
        self._deadlines: OrderedDict[str, datetime] = OrderedDict()
        self._claimants = Claimants()

    def watch(self, cursor: str, *, seconds: int) -> Iterator[UsageEvent]:
        position = Position.read(cursor)
        newcomers = self._spaces_read()
        try:
            if not position.pods or (self._classes.served and not position.claims):
                position = yield from self._relist()
            else:
                self._claims_resume(position, newcomers)
                yield from self._newcomers(newcomers)
            yield from self._follow(position, seconds)
        except Expired:
            position = yield from self._relist()
            yield from self._follow(position, seconds)

    # -- lists ------------------------------------------------------------------------------------------------------

    def _classes_read(self, sold: Mapping[str, str]) -> None:
        """Classes may appear, disappear and be renamed; pods parsed with other names are parsed again."""
        before, self._classes = self._classes, claims.classes_of(self._api, sold)
        if self._classes != before:
            self._aliases = self._classes.aliases
            self._pods.clear()

    def _spaces_read(self) -> frozenset[str]:
        """Reads our namespaces with foreign names (adopted ones); returns those of which not all is told yet."""
        ours = self._api.items(NAMESPACES, labelSelector=names.WORKSPACE)
        self._classes_read(claims.sold_in(ours))
        adopted = {each["metadata"]["name"] for each in ours}
        self._spaces = frozenset(filter(_is_foreign_name, adopted))
        self._told &= self._spaces
        return self._spaces - self._told

    def _newcomers(self, spaces: frozenset[str]) -> Iterator[UsageEvent]:
        """Consumers that ran there before the adoption were skipped when they were reported."""
        for space in sorted(spaces):
            for pod in self._api.items(f"{NAMESPACES}/{space}/pods"):
                yield from self._pod_event(UsageKind.SEEN, pod)
        if spaces:
            yield from self._allocated()
        self._told = self._spaces

    def _allocated(self) -> Iterator[UsageEvent]:
        for allocation in self._book.held.values():
            yield self._claimants.event(allocation, UsageKind.SEEN)

    def _relist(self) -> Generator[UsageEvent, None, Position]:
        """Returns the position at the end of the lists."""
        yield UsageEvent(kind=UsageKind.RELIST, at=now())
        self._claimants.forget_waiting()
        pods_version = ""
        for page in self._api.pages(PODS):
            pods_version = page["metadata"]["resourceVersion"]
            for pod in page.get("items") or []:
                yield from self._pod_event(UsageKind.SEEN, pod)
        self._book = ClaimBook()
        if self._classes.served:
            self._book = self._claims_list()
            yield from self._allocated()
        self._told = self._spaces
        position = Position(pods_version, self._book.version)
        yield UsageEvent(kind=UsageKind.RELISTED, at=now(), cursor=position.write())
        return position

    def _claims_list(self, **query: str) -> ClaimBook:
        book = ClaimBook()
        for page in self._api.pages(claims.CLAIMS, **query):
            book.version = page["metadata"]["resourceVersion"]
            for claim in page.get("items") or []:
                self._claim_note(book, claim)
        return book

    def _claims_resume(self, position: Position, newcomers: frozenset[str]) -> None:
        """The allocations at the cursor: remembered, or read from the site's history. Raises Expired."""
        if not self._classes.served:
            return
        query = {"resourceVersion": position.claims, "resourceVersionMatch": "Exact"}
        if self._book.version != position.claims:
            self._book = self._claims_list(**query)
            self._book.version = position.claims
            return
        for space in sorted(newcomers):  # skipped as long as it was not ours
            for claim in self._api.items(f"{claims.DRA}/namespaces/{space}/resourceclaims", **query):
                self._claim_note(self._book, claim)

    # -- watches ----------------------------------------------------------------------------------------------------

    def _follow(self, position: Position, seconds: int) -> Iterator[UsageEvent]:
        """A quiet site may send no bookmark; its regular end of a watch proves as much."""
        working = ClaimBook(position.claims, dict(self._book.held))
        for collection, event in self._watches(position, seconds):
            is_claim = collection == claims.CLAIMS
            kind, thing = event["type"], event["object"]
            if kind == "BOOKMARK":
                version = thing["metadata"]["resourceVersion"]
                if is_claim:
                    position = replace(position, claims=version)
                    self._book = ClaimBook(version, dict(working.held))
                else:
                    position = replace(position, pods=version)
                    yield UsageEvent(kind=UsageKind.BOOKMARK, at=now(), cursor=position.write())
            elif is_claim:
                yield from self._claim_event(working, KINDS[kind], thing)
            else:
                yield from self._pod_event(KINDS[kind], thing)
        yield UsageEvent(kind=UsageKind.BOOKMARK, at=now(), cursor=position.write())

    def _watches(self, position: Position, seconds: int) -> Iterator[tuple[str, Object]]:
        """(collection, event). Ends when all watches have ended normally, fails as soon as one fails."""
        open_pods = self._api.watch_lean(PODS, version=position.pods, seconds=seconds)
        if not self._classes.served:
            yield from ((PODS, event) for event in open_pods)
            return
        open_claims = self._api.watch_lean(claims.CLAIMS, version=position.claims, seconds=seconds)
        yield from _merged({PODS: open_pods, claims.CLAIMS: open_claims})

    # -- events -----------------------------------------------------------------------------------------------------

    def _pod_event(self, kind: UsageKind, pod: Object) -> Iterator[UsageEvent]:
        space = pod["metadata"]["namespace"]
        if not self._is_ours(space):
            return
        uid = pod["metadata"]["uid"]
        known = self._pods.get(uid)
        if known is None:
            known = pods.fixed(pod, self._aliases)
            remember(self._pods, uid, known)
        at = now()
        ends_by = self._ends_by(pod["metadata"], at)
        if kind is UsageKind.GONE:
            consumer = pods.vanished(pod, seen_at=at, known=known, deadline=ends_by)
        else:
            consumer = replace(pods.consumer(pod, known=known), deadline_at=ends_by)
        yield UsageEvent(kind, at, "", space, consumer)
        if known.uses_claims:
            yield from self._claimants.note(uid, owner=known.owner, ended_at=consumer.ended_at)

    def _ends_by(self, meta: Object, at: datetime) -> datetime | None:
        """The deadline of a pod that is being deleted. A shorter grace period counts from when it was asked to end first, so it may move
        the deadline into a past in which the pod still ran."""
        deadline, first = pods.deadline_of(meta), self._deadlines.get(meta["uid"])
        if deadline is None:
            return None
        if first is not None and deadline < first:
            deadline = min(first, max(deadline, whole_second(at)))
        remember(self._deadlines, meta["uid"], deadline)
        return deadline

    def _claim_note(self, book: ClaimBook, claim: Object) -> Allocation | None:
        """Records the claim's current allocation in the book and returns it, if any."""
        meta = claim["metadata"]
        before = book.held.pop(meta["uid"], None)
        if not self._is_ours(meta["namespace"]):
            return None
        consumer = claims.consumer(claim, self._classes, self._claimants.owners)
        if consumer is None:
            return None
        users = tuple(each["uid"] for each in claims.reserved_for(claim))
        if not users and before is not None:
            users = before.users  # no longer reserved; next it is deallocated
        maker = (claims.controller(meta) or {}).get("uid", "")
        allocation = book.held[meta["uid"]] = Allocation(meta["namespace"], consumer, maker, users)
        return allocation

    def _claim_event(self, book: ClaimBook, kind: UsageKind, claim: Object) -> Iterator[UsageEvent]:
        before = book.held.get(claim["metadata"]["uid"])
        if kind is UsageKind.GONE:
            after = None
            book.held.pop(claim["metadata"]["uid"], None)
        else:
            after = self._claim_note(book, claim)
        if before is not None and (after is None or after.consumer.uid != before.consumer.uid):
            yield self._claimants.event(before, UsageKind.GONE)
        if after is not None:
            yield self._claimants.event(after, UsageKind.SEEN)

    def _is_ours(self, space: str) -> bool:
        return names.is_workspace_namespace(space) or space in self._spaces


def _is_foreign_name(space: str) -> bool:
    return not names.is_workspace_namespace(space)


class _Over:
    """A watch has ended: normally, or by `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


def _merged(watches: Mapping[str, Iterator[Object]]) -> Iterator[tuple[str, Object]]:
    """Reads each watch in its own thread. A reader that is still waiting when we leave ends with its watch."""
    box: Mailbox[tuple[str, Object | _Over]] = Mailbox(MAILBOX_SIZE)

    def read(key: str, watch: Iterator[Object]) -> None:
        over = _Over()
        try:
            for event in watch:
                if not box.put((key, event)):
                    return
        except Exception as error:  # noqa: BLE001  carried over to the thread that follows the site
            over = _Over(error)
        box.put((key, over))

    for key, watch in watches.items():
        threading.Thread(target=read, args=(key, watch), name="usage-watch", daemon=True).start()
    running = len(watches)
    try:
        while running:
            for key, item in box.take(timeout=1.0):
                if not isinstance(item, _Over):
                    yield key, item
                elif item.error is not None:
                    raise item.error
                else:
                    running -= 1
    finally:
        box.close()
