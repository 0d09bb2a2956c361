"""Reading usage: intervals, sums of unit-seconds, and how each site's meter is doing."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.conditions import Condition, Status
from gpuaas.metering.models import Meter, SiteMeter, UsageInterval
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import LIVE
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import platform_require, project_require, projects_for

SQL = Path(__file__).parent / "sql"
PROOF_LATE = timedelta(seconds=150)


@dataclass(frozen=True)
class UsageFilters:
    """All of them hold together; `starts_at`/`ends_at` keep intervals that touch [starts_at, ends_at)."""

    project: Project | None = None
    workspace: Workspace | None = None
    meter: Meter | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    open_only: bool = False


@dataclass(frozen=True)
class UsageSum:
    """Unit-seconds of a project in one meter and flavor; flavor None = a GPU type that is not sold, or no GPU."""

    project_id: uuid.UUID
    project: str
    meter: Meter
    flavor: str | None
    unit_seconds: int


def intervals_for(*, actor: Actor, filters: UsageFilters | None = None) -> QuerySet[UsageInterval]:
    """Intervals of projects whose workspaces the actor may see, newest first."""
    wanted = filters or UsageFilters()
    rows = UsageInterval.objects.select_related("project", "workspace", "flavor", "site")
    rows = rows.filter(project__in=projects_for(actor=actor, permission=Permission.WORKSPACE_VIEW))
    if wanted.project is not None:
        rows = rows.filter(project=wanted.project)
    if wanted.workspace is not None:
        rows = rows.filter(workspace=wanted.workspace)
    if wanted.meter is not None:
        rows = rows.filter(meter=wanted.meter)
    if wanted.ends_at is not None:
        rows = rows.filter(started_at__lt=wanted.ends_at)
    if wanted.starts_at is not None:
        rows = rows.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=wanted.starts_at))
    if wanted.open_only:
        rows = rows.filter(ended_at__isnull=True)
    return rows


def intervals_open(*, site_id: uuid.UUID) -> QuerySet[UsageInterval]:
    """GPUs that consumers hold at this moment, for the meter and the operator."""
    return UsageInterval.objects.filter(site_id=site_id, meter=Meter.GPU_ALLOCATED, ended_at__isnull=True)


def usage_by_project(
    *,
    actor: Actor,
    starts_at: datetime,
    ends_at: datetime,
    project: Project | None = None,
    now: datetime | None = None,
) -> list[UsageSum]:
    """Unit-seconds in [starts_at, ends_at) by project, meter and flavor; open intervals count up to `now`."""
    if project is not None:
        project_require(actor=actor, project=project, permission=Permission.WORKSPACE_VIEW)
        scope = [project.pk]
    else:
        rows = projects_for(actor=actor, permission=Permission.WORKSPACE_VIEW)
        scope = list(rows.order_by().values_list("pk", flat=True))
    parameters: dict[str, Any] = {
        "projects": scope,
        "starts_at": clock.whole_second(starts_at),
        "ends_at": clock.whole_second(ends_at),
        "now": clock.whole_second(now or clock.now()),
    }
    with connection.cursor() as cursor:
        cursor.execute(_sql("usage_by_project.sql"), parameters)
        return [
            UsageSum(pk, slug, Meter(meter), flavor, int(seconds))
            for pk, slug, meter, flavor, seconds in cursor.fetchall()
        ]


def sites_metered() -> QuerySet[Site]:
    """A site that takes no new work is metered until the last workspace there is gone and all ends are written."""
    lived_in = Exists(Workspace.objects.filter(site=OuterRef("pk"), state__in=LIVE))
    unended = Exists(
        UsageInterval.objects.filter(site=OuterRef("pk"), meter=Meter.GPU_ALLOCATED, ended_at__isnull=True)
    )
    return Site.objects.filter(Q(enabled=True) | lived_in | unended)


def meters_for(*, actor: Actor) -> QuerySet[SiteMeter]:
    """Every site's meter, for operators and auditors."""
    platform_require(actor=actor)
    return SiteMeter.objects.select_related("site").order_by("site__slug")


def meter_condition(*, site_id: uuid.UUID, now: datetime | None = None) -> Condition:
    """`Metered`: is usage at this site being counted now? Usage itself is not lost while it is not; it is read later."""
    moment = now or clock.now()
    meter = SiteMeter.objects.filter(site_id=site_id).first()
    if meter is None or meter.last_proof_at is None:
        return Condition(
            type="Metered",
            status=Status.UNKNOWN,
            reason="NeverHeard",
            message="The meter has not yet heard from this site.",
            since=moment,
            remedy="Start the meter process (manage.py meter).",
        )
    late = moment - meter.last_proof_at > PROOF_LATE
    if late:
        return Condition(
            type="Metered",
            status=Status.FALSE,
            reason="ProofIsLate",
            message=f"The meter last heard from this site at {meter.last_proof_at:%Y-%m-%d %H:%M:%S} UTC.",
            since=meter.last_proof_at + PROOF_LATE,
            remedy="Check that the meter process runs and that the site answers; usage since then is read when both do.",
        )
    return Condition(
        type="Metered",
        status=Status.TRUE,
        reason="Watching",
        message=f"Usage is counted; last proof at {meter.last_proof_at:%Y-%m-%d %H:%M:%S} UTC.",
        since=meter.last_proof_at,
    )


@cache
def _sql(name: str) -> str:
    return (SQL / name).read_text("utf-8")
