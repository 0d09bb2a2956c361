"""The warden: detects in the meter's stream that a workspace, or a cluster in a namespace, holds more than it bought,
and removes the newest consumers.

While pods are created and deleted quickly, a quota at the site can be exceeded for moments. The stream only raises
the suspicion, because it may be history; a fresh look at the site decides.
"""

import threading
import time
from collections.abc import Iterable, Mapping

import structlog
from django.db import DatabaseError, InterfaceError, close_old_connections, connections

from gpuaas.catalog.models import Site
from gpuaas.catalog.site import confirmed_at
from gpuaas.core import clock
from gpuaas.core.errors import GpuaasError
from gpuaas.metering.books import Account, Book, accounts_at
from gpuaas.metering.selectors import intervals_open
from gpuaas.metering.services import surplus_mark
from gpuaas.metering.surplus import holds, surplus
from gpuaas.providers.base import Driver, ObservedConsumer, UsageEvent, UsageKind, WardenCapability
from quotas.allowances import Allowance, Surplus

log = structlog.get_logger(__name__)

TICK_SECONDS = 0.2
ALLOWANCES_SECONDS = 2.0
AGAIN_SECONDS = 0.5

Devices = Mapping[str, int]


class Ledger:
    """What each namespace holds according to the stream. Filled by the reading thread, read by the warden's."""

    def __init__(self, held: Mapping[str, Mapping[str, Devices]]) -> None:
        self._lock = threading.Lock()
        self._held = {name: dict(space) for name, space in held.items()}
        self._listed: dict[str, set[str]] | None = None
        self._touched: set[str] = set()

    def note(self, event: UsageEvent) -> None:
        consumer = event.consumer
        with self._lock:
            if event.kind is UsageKind.RELIST:
                self._listed = {}
            elif event.kind is UsageKind.RELISTED:
                self._forget_unlisted()
            elif consumer is not None and consumer.gpus:
                self._set(event.kind, event.workspace_name, consumer)

    def holders(self, name: str) -> frozenset[str]:
        with self._lock:
            return frozenset(self._held.get(name, {}))

    def settle(self, name: str, *, known: Iterable[str], there: Mapping[str, Devices]) -> None:
        """After a look at the site: of what was `known` before, only what is `there` is held. Later events stay."""
        gone = set(known) - set(there)
        with self._lock:
            space = self._held.get(name, {})
            stays = {uid: devices for uid, devices in space.items() if uid not in gone}
            self._held[name] = {**there, **stays}

    def over(self, accounts: Mapping[str, Account], *, every: bool) -> list[str]:
        """Namespaces that seem to exceed their allowance: of those with events since the last time, or of all."""
        with self._lock:
            asked = list(self._held) if every else list(self._touched)
            self._touched.clear()
            return [
                name
                for name in asked
                if name in accounts and self._is_over(name, accounts[name].allowance.limits)
            ]

    def _set(self, kind: UsageKind, name: str, consumer: ObservedConsumer) -> None:
        space = self._held.setdefault(name, {})
        if kind is UsageKind.SEEN and holds(consumer):
            space[consumer.uid] = consumer.gpus
            self._touched.add(name)
        else:
            space.pop(consumer.uid, None)
        if self._listed is not None:
            self._listed.setdefault(name, set()).add(consumer.uid)

    def _forget_unlisted(self) -> None:
        listed, self._listed = self._listed or {}, None
        for name, space in self._held.items():
            there = listed.get(name, set())
            self._held[name] = {uid: devices for uid, devices in space.items() if uid in there}

    def _is_over(self, name: str, limits: Devices) -> bool:
        total: dict[str, int] = {}
        for devices in self._held.get(name, {}).values():
            for resource, count in devices.items():
                total[resource] = total.get(resource, 0) + count
        return any(count > limits[resource] for resource, count in total.items() if resource in limits)


class Warden:
    """For one site, while its meter has the claim: `note` every event as it comes, `run` in a thread of its own."""

    def __init__(self, site: Site, driver: Driver, evictor: WardenCapability) -> None:
        self.site = site
        self._driver = driver
        self._evictor = evictor
        self._accounts = _judged(site)
        self._read_at = time.monotonic()
        # when the last warden ended; and those of whom nothing is written that says what they held then
        self._suspects = {
            name
            for name, each in self._accounts.items()
            if each.allowance.over_quota or not each.book.streamed
        }
        self._cleared: dict[str, tuple[Allowance, frozenset[str]]] = {}
        self._looked_at: dict[str, float] = {}
        self.ledger = Ledger(self._written())

    def run(self, stop: threading.Event) -> None:
        bound = log.bind(site=self.site.slug)
        while not stop.is_set():
            try:
                self.look(bound)
            except (DatabaseError, InterfaceError) as error:
                bound.warning("warden_database_failed", error=type(error).__name__)
                connections.close_all()
            except Exception:  # noqa: BLE001  a warden that dies leaves the quota to be outrun
                bound.exception("warden_failed")
            close_old_connections()
            stop.wait(TICK_SECONDS)
        connections.close_all()

    def look(self, bound: structlog.stdlib.BoundLogger) -> None:
        """One round: which namespaces seem to be over, and which of them really are."""
        moment = time.monotonic()
        every = moment - self._read_at >= ALLOWANCES_SECONDS
        if every:
            self._accounts, self._read_at = _judged(self.site), moment
        seeming = self.ledger.over(self._accounts, every=every)
        self._suspects.update(name for name in seeming if not self._is_cleared(name))
        for name in sorted(self._suspects):
            if moment - self._looked_at.get(name, -AGAIN_SECONDS) >= AGAIN_SECONDS:
                self._looked_at[name] = moment
                try:
                    self._examine(name, bound)
                except GpuaasError as error:
                    bound.warning(
                        "warden_site_failed", namespace=name, error=error.code, message=error.message
                    )

    def _examine(self, name: str, bound: structlog.stdlib.BoundLogger) -> None:
        """Judges only by fresh reads, of the site and of the database."""
        account = self._accounts.get(name)
        allowance = account.afresh(self.site.pk) if account else None
        if account is None or allowance is None:
            self._suspects.discard(name)
            return
        book = account.book
        before = self.ledger.holders(name)
        seen = self._driver.observe(allowance.ref)
        now = clock.now()
        excess = surplus(seen.consumers, allowance, enforced=seen.hard, now=now)
        self.ledger.settle(name, known=before, there=_holding(seen.consumers))
        if excess:
            book.eviction_record(holder_id=allowance.holder_id, found=excess, seen_at=now)
            surplus_mark(site_id=self.site.pk, found=excess)
            for each in excess:
                self._remove(book, allowance, each, bound)
            return
        self._suspects.discard(name)
        self._cleared[name] = (allowance, self.ledger.holders(name))
        book.within_quota_note(holder_id=allowance.holder_id)

    def _remove(
        self, book: Book, allowance: Allowance, found: Surplus, bound: structlog.stdlib.BoundLogger
    ) -> None:
        reason = found.reason(book.holder)
        removed = self._evictor.evict(allowance.external_name, found.consumer, reason=reason)
        if removed and book.eviction_done:
            book.eviction_done(
                holder_id=allowance.holder_id, consumer_uid=found.consumer.uid, removed_at=clock.now()
            )
        bound.warning(
            "surplus_removed" if removed else "surplus_gone",
            namespace=allowance.external_name,
            consumer=found.consumer.name,
            resource=found.resource_name,
            held=found.held,
            limit=found.limit,
        )

    def _is_cleared(self, name: str) -> bool:
        """Checked, and neither what it holds nor its allowance has changed since."""
        return self._cleared.get(name) == (self._accounts[name].allowance, self.ledger.holders(name))

    def _written(self) -> dict[str, dict[str, Devices]]:
        """Written together with the cursor from which the stream continues."""
        names = {
            each.allowance.holder_id: name for name, each in self._accounts.items() if each.book.streamed
        }
        held: dict[str, dict[str, Devices]] = {}
        columns = ("workspace_id", "consumer_uid", "resource_name", "quantity")
        for workspace_id, uid, resource, count in intervals_open(site_id=self.site.pk).values_list(*columns):
            if workspace_id in names:
                space = held.setdefault(names[workspace_id], {})
                space[uid] = {**space.get(uid, {}), resource: count}
        return held


def _judged(site: Site) -> dict[str, Account]:
    """Nobody where nothing may be changed: after a restore a workspace may have grown by what the database does not know."""
    return accounts_at(site.pk) if confirmed_at(site.pk) else {}


def _holding(consumers: Iterable[ObservedConsumer]) -> dict[str, Devices]:
    return {each.uid: each.gpus for each in consumers if each.gpus and holds(each)}
