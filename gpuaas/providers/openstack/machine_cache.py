"""Caches each machine's history for as long as the machine itself shows no change.

A changed machine costs a few calls (its actions, itself again, its allocations), an unchanged one none.
"""

import uuid
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from gpuaas.core.clock import now
from gpuaas.core.errors import Unavailable
from gpuaas.providers.base import ObservedConsumer, UseState
from gpuaas.providers.openstack import actions, servers
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud, Object

REMEMBERED = 50_000
PARALLEL = 8
PAGE = 1000
HOST_SAYS = timedelta(minutes=10)
Signature = tuple[Any, ...]


@dataclass(frozen=True)
class Look:
    """One machine: a consumer for each stretch of its life; the last is the present one.

    settled: nothing is under way. certain: its flavor is that of the last stretch (not while it is being resized).
    """

    signature: Signature
    consumers: tuple[ObservedConsumer, ...]
    settled: bool
    certain: bool
    held: Mapping[str, int]
    places: frozenset[str]  # the providers of what it holds
    actions: tuple[Object, ...]

    @property
    def now(self) -> ObservedConsumer:
        return self.consumers[-1]


class MachineCache:
    """Of one site, for all drivers of this process. Concurrent reads of a machine give the same result."""

    def __init__(self) -> None:
        self.is_metered = False  # by this process
        self._looks: OrderedDict[str, Look] = OrderedDict()

    def looks(self, cloud: Cloud, machines: Sequence[Object], classes: Classes) -> list[Look]:
        """In the order of `machines`, which come from `/servers/detail`."""
        if any("updated" not in machine for machine in machines):
            raise Unavailable("a cell of Nova does not answer, so the state of its machines is unknown")
        known = [self.known(machine) for machine in machines]
        if all(known):
            return [look for look in known if look is not None]
        with ThreadPoolExecutor(PARALLEL) as pool:
            read = partial(self._look, cloud, classes)
            return list(pool.map(read, machines, known))

    def known(self, machine: Object) -> Look | None:
        look = self._looks.get(machine["id"])
        is_same = look is not None and look.settled and look.signature == signature(machine)
        return look if is_same else None

    def held(self, machine_id: str) -> Mapping[str, int] | None:
        """By GPU class, as last read from Placement; None for an unknown machine."""
        look = self._looks.get(machine_id)
        return look.held if look is not None else None

    def holders_at(self, providers: Collection[str]) -> set[str]:
        """Machines that held devices of these providers when they were last read."""
        return {key for key, look in list(self._looks.items()) if not look.places.isdisjoint(providers)}

    def forget(self, machine_id: str) -> None:
        """Read the machine again next time, because of a change that it does not show itself; its actions stay cached."""
        look = self._looks.get(machine_id)
        if look is not None:
            self._looks[machine_id] = replace(look, signature=())

    def _look(self, cloud: Cloud, classes: Classes, machine: Object, known: Look | None) -> Look:
        if known is not None:
            return known
        before = self._looks.get(machine["id"])
        actions_known = before.actions if before is not None and before.settled else ()
        look = _read(cloud, machine, classes, actions_known)
        self._looks[machine["id"]] = look
        self._looks.move_to_end(machine["id"])
        if len(self._looks) > REMEMBERED:
            self._looks.popitem(last=False)
        return look


_caches: dict[uuid.UUID, MachineCache] = {}


def machine_cache_of(site_id: uuid.UUID) -> MachineCache:
    return _caches.setdefault(site_id, MachineCache())


def signature(machine: Object) -> Signature:
    """The state of a machine; equal signatures, with no task under way, imply the same actions."""
    host = machine.get("OS-EXT-SRV-ATTR:host")
    flavor = sorted(((machine.get("flavor") or {}).get("extra_specs") or {}).items())
    return machine["updated"], machine["status"], machine.get("OS-EXT-STS:task_state"), host, *flavor


Allocations = dict[str, dict[str, int]]


def allocations_of(cloud: Cloud, machine_id: str, classes: Classes) -> Allocations | None:
    """GPU classes by provider, from Placement; None if the machine has no allocations at all."""
    found = cloud.get("placement", f"/allocations/{machine_id}")["allocations"]
    parts = {
        provider: {name: amount for name, amount in part["resources"].items() if classes.is_gpu(name)}
        for provider, part in found.items()
    }
    return {provider: part for provider, part in parts.items() if part} if found else None


def devices_held(allocations: Allocations) -> dict[str, int]:
    held: Counter[str] = Counter()
    for part in allocations.values():
        held.update(part)
    return dict(held)


def _read(cloud: Cloud, machine: Object, classes: Classes, known: Sequence[Object]) -> Look:
    """Reads the machine again after its actions: they are consistent only if it did not change in between."""
    history = list(_actions(cloud, machine["id"], known))
    again, allocated = machine, None
    if machine["status"] != "DELETED":
        again = (cloud.find("compute", f"/servers/{machine['id']}") or {}).get("server") or {}
        allocated = allocations_of(cloud, machine["id"], classes)
    held = devices_held(allocated) if allocated is not None else None
    agrees = bool(again) and signature(again) == signature(machine)
    settled = agrees and not machine.get("OS-EXT-STS:task_state") and not actions.in_progress(history)
    return Look(
        signature=signature(machine),
        consumers=tuple(_consumers(machine, classes, history, held, settled=settled)),
        settled=settled,
        certain=settled or (agrees and not actions.resizing(history)),
        held=held or {},
        places=frozenset(allocated or ()),
        actions=tuple(history),
    )


def _actions(cloud: Cloud, machine_id: str, known: Sequence[Object]) -> Iterator[Object]:
    """All of them with their events; unchanged ones are not read again."""
    cached = {(each["request_id"], each["updated_at"]): each for each in known}
    path = f"/servers/{machine_id}/os-instance-actions"
    for row in _action_rows(cloud, path):
        key = (row["request_id"], row["updated_at"])
        events = cached.get(key) or cloud.get("compute", f"{path}/{row['request_id']}")["instanceAction"]
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
    classes: Classes,
    history: Sequence[Object],
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
    found = actions.stretches(fate, history)
    first = {each.epoch: each.uid for each in reversed(found)}
    for each in found:
        is_last, is_known = each is found[-1], settled and each.sure and each.epoch == found[-1].epoch
        gpus = dict(base.gpus) if each.sure else {}
        if is_last and settled and each.ended_at is None and each.state is not UseState.SHELVED:
            # a port may have added devices that its flavor does not request; those of an alias that nobody knows are among them
            gpus = {name: count for name, count in gpus.items() if classes.is_gpu(name) or not held}
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
