"""The demo's past: two workspaces and a batch that ran in the last month and this one, so that costs, use and a month to close are there.

Made up, and told as a file of usage like any other that is taken in; the same on every machine but for the days.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuaas.catalog.models import Flavor, Site

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Past:
    """A workspace that held `count` GPUs over `span` of the time from the first of last month until now (0 to 1); `busy` of
    them ran from `opens` o'clock for `hours`, on each day of it, at `use` percent."""

    project: str
    name: str
    gpu_type: str
    count: int
    span: tuple[float, float]
    busy: int
    opens: int
    hours: int
    use: int


PASTS = (
    Past("downscale", "era5-finetune", "h100-sxm-80gb", 4, (0.05, 0.62), 4, 6, 17, 71),
    Past("downscale", "notebooks", "l40s-48gb", 2, (0.10, 0.98), 1, 8, 9, 12),
    Past("protein-fold", "fold-batch", "a100-sxm-80gb", 6, (0.30, 0.98), 5, 0, 24, 88),
)


def history_make(site: "Site", since: datetime) -> None:
    """Of a site where nobody was yet, from `since` on. What it has now it is told to have had all the time."""
    from billing.files import files_import
    from billing.files.rows import USAGE
    from gpuaas.core import clock
    from gpuaas.metering.models import UsageInterval
    from quotas.models import CapacityStretch
    from tenants.actors import SYSTEM

    if UsageInterval.objects.exists():
        return
    now = clock.whole_second(clock.now()) - HOUR
    flavors = {flavor.pool.gpu_type.slug: flavor for flavor in _sold(site)}
    pasts = [past for past in PASTS if past.gpu_type in flavors]
    CapacityStretch.objects.bulk_create(
        CapacityStretch(
            site=site, gpu_type=row.gpu_type, devices=row.devices, starts_at=since, ends_at=row.starts_at
        )
        for row in CapacityStretch.objects.filter(site=site, ends_at=None)
    )
    with TemporaryDirectory() as folder:
        file = Path(folder) / "demo-usage.csv"
        with file.open("w", encoding="utf-8", newline="") as out:
            rows = csv.writer(out)
            rows.writerow(USAGE)
            for past in pasts:
                flavor = flavors[past.gpu_type]
                begins, ends = (since + (now - since) * part for part in past.span)
                _workspace(past, site, flavor, begins, ends)
                rows.writerows(_usage(past, flavor, clock.whole_second(begins), clock.whole_second(ends)))
        files_import(actor=SYSTEM, usage=file)
    _use_make(pasts)


def _sold(site: "Site") -> Iterator["Flavor"]:
    from gpuaas.catalog.models import Flavor

    rows = Flavor.objects.filter(pool__site=site, gpus=1, price_class="on_demand")
    return rows.select_related("pool__gpu_type").order_by("-slug").iterator()


def _workspace(past: Past, site: "Site", flavor: "Flavor", begins: datetime, ends: datetime) -> None:
    from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
    from tenants.models import Project, User

    owner = "alice" if past.project == "downscale" else "charlie"
    row = Workspace.objects.create(
        project=Project.objects.get(slug=past.project),
        site=site,
        name=past.name,
        state="deleted",
        created_by=User.objects.get(username=owner),
        created_at=begins,
        ready_at=begins,
        deleted_at=ends,
        lease_ends_at=ends,
    )
    WorkspaceFlavor.objects.create(workspace=row, flavor=flavor, count=past.count, confirmed=0)


def _usage(past: Past, flavor: "Flavor", begins: datetime, ends: datetime) -> Iterator[tuple[object, ...]]:
    def row(key: str, meter: str, quantity: int, first: datetime, last: datetime) -> tuple[object, ...]:
        held_by = (f"demo-{past.name}-{key}", past.project, past.name)
        times = (f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for moment in (first, last))
        return (*held_by, flavor.slug, meter, flavor.price_class, quantity, *times)

    yield row("held", "gpu_held", past.count, begins, ends)
    day = begins.replace(hour=past.opens, minute=0, second=0)
    while day < ends:
        first, last = max(day, begins), min(day + past.hours * HOUR, ends)
        if first < last:
            yield row(f"{day:%Y%m%d}", "gpu_allocated", past.busy, first, last)
        day += DAY


def _use_make(pasts: list[Past]) -> None:
    """What the GPUs of these workspaces did while they ran, by the hour."""
    from gpuaas.gpustats.models import GpuHour
    from gpuaas.metering.models import UsageInterval

    uses = {past.name: past.use for past in pasts}
    ran = UsageInterval.objects.filter(meter="gpu_allocated", workspace__name__in=uses)
    found: dict[tuple[object, datetime], GpuHour] = {}
    for row in ran.select_related("workspace", "flavor__pool"):
        assert row.workspace is not None
        assert row.flavor is not None
        assert row.ended_at is not None
        hour = row.started_at.replace(minute=0, second=0)
        while hour < row.ended_at:
            lasted = min(hour + HOUR, row.ended_at) - max(hour, row.started_at)
            seconds = row.quantity * int(lasted.total_seconds())
            use = uses[row.workspace.name]
            made = found.setdefault(
                (row.workspace_id, hour),
                GpuHour(
                    workspace=row.workspace,
                    project_id=row.project_id,
                    gpu_type_id=row.flavor.pool.gpu_type_id,
                    hour=hour,
                    seconds=0,
                    measured_seconds=0,
                    busy_seconds=0,
                    utilization_max=min(use * 1.3, 100),
                    memory_mib_seconds=0,
                    memory_max_mib=60_000,
                    energy_mj=0,
                ),
            )
            made.seconds += seconds
            made.measured_seconds += seconds
            made.busy_seconds += seconds * use / 100
            made.memory_mib_seconds += seconds * 50_000
            made.energy_mj += seconds * (70 + 5 * use) * 1000
            hour += HOUR
    GpuHour.objects.bulk_create(found.values(), batch_size=1000)
