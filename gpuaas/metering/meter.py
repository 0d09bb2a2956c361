"""The meter: one thread per site that follows the site's usage stream and writes it down.

It holds the claim on the site (SiteMeter), so a second process is a spare that takes over when the claim expires. The
cursor is stored with the rows that it covers: after a kill, the next process continues from there, and reading twice
changes nothing.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable

import structlog
from django.db import DatabaseError, InterfaceError, connections

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.backoff import delay
from gpuaas.core.claims import ClaimLost
from gpuaas.core.connections import connection_return
from gpuaas.core.errors import GpuaasError, Permanent
from gpuaas.core.events import project_group, publish
from gpuaas.metering.batch import Batch, CatchUp, Changes
from gpuaas.metering.beside import Beside
from gpuaas.metering.selectors import sites_metered
from gpuaas.metering.services import meter_claim, meter_flush, meter_release
from gpuaas.metering.stream import End, Stream
from gpuaas.providers.base import Driver, UsageCapability
from gpuaas.workspaces.services import workspace_look
from gpuaas.workspaces.site import driver_of

log = structlog.get_logger(__name__)

CLAIM_SECONDS = 20
RENEW_SECONDS = 2.0
FLUSH_SECONDS = 0.5
FLUSH_EVENTS = 5000
WATCH_SECONDS = 10
CATCH_UP_SECONDS = 2.0
BACKOFF_CAP_SECONDS = 10.0


class SiteMeterRunner:
    """Meters one site until `stop` is set; survives the site, the database and the loss of its claim."""

    def __init__(
        self,
        site: Site,
        *,
        stop: threading.Event,
        holder: str,
        open_driver: Callable[[Site], Driver] = driver_of,
    ) -> None:
        self.site = site
        self.stop = stop
        self.holder = holder
        self._open_driver = open_driver
        self._changes = Changes()
        self._failures = 0

    def run(self) -> None:
        bound = log.bind(site=self.site.slug)
        try:
            while not self.stop.is_set():
                pause = self._turn(bound)
                if pause:
                    self.stop.wait(pause)
        finally:
            self._give_back(bound)

    def _turn(self, bound: structlog.stdlib.BoundLogger) -> float:
        """Watches until something ends it; returns the seconds to wait before the next turn."""
        try:
            if not self._watch():
                return CLAIM_SECONDS / 4
        except ClaimLost:
            bound.info("meter_claim_lost")
            return CLAIM_SECONDS / 4
        except GpuaasError as error:
            bound.warning("meter_site_failed", error=error.code, message=error.message)
        except (DatabaseError, InterfaceError) as error:
            bound.warning("meter_database_failed", error=type(error).__name__)
            connections.close_all()
        except Exception:  # noqa: BLE001  a meter that dies counts nothing; it says so and tries again
            bound.exception("meter_failed")
        else:
            return 0.0
        self._failures += 1
        return min(delay(self._failures), BACKOFF_CAP_SECONDS)

    def _watch(self) -> bool:
        """Claims the site and follows the stream, window after window; False if another process has it."""
        now = clock.now()
        self.site.refresh_from_db()
        meter = meter_claim(site_id=self.site.pk, holder=self.holder, now=now, seconds=CLAIM_SECONDS)
        if meter is None:
            return False
        driver = self._open_driver(self.site)
        if not isinstance(driver, UsageCapability):
            raise Permanent(f"the driver {driver.name} does not report usage")
        catch_up = CatchUp(
            last_proof_at=meter.last_proof_at, opened=time.monotonic(), seconds=CATCH_UP_SECONDS
        )
        cursor = meter.cursor
        with Beside(self.site, self._open_driver) as beside:
            while not self.stop.is_set():
                cursor = self._window(driver, cursor, catch_up, beside)
                self._failures = 0
        return True

    def _window(self, driver: UsageCapability, cursor: str, catch_up: CatchUp, beside: Beside) -> str:
        """One watch; returns the cursor for the next. What was read before an error is written first."""
        stream = Stream(driver, cursor, seconds=WATCH_SECONDS, name=self.site.slug)
        batch, flushed_at = Batch(), time.monotonic()
        try:
            while not self.stop.is_set():
                items = stream.take(timeout=FLUSH_SECONDS / 2)
                moment = time.monotonic()
                for item in items:
                    if isinstance(item, End):
                        cursor = self._flush(batch, cursor)
                        if item.error is not None:
                            raise item.error
                        return cursor
                    beside.note(item)
                    batch.add(catch_up.stamp(item, monotonic=moment))
                if _is_due(batch, moment - flushed_at):
                    cursor, flushed_at = self._flush(batch, cursor), moment
                self._tell()
            return self._flush(batch, cursor)
        finally:
            stream.close()

    def _flush(self, batch: Batch, cursor: str) -> str:
        events = batch.take()
        applied = meter_flush(
            site_id=self.site.pk,
            holder=self.holder,
            events=events,
            now=clock.now(),
            claim_seconds=CLAIM_SECONDS,
        )
        connection_return()
        self._changes.note(events, applied.owners)
        self._tell()
        return next((event.cursor for event in reversed(events) if event.cursor), cursor)

    def _tell(self) -> None:
        for owner in self._changes.due(monotonic=time.monotonic()):
            workspace_look(workspace_id=owner.workspace_id)
            publish(
                kind="usage",
                id=owner.workspace_id,
                groups=(project_group(owner.project_id),),
            )

    def _give_back(self, bound: structlog.stdlib.BoundLogger) -> None:
        try:
            meter_release(site_id=self.site.pk, holder=self.holder)
        except (DatabaseError, InterfaceError):
            bound.warning("meter_lease_not_released")


def _is_due(batch: Batch, seconds: float) -> bool:
    """Flushes news within half a second, mere proofs of life and the claim every two seconds."""
    if batch.has_news and not batch.listing:
        return seconds >= FLUSH_SECONDS or len(batch.events) >= FLUSH_EVENTS
    return seconds >= RENEW_SECONDS


def _run(runner: SiteMeterRunner) -> None:
    try:
        runner.run()
    finally:
        connections.close_all()


def holder_name() -> str:
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(4)}"


class Meters:
    """A runner per site that is enabled or still in use; sites are added and removed while it runs."""

    def __init__(self, *, stop: threading.Event) -> None:
        self.stop = stop
        self._holder = holder_name()
        self._running: dict[object, tuple[threading.Thread, threading.Event]] = {}

    def run(self, *, every: float = 5.0) -> None:
        """Runs until `stop` is set; then waits for the runners to write what they have read."""
        while not self.stop.is_set():
            try:
                self._match()
            except (DatabaseError, InterfaceError) as error:
                log.warning("meter_sites_unread", error=type(error).__name__)
                connections.close_all()
            self.stop.wait(every)
        for _, stop in self._running.values():
            stop.set()
        for thread, _ in self._running.values():
            thread.join(timeout=8.0)
        connections.close_all()

    def _match(self) -> None:
        sites = {site.pk: site for site in sites_metered()}
        for key, (thread, stop) in list(self._running.items()):
            if key not in sites:
                stop.set()
            if not thread.is_alive():
                del self._running[key]
        for key, site in sites.items():
            if key not in self._running:
                stop = threading.Event()
                runner = SiteMeterRunner(site, stop=stop, holder=self._holder)
                thread = threading.Thread(target=_run, args=(runner,), name=f"meter-{site.slug}", daemon=True)
                self._running[key] = (thread, stop)
                thread.start()
