"""What was read of each machine, kept for as long as the machine says that nothing of it has changed.

A machine that changed costs a few calls (its actions, itself again, its allocations), one that did not costs none.
"""

import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from gpuaas.core.clock import now
from gpuaas.core.errors import Unavailable
from gpuaas.providers.base import ObservedConsumer, UseState
from gpuaas.providers.openstack import actions, names, servers
from gpuaas.providers.openstack.client import Cloud, Object

REMEMBERED = 50_000
PARALLEL = 8
PAGE = 1000
HOST_SAYS = timedelta(minutes=10)
Signature = tuple[Any, ...]


@dataclass(frozen=True)
class Look:
    """One machine: a consumer for each stretch of its life, the last is what it is now.

    settled: nothing of it is under way. certain: that its flavor is what the last stretch has (not while it is resized).
    """

    signature: Signature
    consumers: tuple[ObservedConsumer, ...]
    settled: bool
    certain: bool
    held: Mapping[str, int]
    actions: tuple[Object, ...]

    @property
    def now(self) -> ObservedConsumer:
        return self.consumers[-1]


class Book:
    """Of one site, for all drivers of this process. Two threads that read the same machine at once find the same."""

    def __init__(self) -> None:
        self.is_metered = False  # by this process
        self._looks: OrderedDict[str, Look] = OrderedDict()

    def looks(self, cloud: Cloud, machines: Sequence[Object], classes: Mapping[str, str]) -> list[Look]:
        """In the order of `machines`, which are as `/servers/detail` has them. `classes`: alias → resource class."""
        if any("updated" not in machine for machine in machines):
            raise Unavailable("a cell of Nova does not answer: it does not say how its machines are")
        kept = [self.known(machine) for machine in machines]
        if all(kept):
            return [look for look in kept if look is not None]
        with ThreadPoolExecutor(PARALLEL) as pool:
            read = partial(self._look, cloud, classes)
            return list(pool.map(read, machines, kept))

    def known(self, machine: Object) -> Look | None:
        kept = self._looks.get(machine["id"])
        is_same = kept is not None and kept.settled and kept.signature == signature(machine)
        return kept if is_same else None

    def held(self, machine_id: str) -> Mapping[str, int] | None:
        """By GPU class, as Placement said when it was read last; None for one that was not read."""
        kept = self._looks.get(machine_id)
        return kept.held if kept is not None else None

    def forget(self, machine_id: str) -> None:
        """Something of it changed that it does not say itself; what is known of its actions stays."""
        kept = self._looks.get(machine_id)
        if kept is not None:
            self._looks[machine_id] = replace(kept, signature=())

    def _look(self, cloud: Cloud, classes: Mapping[str, str], machine: Object, kept: Look | None) -> Look:
        if kept is not None:
            return kept
        before = self._looks.get(machine["id"])
        known = before.actions if before is not None and before.settled else ()
        look = _read(cloud, machine, classes, known)
        self._looks[machine["id"]] = look
        self._looks.move_to_end(machine["id"])
        if len(self._looks) > REMEMBERED:
            self._looks.popitem(last=False)
        return look


_books: dict[uuid.UUID, Book] = {}


def book_of(site_id: uuid.UUID) -> Book:
    return _books.setdefault(site_id, Book())


def signature(machine: Object) -> Signature:
    """What a machine says of itself; any two that are alike, and not under way, have the same actions behind them."""
    host = machine.get("OS-EXT-SRV-ATTR:host")
    flavor = sorted(((machine.get("flavor") or {}).get("extra_specs") or {}).items())
    return machine["updated"], machine["status"], machine.get("OS-EXT-STS:task_state"), host, *flavor


def devices_held(cloud: Cloud, machine_id: str) -> dict[str, int] | None:
    """By GPU class, as Placement gives them; None where it has nothing at all for the machine."""
    found = cloud.get("placement", f"/allocations/{machine_id}")["allocations"]
    held: dict[str, int] = {}
    for part in found.values():
        for name, amount in part["resources"].items():
            if names.is_gpu_class(name):
                held[name] = held.get(name, 0) + amount
    return held if found else None


def _read(cloud: Cloud, machine: Object, classes: Mapping[str, str], known: Sequence[Object]) -> Look:
    """The machine is read again after its actions: only if both times it says the same do they belong together."""
    told = list(_actions(cloud, machine["id"], known))
    again, held = machine, None
    if machine["status"] != "DELETED":
        again = (cloud.find("compute", f"/servers/{machine['id']}") or {}).get("server") or {}
        held = devices_held(cloud, machine["id"])
    agrees = bool(again) and signature(again) == signature(machine)
    settled = agrees and not machine.get("OS-EXT-STS:task_state") and not actions.in_progress(told)
    return Look(
        signature=signature(machine),
        consumers=tuple(_consumers(machine, classes, told, held, settled=settled)),
        settled=settled,
        certain=settled or (agrees and not actions.resizing(told)),
        held=held or {},
        actions=tuple(told),
    )


def _actions(cloud: Cloud, machine_id: str, known: Sequence[Object]) -> Iterator[Object]:
    """All of them with their events; what has not been touched since is not asked for again."""
    kept = {(each["request_id"], each["updated_at"]): each for each in known}
    path = f"/servers/{machine_id}/os-instance-actions"
    for row in _action_rows(cloud, path):
        key = (row["request_id"], row["updated_at"])
        events = kept.get(key) or cloud.get("compute", f"{path}/{row['request_id']}")["instanceAction"]
        yield {**events, "updated_at": row["updated_at"]}


def _action_rows(cloud: Cloud, path: str) -> Iterator[Object]:
    query: dict[str, Any] = {"limit": PAGE}
    while True:
        page = cloud.find("compute", path, **query) or {"instanceActions": []}
        yield from page["instanceActions"]
        if not any(link.get("rel") == "next" for link in page.get("links") or ()):
            return
        query["marker"] = page["instanceActions"][-1]["request_id"]


def _consumers(
    machine: Object,
    classes: Mapping[str, str],
    told: Sequence[Object],
    held: Mapping[str, int] | None,
    *,
    settled: bool,
) -> Iterator[ObservedConsumer]:
    base = replace(servers.consumer(machine, classes), started_at=None, ended_at=None)
    terminated = machine.get("OS-SRV-USG:terminated_at")
    ended_at = servers.instant(terminated) if terminated else None
    fate = actions.Fate(
        id=machine["id"],
        status=machine["status"],
        allocated=held is not None,
        ended_at=ended_at,
        waits=ended_at is not None and now() - ended_at < HOST_SAYS,
    )
    found = actions.stretches(fate, told)
    first = {each.epoch: each.uid for each in reversed(found)}
    for each in found:
        is_last, is_known = each is found[-1], settled and each.sure and each.epoch == found[-1].epoch
        gpus = dict(base.gpus) if each.sure else {}
        if is_last and settled and each.ended_at is None and each.state is not UseState.SHELVED:
            # a port may have brought it devices that its flavor does not ask for
            gpus |= {name: max(count, gpus.get(name, 0)) for name, count in (held or {}).items()}
        yield replace(
            base,
            uid=each.uid,
            started_at=each.started_at,
            ended_at=each.ended_at,
            state=each.state,
            gpus=gpus,
            gpus_like="" if is_known else first[each.epoch],
        )
    if not found:
        yield base
