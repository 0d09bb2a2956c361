"""Watches changes by others at a site: an affected workspace is compared within seconds.

One watcher per site, in the process that holds the claim on the site. It records its cursor and that it is alive.
While it is, workspaces are checked once an hour; otherwise every half minute (`services.drift.watches_lost`).
"""

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import structlog
from django.db import DatabaseError, InterfaceError, connections

from gpuaas.catalog.models import Site
from gpuaas.catalog.site import confirmed_at
from gpuaas.core import clock
from gpuaas.core.backoff import delay
from gpuaas.core.connections import connection_return
from gpuaas.core.errors import GpuaasError
from gpuaas.core.queue import poke
from gpuaas.providers.base import DriftCapability, Driver
from gpuaas.workspaces.models import SiteWatch
from gpuaas.workspaces.services.drift import (
    changes_note,
    site_checks_spread,
    site_repaired,
    watch_proved,
)
from gpuaas.workspaces.site import driver_of, outside_transaction

log = structlog.get_logger(__name__)

WINDOW_SECONDS = 60
SITE_EVERY_SECONDS = 5.0
BACKOFF_CAP_SECONDS = 30.0
# a watch that was away for longer may have missed what its cursor no longer reaches
GAP = timedelta(minutes=5)


def site_repair(site: Site, driver: Driver) -> int:
    """Repairs the portal's objects for the whole site, whatever its policy, because they limit tenants. Returns how
    many differed. Nothing is done before an operator has confirmed the site."""
    if not isinstance(driver, DriftCapability) or not confirmed_at(site.pk):
        return 0
    outside_transaction()
    repaired = driver.site_repair()
    if repaired:
        log.warning("site_repaired", site=site.slug, objects=sorted({one.object for one in repaired}))
        site_repaired(site=site, differences=[asdict(one) for one in repaired])
    return len(repaired)


class ChangesWatcher:
    """Watches one site until `stop` is set; survives failures of the site and the database."""

    def __init__(
        self, site: Site, *, stop: threading.Event, open_driver: Callable[[Site], Driver] = driver_of
    ) -> None:
        self.site = site
        self.stop = stop
        self._open_driver = open_driver
        self._driver: Driver | None = None
        self._opened: Any = None
        self._site_due = False
        self._site_done_at = 0.0
        self._failures = 0

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                pause = self._turn()
                if pause:
                    self.stop.wait(pause)
        finally:
            connections.close_all()

    def _turn(self) -> float:
        """One window; returns the seconds to wait before the next."""
        bound = log.bind(site=self.site.slug)
        try:
            if not self.window(seconds=WINDOW_SECONDS):
                return BACKOFF_CAP_SECONDS
        except GpuaasError as error:
            bound.warning("changes_site_failed", error=error.code, message=error.message)
        except (DatabaseError, InterfaceError) as error:
            bound.warning("changes_database_failed", error=type(error).__name__)
            connections.close_all()
        except Exception:  # noqa: BLE001  a watch that dies makes drift slow to be found; it says so and tries again
            bound.exception("changes_failed")
            self._driver = None
        else:
            self._failures = 0
            return 0.0
        self._failures += 1
        return min(delay(self._failures), BACKOFF_CAP_SECONDS)

    def window(self, *, seconds: int) -> bool:
        """Watches the site for that time; False if its driver reports no changes."""
        driver = self._current()
        if not isinstance(driver, DriftCapability):
            return False
        watch = SiteWatch.objects.filter(site=self.site).first()
        if watch is None or watch.proof_at is None or watch.proof_at < clock.now() - GAP:
            site_checks_spread(site_id=self.site.pk)
        cursor = watch.cursor if watch is not None else ""
        for change in driver.watch_changes(cursor, seconds=seconds):
            if self.stop.is_set():
                break
            if change.workspace_name:
                changes_note(site_id=self.site.pk, name=change.workspace_name)
            elif change.proof:
                watch_proved(site_id=self.site.pk, cursor=change.cursor)
            else:
                self._site_due = True
            self._site_changed(driver)
            connection_return()
        return True

    def _current(self) -> Driver:
        """The same driver for all windows: it remembers what it has seen, until the site's settings change."""
        self.site = Site.objects.get(pk=self.site.pk)  # the meter's thread has its own
        settings = (self.site.credentials, self.site.endpoint, self.site.options)
        if self._driver is None or self._opened != settings:
            self._driver, self._opened = self._open_driver(self.site), settings
        return self._driver

    def _site_changed(self, driver: Driver) -> None:
        """After a change of a node, a class or a policy: probe the site and repair our policies. Not for each change
        of many."""
        if not self._site_due or time.monotonic() < self._site_done_at + SITE_EVERY_SECONDS:
            return
        self._site_due, self._site_done_at = False, time.monotonic()
        site_repair(self.site, driver)
        poke("catalog.probe", str(self.site.pk))
