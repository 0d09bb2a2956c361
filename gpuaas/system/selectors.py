"""The state of the portal itself, for operators and auditors: what runs, what waits, how each site is heard."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Min, Q, QuerySet

from gpuaas.backup.models import Backup
from gpuaas.backup.selectors import backup_last
from gpuaas.catalog.models import Site
from gpuaas.clusters.models import ClusterOperation
from gpuaas.core import clock
from gpuaas.core.models import Process
from gpuaas.lifecycle.visits import REACHABLE
from gpuaas.metering.health import PROOF_LATE
from gpuaas.metering.selectors import intervals_unsold
from gpuaas.system import health
from gpuaas.system.gauges import RECENT
from gpuaas.system.health import Part
from gpuaas.system.versions import Version, versions
from gpuaas.system.work import Work, work_list
from gpuaas.workspaces.models import Drift, Operation
from gpuaas.workspaces.states import DriftState
from tenants.actors import Actor
from tenants.selectors import platform_require

KILLED_FOR = timedelta(hours=1)


@dataclass(frozen=True)
class Visited:
    """What the reconcilers did at a site: operations of workspaces and clusters, the ended ones of the last hour."""

    open: int = 0
    oldest: datetime | None = None
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class SiteState:
    """slow: its work waits for workers of its own. heard_at: when its meter last heard from it; `late`: too long ago.
    unsold: running consumers of GPUs that no flavor sells, which are billed only if they have a price by name."""

    site: Site
    reachable: bool
    slow: bool
    heard_at: datetime | None
    late: bool
    visited: Visited
    drift: int
    unsold: int


@dataclass(frozen=True)
class SystemState:
    """processes: those alive, and those killed within KILLED_FOR. backup: the newest archive, None if none was ever made."""

    parts: list[Part]
    processes: list[Process]
    work: list[Work]
    sites: list[SiteState]
    versions: list[Version]
    backup: Backup | None


def system_get(*, actor: Actor, now: datetime | None = None) -> SystemState:
    """A bounded number of queries; the broker is asked for its version with a limit of some seconds. Raises NotFound for
    who has no role on the platform."""
    platform_require(actor=actor)
    moment = now or clock.now()
    return SystemState(
        parts=health.parts(now=moment),
        processes=list(Process.objects.filter(seen_at__gt=moment - KILLED_FOR)),
        work=work_list(moment),
        sites=_sites(moment),
        versions=versions(),
        backup=backup_last(),
    )


def _sites(now: datetime) -> list[SiteState]:
    rows = Site.objects.filter(enabled=True, removed_at__isnull=True).select_related("meter")
    visited = _visited(now)
    drift = _counts(Drift.objects.filter(state=DriftState.OPEN), "workspace__site")
    unsold = _counts(intervals_unsold(), "site")
    return [
        _site(row, now, visited.get(row.pk, Visited()), drift.get(row.pk, 0), unsold.get(row.pk, 0))
        for row in rows
    ]


def _site(row: Site, now: datetime, visited: Visited, drift: int, unsold: int) -> SiteState:
    meter = getattr(row, "meter", None)
    heard_at = meter.last_proof_at if meter is not None else None
    return SiteState(
        site=row,
        reachable=row.conditions.get(REACHABLE, {}).get("status") == "True",
        slow=row.slow_until is not None and row.slow_until > now,
        heard_at=heard_at,
        late=row.reached_at is not None and (heard_at is None or now - heard_at > PROOF_LATE),
        visited=visited,
        drift=drift,
        unsold=unsold,
    )


def _visited(now: datetime) -> dict[Any, Visited]:
    sums: dict[Any, Visited] = {}
    for rows, site in (
        (Operation.objects.all(), "workspace__site"),
        (ClusterOperation.objects.all(), "cluster__site"),
    ):
        for pk, found in _operations(rows, site, now):
            sums[pk] = _both(sums[pk], found) if pk in sums else found
    return sums


def _operations(rows: QuerySet[Any], site: str, now: datetime) -> Iterable[tuple[Any, Visited]]:
    waits, ended = Q(finished_at__isnull=True), Q(finished_at__gt=now - RECENT)
    found = rows.filter(waits | ended).order_by().values_list(site)
    counted = found.annotate(
        count_open=Count("pk", filter=waits),
        oldest_open=Min("requested_at", filter=waits),
        count_succeeded=Count("pk", filter=ended & Q(succeeded=True)),
        count_failed=Count("pk", filter=ended & Q(succeeded=False)),
    )
    return ((pk, Visited(*figures)) for pk, *figures in counted)


def _both(one: Visited, other: Visited) -> Visited:
    since = [row.oldest for row in (one, other) if row.oldest is not None]
    return Visited(
        one.open + other.open,
        min(since, default=None),
        one.succeeded + other.succeeded,
        one.failed + other.failed,
    )


def _counts(rows: QuerySet[Any], site: str) -> dict[Any, int]:
    return dict(rows.order_by().values_list(site).annotate(Count("pk")))
