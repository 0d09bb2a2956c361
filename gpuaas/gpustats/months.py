"""What projects held of each GPU type in a month: from intervals, or, of a final month, as it was kept when it became final.

What they borrowed is in neither sum: nobody holds it.
"""

import uuid
from collections.abc import Iterable
from datetime import datetime

from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.gpustats.models import GpuMonth
from gpuaas.metering.final import YOUNG
from gpuaas.metering.models import Meter
from gpuaas.metering.selectors import UsageSum, usage_sums
from tenants.models import Project

METERS = (Meter.GPU_HELD, Meter.GPU_ALLOCATED)
Key = tuple[uuid.UUID, uuid.UUID | None]  # project, GPU type
Seconds = tuple[int, int]  # of METERS


def month_keep(*, starts_at: datetime, ends_at: datetime) -> None:
    """For whoever makes a month final: from then on its intervals may go into files. Repeating it changes nothing."""
    projects = Project.objects.order_by().values_list("pk", flat=True)
    found = seconds_of(usage_sums(projects=projects, starts_at=starts_at, ends_at=ends_at))
    GpuMonth.objects.bulk_create(
        [
            GpuMonth(
                project_id=project,
                gpu_type_id=gpu_type,
                starts_at=starts_at,
                held_seconds=held,
                allocated_seconds=allocated,
            )
            for (project, gpu_type), (held, allocated) in found.items()
        ],
        ignore_conflicts=True,
        batch_size=1000,
    )


def kept_of(*, project: Project, starts_at: datetime) -> dict[uuid.UUID | None, Seconds] | None:
    """By the id of the GPU type, None for types that nobody sells; None for a month that was not kept. A young month costs no query."""
    if starts_at > clock.now() - YOUNG:
        return None
    kept = GpuMonth.objects.filter(starts_at=starts_at)
    rows = kept.filter(project=project).values_list("gpu_type", "held_seconds", "allocated_seconds")
    found: dict[uuid.UUID | None, Seconds] = {key: (held, allocated) for key, held, allocated in rows}
    return found if found or kept.exists() else None


def seconds_of(usage: Iterable[UsageSum]) -> dict[Key, Seconds]:
    rows = [each for each in usage if each.meter in METERS]
    slugs = {each.flavor for each in rows}
    facts = Flavor.objects.filter(slug__in=slugs).values_list("slug", "pool__gpu_type", "notice_seconds")
    flavors = {slug: (gpu_type, notice > 0) for slug, gpu_type, notice in facts}
    found: dict[Key, Seconds] = {}
    for each in rows:
        gpu_type, is_lent = flavors.get(each.flavor or "", (None, False))
        key = (each.project_id, gpu_type)
        held, allocated = found.setdefault(key, (0, 0))
        if is_lent:
            continue
        if each.meter == Meter.GPU_HELD:
            held += each.unit_seconds
        else:
            allocated += each.unit_seconds
        found[key] = (held, allocated)
    return found
