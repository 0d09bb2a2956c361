"""Keeps what the health round read of each device, and forgets it again."""

import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet

from gpuaas.catalog.models import SiteReadings
from gpuaas.core import clock
from gpuaas.core.claims import claimed, release
from gpuaas.core.sql import sql_read
from gpuaas.gpustats.models import GpuHour, GpuSample
from gpuaas.metering.owners import workspaces_named

SQL = Path(__file__).parent / "sql"
LATE = timedelta(
    seconds=180
)  # two rounds may be that far apart; for what is longer nobody knows what a device did
MOST_WATTS = 5000
BATCH = 20_000


def readings_keep(site_id: uuid.UUID) -> bool:
    """True if the site's last readings are samples now. Two workers at once, or one after a kill, write them once."""

    def work(row: SiteReadings) -> bool:
        with transaction.atomic():
            if not release(row, due_at=None, attempts=0):
                return False
            _write(row)
        return True

    return claimed(SiteReadings, site_id, work, only_due=True)


def _write(row: SiteReadings) -> int:
    names = {each["namespace"] for each in row.devices if each["namespace"]}
    owners = workspaces_named(site_id=row.site_id, names=names)
    parameters: dict[str, Any] = {
        "site": row.site_id,
        "at": row.at,
        "devices": json.dumps(row.devices),
        "names": list(owners),
        "workspaces": [owner.workspace_id for owner in owners.values()],
        "projects": [owner.project_id for owner in owners.values()],
        "late": LATE,
        "most_watts": MOST_WATTS,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "readings_keep"), parameters)
        (written,) = cursor.fetchone() or (0,)
    return int(written)


def samples_forget() -> int:
    """Deletes what is older than it is kept, a batch at a time; returns how many rows."""
    now = clock.now()
    samples = GpuSample.objects.filter(at__lt=now - timedelta(days=settings.GPU_SAMPLES_DAYS))
    hours = GpuHour.objects.filter(hour__lt=now - timedelta(days=settings.GPU_HOURS_DAYS))
    return _forget(samples) + _forget(hours)


def _forget(old: QuerySet[Any]) -> int:
    deleted = 0
    while True:
        gone: int = old.model._default_manager.filter(pk__in=old.order_by().values("pk")[:BATCH]).delete()[0]
        deleted += gone
        if gone < BATCH:
            return deleted
