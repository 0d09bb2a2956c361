"""Streams usage by polling changes every two seconds, with a few calls however many machines there are.

Nova stores the history (instance actions, deleted machines), so a cursor is a time of Nova's up to which everything was
reported. Events missed while nobody polled are reported with their original times, so no second is lost.
"""

import re
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpuaas.core.clock import now
from gpuaas.providers.base import ObservedConsumer, UsageEvent, UsageKind
from gpuaas.providers.openstack import names, servers
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.devices import DeviceWatch
from gpuaas.providers.openstack.machine_cache import Look, MachineCache, Signature, signature

EVERY_SECONDS = 2.0
# a row may be written later than its time, which is of another host's clock
OVERLAP = timedelta(seconds=30)
# age of deleted machines in a full list; and the most that a quiet site's cursor lags behind
RECENT = timedelta(days=1)
# the longest that a hanging action holds back the cursor: when it ends, the machine changes anyway
HELD_BACK = timedelta(hours=1)
_NAME = re.compile(r"gpu-[0-9a-f]{8}-")
DETAIL = ("compute", "/servers/detail", "servers")


@dataclass
class Pass:
    """State of one watch. position: everything up to it is reported; seen: signatures of reported machines; waiting: machines
    with something under way."""

    position: datetime
    seen: dict[str, Signature] = field(default_factory=dict)
    waiting: dict[str, datetime] = field(default_factory=dict)


class UsageStream:
    """Caches between two watches what it would otherwise read again; a new object finds the same by itself."""

    def __init__(self, cloud: Cloud, cache: MachineCache, *, history: timedelta) -> None:
        """history: for how long Nova's database keeps deleted machines; an older cursor starts with a list."""
        self._cloud = cloud
        self._cache = cache
        self._history = history
        self._classes = Classes()
        self._devices = DeviceWatch(cloud)
        self._projects: dict[str, str] = {}  # ours by id, including deleted ones
        self._foreign: frozenset[str] = frozenset()
        self._gone: set[str] = set()  # deleted projects of unknown name

    def watch(self, cursor: str, *, classes: Classes, seconds: int) -> Iterator[UsageEvent]:
        self._classes = classes
        self._cache.is_metered = True
        end = time.monotonic() + seconds
        newcomers = self._projects_read()
        position = datetime.fromisoformat(cursor) if cursor else None
        if position is None or now() - position > self._history:
            run = yield from self._relist()
        else:
            run = Pass(position)
            for project in sorted(newcomers):
                yield from self._report(run, self._machines(project_id=project))
        while True:
            yield from self._sweep(run)
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(EVERY_SECONDS, left))

    # -- looking ----------------------------------------------------------------------------------------------------

    def _relist(self) -> Generator[UsageEvent, None, Pass]:
        began = now()
        yield UsageEvent(UsageKind.RELIST, began)
        machines = self._machines()
        machines += self._machines(deleted="true", **{"changes-since": _text(began - RECENT)})
        run = Pass(began - RECENT)
        # machines of unknown projects are reported only when a cursor is resumed
        named = [machine for machine in machines if machine["tenant_id"] in self._projects]
        for event in self._report(run, named):
            yield replace(event, kind=UsageKind.SEEN)
        yield UsageEvent(UsageKind.RELISTED, began, cursor=_text(run.position))
        return run

    def _sweep(self, run: Pass) -> Iterator[UsageEvent]:
        began = now()
        run.position = max(run.position, began - RECENT)
        changed = self._machines(**{"changes-since": _text(run.position - OVERLAP)})
        changed += self._touched({machine["id"] for machine in changed})
        yield from self._report(run, changed)
        yield UsageEvent(UsageKind.BOOKMARK, began, cursor=_text(run.position))

    def _machines(self, **query: str) -> list[Object]:
        """Of all projects, whoever created them."""
        return self._cloud.items(*DETAIL, all_tenants="1", limit="1000", **query)

    def _touched(self, seen: set[str]) -> list[Object]:
        """Machines whose devices changed in Placement without a change in Nova: a port added or removed one."""
        found = []
        for machine_id, held in self._devices.changed(self._cache, self._classes).items():
            machine = self._cloud.find("compute", f"/servers/{machine_id}")
            if machine is not None and held != self._cache.held(machine_id):
                self._cache.forget(machine_id)
                found += [machine["server"]] if machine_id not in seen else []
        return found

    # -- telling ----------------------------------------------------------------------------------------------------

    def _report(self, run: Pass, machines: Sequence[Object]) -> Iterator[UsageEvent]:
        tenants = {machine["tenant_id"] for machine in machines}
        if tenants - self._known:
            self._projects_read()
            self._gone |= tenants - self._known
        ours = [machine for machine in machines if machine["tenant_id"] not in self._foreign]
        news = [each for each in ours if self._is_news(run, each)]
        for machine, look in zip(news, self._cache.looks(self._cloud, news, self._classes), strict=True):
            run.seen[machine["id"]] = signature(machine)
            run.waiting.pop(machine["id"], None)
            if not look.settled:
                run.waiting[machine["id"]] = servers.instant(machine["updated"])
            yield from self._events(machine, look)
        updated = [servers.instant(machine["updated"]) for machine in machines]
        run.position = _position(run, updated)

    def _is_news(self, run: Pass, machine: Object) -> bool:
        is_same = run.seen.get(machine["id"]) == signature(machine) and machine["id"] not in run.waiting
        return not is_same or self._cache.known(machine) is None

    def _events(self, machine: Object, look: Look) -> Iterator[UsageEvent]:
        """A deleted project has no name any more; stored usage shows whose machine it was."""
        name, at = self._projects.get(machine["tenant_id"], ""), now()
        for consumer in look.consumers:
            is_last = consumer is look.now and machine["status"] == "DELETED"
            kind = UsageKind.GONE if is_last else UsageKind.SEEN
            yield UsageEvent(kind, at, "", name, _settled(consumer, certain=look.certain))

    # -- projects ---------------------------------------------------------------------------------------------------

    @property
    def _known(self) -> frozenset[str]:
        return self._foreign | self._gone | self._projects.keys()

    def _projects_read(self) -> frozenset[str]:
        """Reads our projects; returns those with foreign names (adopted ones) that are new to us."""
        rows = self._cloud.items("identity", "/projects", "projects")
        ours = {row["id"]: row["name"] for row in rows if names.MANAGED in (row.get("tags") or ())}
        newcomers = {key for key, name in ours.items() if not _NAME.match(name)} - self._projects.keys()
        self._foreign = frozenset(row["id"] for row in rows) - ours.keys()
        self._projects |= ours
        return frozenset(newcomers)


def _settled(consumer: ObservedConsumer, *, certain: bool) -> ObservedConsumer:
    """During a resize it is unknown which stretch has which devices: then the last report holds."""
    return consumer if certain else replace(consumer, gpus={}, gpus_like=consumer.gpus_like or consumer.uid)


def _position(run: Pass, updated: Sequence[datetime]) -> datetime:
    """Up to where everything is reported; not beyond a machine with something under way."""
    reached = max([run.position, *updated])
    held_back = [at for at in run.waiting.values() if at > reached - HELD_BACK]
    return min([reached, *held_back])


def _text(moment: datetime) -> str:
    return moment.replace(microsecond=0).isoformat().replace("+00:00", "Z")
