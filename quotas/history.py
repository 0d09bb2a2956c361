"""The number of devices of a site, healthy and not in other hands, over time: written after every observation, one row
per change.

Time without observations is an unknown stretch: it counts neither as capacity nor as idle.
"""

import uuid
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.core.clock import whole_second
from quotas.models import CapacityStretch, CapacityWatch

# longer without a look than the meter may be without a proof of life: nobody knows what was there meanwhile
LATE = timedelta(seconds=150)


@transaction.atomic
def capacity_history_write(*, site: Site) -> int:
    """Copies the last observation of a site into its history; returns how many stretches started.

    Serialized per site, and the observation is read under the lock: an older one, or one that is already written,
    changes nothing.
    """
    CapacityWatch.objects.bulk_create([CapacityWatch(site=site)], ignore_conflicts=True)
    watch = CapacityWatch.objects.select_for_update(no_key=True).get(site=site)
    pools = GpuPool.objects.filter(site=site, observed_at__isnull=False).order_by("gpu_type_id")
    observed = {kind: (devices, at) for kind, devices, at in pools.values_list(*LOOK) if at is not None}
    if not observed:
        return 0
    at = whole_second(max(seen for _, seen in observed.values()))
    if watch.seen_at is not None and at <= watch.seen_at:
        return 0
    opened = {row.gpu_type_id: row for row in CapacityStretch.objects.filter(site=site, ends_at=None)}
    silent_from = watch.seen_at if watch.seen_at is not None and at - watch.seen_at > LATE else None
    made: list[CapacityStretch] = []
    for gpu_type_id, (devices, _) in observed.items():
        made += _stretches(opened.get(gpu_type_id), site, gpu_type_id, devices, at, silent_from)
    CapacityStretch.objects.bulk_create(made)
    CapacityWatch.objects.filter(pk=watch.pk).update(seen_at=at)
    return len(made)


LOOK = ("gpu_type_id", F("healthy") - F("others"), "observed_at")


def _stretches(
    old: CapacityStretch | None,
    site: Site,
    gpu_type_id: uuid.UUID,
    devices: int,
    at: datetime,
    silent_from: datetime | None,
) -> list[CapacityStretch]:
    """Starts a stretch for one GPU type and ends the previous one."""
    if old is not None and silent_from is None and old.devices == devices:
        return []
    made = [CapacityStretch(site=site, gpu_type_id=gpu_type_id, devices=devices, starts_at=at)]
    if old is None:
        return made
    end = at if silent_from is None else max(silent_from, old.starts_at)
    CapacityStretch.objects.filter(pk=old.pk).update(ends_at=end)
    if silent_from is not None:
        unknown = CapacityStretch(
            site=site,
            gpu_type_id=gpu_type_id,
            devices=old.devices,
            known=False,
            starts_at=end,
            ends_at=at,
        )
        made.insert(0, unknown)
    return made
