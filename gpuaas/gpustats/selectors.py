"""Reads of what GPUs did: now, in the last 24 hours, and in a month beside what was held."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Avg, Count, DateTimeField, F, Func, Max, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Concat

from gpuaas.catalog.models import GpuType, Site, SiteReadings
from gpuaas.catalog.site import kind_of
from gpuaas.core import clock
from gpuaas.core.sql import sql_read
from gpuaas.environments.models import Environment
from gpuaas.environments.use import GpuUse
from gpuaas.gpustats.advice import BUSY_PERCENT, advice_of
from gpuaas.gpustats.models import GpuHour, GpuSample
from gpuaas.gpustats.months import kept_of, seconds_of
from gpuaas.jobs.models import OVER, Job
from gpuaas.metering.selectors import usage_by_project
from gpuaas.providers.base import MetricsCapability
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspace_require
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import platform_require, project_require

SQL = Path(__file__).parent / "sql"
FRESH = timedelta(minutes=5)  # a reading is of now until then
DAY = timedelta(hours=24)
MOST = 500  # rows of devices
MACHINES = "Machines of {site} have their GPUs to themselves, and the portal does not look into them. Run nvidia-smi in a machine."
SILENT = (
    "{site} has reported nothing about its GPUs for more than 5 minutes. It has no DCGM exporter that answers, "
    "or is out of reach."
)
NOTHING = "No pod of this {what} had a GPU in the last 24 hours."
NO_GPUS = "It asks for no GPUs."
NOT_YET = "It has not run yet."
TOO_SHORT = "None of its pods was seen with a GPU: the portal looks about once a minute."
QUARTER = timedelta(minutes=15)
STEPS = [timedelta(minutes=each) for each in (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 720, 1440)]
SLOTS = 96  # of a chart at most, where a step allows it
BEGIN = datetime(2000, 1, 1, tzinfo=UTC)


class _Slot(Func):
    """The start of the step that a time is in."""

    template = "date_bin(%(expressions)s, TIMESTAMPTZ '2000-01-01 00:00:00+00')"
    output_field = DateTimeField()


@dataclass(frozen=True)
class Slot:
    """A step of a chart; utilization and memory in percent, None where nothing was seen of it."""

    starts_at: datetime
    utilization: float | None = None
    memory: float | None = None


@dataclass(frozen=True)
class DeviceDay:
    """A device and the pod that had it in the last 24 hours, of a job while it ran. now: its last sample, None if that is not of
    now; mean: its utilization as long as the pod was seen to have it."""

    node: str
    device: str
    index: str
    instance: str
    profile: str
    pod: str
    workspace: str
    project: str
    seen_at: datetime
    mean: float | None
    memory_max_mib: int | None
    energy_wh: float | None
    now: GpuSample | None


@dataclass(frozen=True)
class Figures:
    """why: why there is nothing, in a sentence; "" where there is something. advice: "" where there is none. step: the length of
    each slot. kept_since: what was before is not kept any more; None where nothing is missing for that."""

    devices: Sequence[DeviceDay]
    slots: Sequence[Slot]
    why: str
    advice: str = ""
    step: timedelta = QUARTER
    kept_since: datetime | None = None


@dataclass(frozen=True)
class TypeMonth:
    """GPU-hours of a project's month: held (paid for by default), with pods, and used, which is the time that was seen times its
    utilization. seen_hours: of those with pods, what was seen; used is not more than that. gpu_type: "" = not known.
    bought_…: of these, without what was borrowed, which is no part of what is held."""

    gpu_type: str
    held_hours: float
    allocated_hours: float
    seen_hours: float
    used_hours: float
    energy_kwh: float
    bought_seen_hours: float
    bought_used_hours: float

    @property
    def used_share(self) -> float | None:
        """Of what is held; None if most of what pods had was not seen, so that it would be too low."""
        seen_enough = self.bought_seen_hours >= 0.8 * self.allocated_hours
        return min(self.bought_used_hours / self.held_hours, 1.0) if self.held_hours and seen_enough else None


def workspace_figures(*, actor: Actor, workspace: Workspace, now: datetime | None = None) -> Figures:
    """NotFound for outsiders. The same few queries at any size."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_VIEW)
    at = now or clock.now()
    rows = GpuSample.objects.filter(workspace=workspace, at__gt=at - DAY, at__lte=at)
    devices = _devices(rows, at)
    if not devices:
        return Figures((), (), _why(workspace.site, at) or NOTHING.format(what="workspace"))
    return Figures(devices, _day(rows, at), "", _advice(workspace, at))


def environment_figures(*, actor: Actor, environment: Environment, now: datetime | None = None) -> Figures:
    """Of its main pod and its workers alone. NotFound for outsiders; as many queries at any size."""
    row = environment
    workspace_require(actor=actor, workspace=row.workspace, permission=Permission.WORKSPACE_VIEW)
    at = now or clock.now()
    rows = GpuSample.objects.filter(workspace=row.workspace_id, pod__in=row.pods, at__gt=at - DAY, at__lte=at)
    devices = _devices(rows, at)
    if devices:
        return Figures(devices, _day(rows, at), "")
    if not row.has_gpus:
        return Figures((), (), NO_GPUS)
    return Figures((), (), _why(row.site, at) or NOTHING.format(what="environment"))


def job_figures(*, actor: Actor, job: Job, now: datetime | None = None) -> Figures:
    """Of the pods of all its attempts and tasks, from its start to its end or until now. NotFound for outsiders; as many queries at
    any size."""
    workspace_require(actor=actor, workspace=job.workspace, permission=Permission.WORKSPACE_VIEW)
    at = now or clock.now()
    kept_since = at - timedelta(days=settings.GPU_SAMPLES_DAYS)
    begins, ended_at = job.ready_at or job.created_at, job.finished_at or job.deleted_at or at
    rows = GpuSample.objects.filter(
        workspace__in=job.ran_in,
        pod__startswith=f"{job.external_name}-",
        pod__regex=job.pods_named,
        at__gte=max(clock.whole_second(job.created_at), kept_since),  # as samples are
        at__lte=at,
    )
    devices = _devices(rows, at)
    if not devices:
        return Figures((), (), _why_of_job(job, at, gone=ended_at <= kept_since))
    first, last = max(begins, kept_since), max(each.seen_at for each in devices) if job.outcome else at
    step = next((each for each in STEPS if (last - first) / each < SLOTS - 1), STEPS[-1])
    cut = kept_since if begins < kept_since else None
    return Figures(devices, _slots(rows, first, last, step), "", step=step, kept_since=cut)


def node_figures(*, actor: Actor, site: Site, node: str, now: datetime | None = None) -> Figures:
    """Of all devices of a node, whoever has them; for operators and auditors."""
    platform_require(actor=actor)
    at = now or clock.now()
    devices = _devices(GpuSample.objects.filter(site=site, node=node, at__gt=at - DAY, at__lte=at), at)
    if devices:
        return Figures(devices, (), "")
    return Figures(
        (), (), _why(site, at) or "The DCGM exporter of this node has not answered in the last 24 hours."
    )


def environment_use(row: Environment, since: datetime, now: datetime) -> GpuUse:
    """What the GPUs of an environment did since then; one query. Where one of them was not seen for a while, nothing is known of
    before."""
    mine = GpuSample.objects.filter(workspace=row.workspace_id, pod__in=row.pods, at__gt=since, at__lte=now)
    found = mine.aggregate(
        busy=Max("at", filter=Q(utilization__gte=BUSY_PERCENT)),
        gap=Max("at", filter=Q(seconds=0) | Q(utilization=None)),
        fresh=Count(
            Concat("device", Value("/"), "instance", Value("/"), "pod"),
            filter=Q(at__gt=now - FRESH),
            distinct=True,
        ),
    )
    unknown, unseen = "", False
    held = row.takes["gpus"]
    if found["fresh"] < held:
        unknown = (
            _why(row.site, now) or f"{found['fresh']} of its {held} GPUs were seen in the last 5 minutes"
        )
        unseen = not SiteReadings.objects.filter(site=row.site, at__gt=now - DAY).exists()
    return GpuUse(found["busy"], found["gap"], unknown, unseen)


def month_figures(
    *, actor: Actor, project: Project, starts_at: datetime, ends_at: datetime, now: datetime | None = None
) -> list[TypeMonth]:
    """By GPU type. NotFound for outsiders; Conflict for an archived month that was not kept when it became final."""
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_VIEW)
    found = kept_of(project=project, starts_at=starts_at)
    if found is None:
        usage = usage_by_project(actor=actor, starts_at=starts_at, ends_at=ends_at, project=project, now=now)
        found = {key[1]: seconds for key, seconds in seconds_of(usage).items()}
    hours = GpuHour.objects.filter(project=project, hour__gte=starts_at, hour__lt=ends_at)
    bought = Q(workspace__notice_seconds=0)  # a workspace is wholly spot or not at all
    sums = hours.values("gpu_type").annotate(
        seen=Sum("seconds"),
        used=Sum("busy_seconds"),
        energy=Sum("energy_mj"),
        own_seen=Coalesce(Sum("seconds", filter=bought), 0),
        own_used=Coalesce(Sum("busy_seconds", filter=bought), 0.0),
    )
    told: dict[uuid.UUID | None, Any] = {row["gpu_type"]: row for row in sums}
    nothing = {"seen": 0, "used": 0.0, "energy": 0, "own_seen": 0, "own_used": 0.0}
    types = {key for key, seconds in found.items() if any(seconds)} | told.keys()
    names = dict(GpuType.objects.filter(pk__in=[key for key in types if key]).values_list("pk", "name"))
    rows = [
        TypeMonth(
            names.get(key, "") if key else "",
            found.get(key, (0, 0))[0] / 3600,
            found.get(key, (0, 0))[1] / 3600,
            told.get(key, nothing)["seen"] / 3600,
            told.get(key, nothing)["used"] / 3600,
            told.get(key, nothing)["energy"] / 3.6e9,
            told.get(key, nothing)["own_seen"] / 3600,
            told.get(key, nothing)["own_used"] / 3600,
        )
        for key in types
    ]
    return sorted(rows, key=attrgetter("gpu_type"))


def _devices(rows: QuerySet[GpuSample], at: datetime) -> list[DeviceDay]:
    """Those that are told of now first."""
    key = ("device", "instance", "namespace", "pod")
    fresh = rows.filter(at__gt=at - FRESH).order_by(*key, "-at").distinct(*key)
    latest = {_key(row): row for row in fresh}
    summed = rows.values(
        "device", "instance", "namespace", "pod", "node", "profile", "index", "workspace__name",
        "project__slug",
    ).annotate(
        seen_at=Max("at"), mean=Avg("utilization"), memory=Max("memory_used_mib"), spent=Sum("spent_mj")
    )  # fmt: skip
    found = [
        DeviceDay(
            node=row["node"],
            device=row["device"],
            index=row["index"],
            instance=row["instance"],
            profile=row["profile"],
            pod=row["pod"],
            workspace=row["workspace__name"] or "",
            project=row["project__slug"] or "",
            seen_at=row["seen_at"],
            mean=row["mean"],
            memory_max_mib=row["memory"],
            energy_wh=None if row["spent"] is None else row["spent"] / 3.6e6,
            now=latest.get((row["device"], row["instance"], row["namespace"], row["pod"])),
        )
        for row in summed.order_by("-seen_at", "pod", "node", "index", "instance", "device")[:MOST]
    ]
    return sorted(found, key=lambda each: each.now is None)


def _key(row: GpuSample) -> tuple[str, str, str, str]:
    return (row.device, row.instance, row.namespace, row.pod)


def _day(rows: QuerySet[GpuSample], at: datetime) -> list[Slot]:
    """The last 24 hours."""
    return _slots(rows, at - DAY + QUARTER, at, QUARTER)


def _slots(rows: QuerySet[GpuSample], first: datetime, last: datetime, step: timedelta) -> list[Slot]:
    """All steps from that of `first` to that of `last`, also those of which nothing was seen."""
    both = Q(memory_used_mib__isnull=False, memory_free_mib__isnull=False)
    told = rows.order_by().values(slot=_Slot(Value(step), F("at"))).annotate(
        mean=Avg("utilization"),
        used=Sum("memory_used_mib", filter=both),
        free=Sum("memory_free_mib", filter=both),
    )  # fmt: skip
    found: dict[datetime, dict[str, Any]] = {row["slot"]: dict(row) for row in told}
    numbers = range((first - BEGIN) // step, (last - BEGIN) // step + 1)
    return [_slot(start, found.get(start)) for start in (BEGIN + number * step for number in numbers)]


def _slot(start: datetime, row: dict[str, Any] | None) -> Slot:
    if row is None:
        return Slot(start)
    all_of_it = (row["used"] or 0) + (row["free"] or 0)
    return Slot(start, row["mean"], 100 * row["used"] / all_of_it if all_of_it else None)


def _why(site: Site, at: datetime) -> str:
    """Why nothing is told of the site's GPUs; "" if something is."""
    if not issubclass(kind_of(site), MetricsCapability):
        return MACHINES.format(site=site.slug)
    if not SiteReadings.objects.filter(site=site, at__gt=at - FRESH).exists():
        return SILENT.format(site=site.slug)
    return ""


def _why_of_job(job: Job, at: datetime, *, gone: bool) -> str:
    """gone: it ended before what is kept."""
    if not job.has_gpus:
        return NO_GPUS
    if gone:
        return f"What GPUs did is kept for {settings.GPU_SAMPLES_DAYS} days, and it ended before that."
    if job.ready_at is None and not job.holding:
        return NOT_YET
    return (_why(job.site, at) if job.state not in OVER else "") or TOO_SHORT


def _advice(workspace: Workspace, at: datetime) -> str:
    if workspace.is_spot:  # it holds nothing that it could give back
        return ""
    bought = sum(row.confirmed * row.flavor.gpus for row in workspace.flavors.select_related("flavor"))
    parameters: dict[str, Any] = {
        "workspace": workspace.pk, "since": at - DAY, "now": at, "busy": BUSY_PERCENT,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "use_at_once"), parameters)
        at_once, minutes, seen, had = cursor.fetchone() or (None, 0, 0, 0)
    return advice_of(
        bought=bought,
        at_once=at_once,
        minutes_share=minutes / (DAY / timedelta(minutes=1)),
        seconds_share=float(seen) / float(had) if had else 1.0,
    )
