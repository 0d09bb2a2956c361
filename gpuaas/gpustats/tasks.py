"""Background tasks by name; rules are in services."""

import uuid

from celery import shared_task

from gpuaas.catalog.models import SiteReadings
from gpuaas.core import claims
from gpuaas.gpustats import services


@shared_task(name="gpustats.keep_due")
def keep_due() -> int:
    """One task for each site whose own poke was lost."""
    return claims.due_poke(SiteReadings, "gpustats.keep")


@shared_task(name="gpustats.keep")
def keep(site_id: str) -> bool:
    return services.readings_keep(uuid.UUID(site_id))


@shared_task(name="gpustats.forget")
def forget() -> int:
    return services.samples_forget()
