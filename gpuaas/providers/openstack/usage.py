"""Who uses what, as a stream made by looking every two seconds at what has changed: a few calls, however many machines there are.

Nova keeps the history (instance actions, deleted machines), so a cursor is a time of Nova's: up to it all was told. What was
missed while nobody looked is told with the times at which it happened, and no second is lost.
"""

import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpuaas.core.clock import now
from gpuaas.providers.base import ObservedConsumer, UsageEvent, UsageKind
from gpuaas.providers.openstack import names, servers
from gpuaas.providers.openstack.book import Book, Look, Signature, signature
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.devices import DeviceWatch

EVERY_SECONDS = 2.0
# a row may be written later than the time that it bears, by another host's clock
OVERLAP = timedelta(seconds=30)
# deleted machines that a full list tells of too, with their ends; and how far a quiet site's cursor stays behind
RECENT = timedelta(days=1)
# an action that hangs does not keep the cursor back for longer: when it ends, the machine changes anyway
HELD_BACK = timedelta(hours=1)
_NAME = re.compile(r"gpu-[0-9a-f]{8}-")
DETAIL = ("compute", "/servers/detail", "servers")


@dataclass
class Pass:
    """What one watch has told. position: up to there all is told; waiting: machines at which something is under way."""

    position: datetime
    told: dict[str, Signature] = field(default_factory=dict)
    waiting: dict[str, datetime] = field(default_factory=dict)


class UsageStream:
    """Keeps between two watches what saves asking the site again; a new one finds the same by itself."""

    def __init__(self, cloud: Cloud, book: Book, *, history: timedelta) -> None:
        """history: for how long Nova's database keeps machines that were deleted; an older cursor begins with a list."""
        self._cloud = cloud
        self._book = book
        self._history = history
        self._classes: Mapping[str, str] = {}
        self._devices = DeviceWatch(cloud)
        self._projects: dict[str, str] = {}  # ours, by id; also such as are gone since
        self._foreign: frozenset[str] = frozenset()
        self._gone: set[str] = set()  # projects that nobody can name any more

    def watch(self, cursor: str, *, classes: Mapping[str, str], seconds: int) -> Iterator[UsageEvent]:
        """`classes`: alias → the resource class by which the site counts its devices."""
        self._classes = classes
        self._book.is_metered = True
        end = time.monotonic() + seconds
        newcomers = self._projects_read()
        position = datetime.fromisoformat(cursor) if cursor else None
        if position is None or now() - position > self._history:
            run = yield from self._relist()
        else:
            run = Pass(position)
            for project in sorted(newcomers):
                yield from self._tell(run, self._machines(project_id=project))
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
        # what nobody can name any more is told of only where a cursor goes on
        named = [machine for machine in machines if machine["tenant_id"] in self._projects]
        for event in self._tell(run, named):
            yield replace(event, kind=UsageKind.SEEN)
        yield UsageEvent(UsageKind.RELISTED, began, cursor=_text(run.position))
        return run

    def _sweep(self, run: Pass) -> Iterator[UsageEvent]:
        began = now()
        run.position = max(run.position, began - RECENT)
        changed = self._machines(**{"changes-since": _text(run.position - OVERLAP)})
        changed += self._touched({machine["id"] for machine in changed})
        yield from self._tell(run, changed)
        yield UsageEvent(UsageKind.BOOKMARK, began, cursor=_text(run.position))

    def _machines(self, **query: str) -> list[Object]:
        """Of all projects, whoever made them."""
        return self._cloud.items(*DETAIL, all_tenants="1", limit="1000", **query)

    def _touched(self, seen: set[str]) -> list[Object]:
        """Machines whose devices changed in Placement without a word from Nova: a port brought one, or took it away."""
        found = []
        for machine_id, held in self._devices.changed(self._book).items():
            machine = self._cloud.find("compute", f"/servers/{machine_id}")
            if machine is not None and held != self._book.held(machine_id):
                self._book.forget(machine_id)
                found += [machine["server"]] if machine_id not in seen else []
        return found

    # -- telling ----------------------------------------------------------------------------------------------------

    def _tell(self, run: Pass, machines: Sequence[Object]) -> Iterator[UsageEvent]:
        tenants = {machine["tenant_id"] for machine in machines}
        if tenants - self._known:
            self._projects_read()
            self._gone |= tenants - self._known
        ours = [machine for machine in machines if machine["tenant_id"] not in self._foreign]
        news = [each for each in ours if self._is_news(run, each)]
        for machine, look in zip(news, self._book.looks(self._cloud, news, self._classes), strict=True):
            run.told[machine["id"]] = signature(machine)
            run.waiting.pop(machine["id"], None)
            if not look.settled:
                run.waiting[machine["id"]] = servers.instant(machine["updated"])
            yield from self._events(machine, look)
        updated = [servers.instant(machine["updated"]) for machine in machines]
        run.position = _position(run, updated)

    def _is_news(self, run: Pass, machine: Object) -> bool:
        is_same = run.told.get(machine["id"]) == signature(machine) and machine["id"] not in run.waiting
        return not is_same or self._book.known(machine) is None

    def _events(self, machine: Object, look: Look) -> Iterator[UsageEvent]:
        """A project that is gone has no name any more; whose machine it was is known by what was written of it."""
        name, at = self._projects.get(machine["tenant_id"], ""), now()
        for consumer in look.consumers:
            is_last = consumer is look.now and machine["status"] == "DELETED"
            kind = UsageKind.GONE if is_last else UsageKind.SEEN
            yield UsageEvent(kind, at, "", name, _told(consumer, certain=look.certain))

    # -- projects ---------------------------------------------------------------------------------------------------

    @property
    def _known(self) -> frozenset[str]:
        return self._foreign | self._gone | self._projects.keys()

    def _projects_read(self) -> frozenset[str]:
        """Projects of ours whose names are not of our making; the value is those that we did not know of."""
        rows = self._cloud.items("identity", "/projects", "projects")
        ours = {row["id"]: row["name"] for row in rows if names.MANAGED in (row.get("tags") or ())}
        newcomers = {key for key, name in ours.items() if not _NAME.match(name)} - self._projects.keys()
        self._foreign = frozenset(row["id"] for row in rows) - ours.keys()
        self._projects |= ours
        return frozenset(newcomers)


def _told(consumer: ObservedConsumer, *, certain: bool) -> ObservedConsumer:
    """While a machine is resized nobody says which of its stretches has which devices: then what was told before holds."""
    return consumer if certain else replace(consumer, gpus={}, gpus_like=consumer.gpus_like or consumer.uid)


def _position(run: Pass, updated: Sequence[datetime]) -> datetime:
    """As far as all is told; not beyond a machine at which something is under way."""
    reached = max([run.position, *updated])
    held_back = [at for at in run.waiting.values() if at > reached - HELD_BACK]
    return min([reached, *held_back])


def _text(moment: datetime) -> str:
    return moment.replace(microsecond=0).isoformat().replace("+00:00", "Z")
