"""Reads of usage: intervals, sums of unit-seconds, and the state of each site's meter."""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.states import LIVE as CLUSTERS_LIVE
from gpuaas.core import clock
from gpuaas.core.sql import sql_read
from gpuaas.metering.final import intervals_require
from gpuaas.metering.import_progress import KEPT_SHOWN
from gpuaas.metering.models import (
    HOLDING_METERS,
    STREAMED_METERS,
    CrossCheck,
    ImportProgress,
    Meter,
    MeterGap,
    SiteMeter,
    UsageImport,
    UsageImportSum,
    UsageInterval,
)
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import LIVE
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import platform_require, project_require, projects_for

SQL = Path(__file__).parent / "sql"


@dataclass(frozen=True)
class UsageFilters:
    """An interval has to match all of them; `starts_at`/`ends_at` select intervals that touch [starts_at, ends_at).

    consumer, owner ("Job/train") and node are complete names. surplus=True: only what the warden found to be too
    much.
    """

    project: Project | None = None
    workspace: Workspace | None = None
    cluster: Cluster | None = None
    meter: Meter | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    open_only: bool = False
    consumer: str = ""
    owner: str = ""
    node: str = ""
    surplus: bool | None = None


@dataclass(frozen=True)
class UsageSum:
    """Unit-seconds of a project in one meter and flavor; flavor None = a GPU type that is not sold, or no GPU.

    surplus_unit_seconds: the part held beyond the purchase, until the warden removed it.
    """

    project_id: uuid.UUID
    project: str
    meter: Meter
    flavor: str | None
    unit_seconds: int
    surplus_unit_seconds: int = 0


def intervals_for(*, actor: Actor, filters: UsageFilters | None = None) -> QuerySet[UsageInterval]:
    """Intervals of projects whose workspaces and clusters the actor may see, newest first. Raises Conflict if the time
    asked for is archived; without a time, what is archived is left out."""
    wanted = filters or UsageFilters()
    asked = wanted.starts_at or wanted.ends_at
    if asked is not None:
        intervals_require(starts_at=asked)
    rows = UsageInterval.objects.select_related("project", "workspace", "cluster", "flavor", "site")
    rows = rows.filter(project__in=projects_for(actor=actor, permission=Permission.WORKSPACE_VIEW))
    if wanted.project is not None:
        rows = rows.filter(project=wanted.project)
    if wanted.workspace is not None:
        rows = rows.filter(workspace=wanted.workspace)
    if wanted.cluster is not None:
        rows = rows.filter(cluster=wanted.cluster)
    if wanted.meter is not None:
        rows = rows.filter(meter=wanted.meter)
    if wanted.ends_at is not None:
        rows = rows.filter(started_at__lt=wanted.ends_at)
    if wanted.starts_at is not None:
        rows = rows.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=wanted.starts_at))
    if wanted.open_only:
        rows = rows.filter(ended_at__isnull=True)
    if wanted.surplus is not None:
        rows = rows.filter(surplus=wanted.surplus)
    names = {"consumer_name": wanted.consumer, "owner": wanted.owner, "node": wanted.node}
    return rows.filter(**{column: name for column, name in names.items() if name})


def intervals_open(*, site_id: uuid.UUID) -> QuerySet[UsageInterval]:
    """GPUs that consumers hold now, for the meter and the operator."""
    return UsageInterval.objects.filter(site_id=site_id, meter__in=HOLDING_METERS, ended_at__isnull=True)


def intervals_unsold() -> QuerySet[UsageInterval]:
    """GPUs that run now and that no flavor sells; vCPU, memory and storage never have a flavor. For the portal's own health."""
    return UsageInterval.objects.filter(ended_at__isnull=True, flavor__isnull=True, meter__startswith="gpu_")


def usage_by_project(
    *,
    actor: Actor,
    starts_at: datetime,
    ends_at: datetime,
    project: Project | None = None,
    now: datetime | None = None,
) -> list[UsageSum]:
    """Unit-seconds in [starts_at, ends_at) by project, meter and flavor; open intervals count up to `now`. Raises
    Conflict if a part of that time is archived."""
    if project is not None:
        project_require(actor=actor, project=project, permission=Permission.WORKSPACE_VIEW)
        scope = [project.pk]
    else:
        rows = projects_for(actor=actor, permission=Permission.WORKSPACE_VIEW)
        scope = list(rows.order_by().values_list("pk", flat=True))
    intervals_require(starts_at=starts_at)
    return usage_sums(projects=scope, starts_at=starts_at, ends_at=ends_at, now=now)


def usage_sums(
    *, projects: Collection[uuid.UUID], starts_at: datetime, ends_at: datetime, now: datetime | None = None
) -> list[UsageSum]:
    """As `usage_by_project`, for services: nobody is asked for rights, and what is archived is left out. One query."""
    parameters: dict[str, Any] = {
        "projects": list(projects),
        "starts_at": clock.whole_second(starts_at),
        "ends_at": clock.whole_second(ends_at),
        "now": clock.whole_second(now or clock.now()),
    }
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "usage_by_project"), parameters)
        return [
            UsageSum(pk, slug, Meter(meter), flavor, int(seconds), int(surplus))
            for pk, slug, meter, flavor, seconds, surplus in cursor.fetchall()
        ]


def sites_metered() -> QuerySet[Site]:
    """A disabled site is metered until its last workspace and cluster is gone and all ends are written."""
    lived_in = Exists(Workspace.objects.filter(site=OuterRef("pk"), state__in=LIVE))
    served = Exists(Cluster.objects.filter(site=OuterRef("pk"), state__in=CLUSTERS_LIVE))
    unended = Exists(
        UsageInterval.objects.filter(site=OuterRef("pk"), meter__in=STREAMED_METERS, ended_at__isnull=True)
    )
    return Site.objects.filter(Q(enabled=True) | lived_in | served | unended)


def sites_counted(*, starts_at: datetime, ends_at: datetime) -> QuerySet[Site]:
    """Metered sites at which anything can have run in [starts_at, ends_at). A site that nobody had reached by then,
    and without known usage, has nothing to report."""
    used = UsageInterval.objects.filter(site=OuterRef("pk"), started_at__lt=ends_at)
    used = used.exclude(ended_at__lte=starts_at)
    return sites_metered().filter(Q(reached_at__lt=ends_at) | Exists(used))


def resources_unsold(*, actor: Actor) -> list[tuple[str, Meter]]:
    """GPUs ever counted without a flavor, with their meters: to set prices for them. For operators and auditors."""
    platform_require(actor=actor)
    rows = UsageInterval.objects.filter(flavor=None, meter__startswith="gpu_").order_by(
        "resource_name", "meter"
    )
    return [(name, Meter(meter)) for name, meter in rows.values_list("resource_name", "meter").distinct()]


def meters_for(*, actor: Actor) -> QuerySet[SiteMeter]:
    """Every site's meter, for operators and auditors."""
    platform_require(actor=actor)
    return SiteMeter.objects.select_related("site").order_by("site__slug")


def cross_checks_of(*, actor: Actor, site: Site) -> QuerySet[CrossCheck]:
    """Results of the daily comparisons, newest first; for operators and auditors."""
    platform_require(actor=actor)
    return CrossCheck.objects.filter(site=site)


def gaps_of(*, actor: Actor, site: Site) -> QuerySet[MeterGap]:
    """Periods for which the site has no history, newest first; for operators and auditors."""
    platform_require(actor=actor)
    return MeterGap.objects.filter(site=site)


def imports_for(*, actor: Actor) -> QuerySet[UsageImport]:
    """Batches of imported usage, also those that were taken back, newest first; for operators and auditors."""
    platform_require(actor=actor)
    return UsageImport.objects.order_by("-pk")


def imports_under_way(*, actor: Actor, now: datetime) -> list[ImportProgress]:
    """How far imports of usage are that nobody has seen the end of, oldest first; for operators and auditors."""
    platform_require(actor=actor)
    return list(ImportProgress.objects.filter(seen_at__gt=now - KEPT_SHOWN).order_by("pk"))


def import_sums_of(*, actor: Actor, batch: UsageImport) -> QuerySet[UsageImportSum]:
    """What a batch brought, by month, project and meter; for operators and auditors."""
    platform_require(actor=actor)
    return batch.sums.select_related("project").order_by("pk")


def gaps_between(
    *, site_ids: Iterable[uuid.UUID], starts_at: datetime, ends_at: datetime
) -> QuerySet[MeterGap]:
    """Gaps that touch [starts_at, ends_at): usage there is estimated. For billing."""
    rows = MeterGap.objects.filter(site__in=list(site_ids), starts_at__lt=ends_at, ends_at__gt=starts_at)
    return rows.select_related("site").order_by("starts_at")
