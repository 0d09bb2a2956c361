"""Probing sites, each when it is due."""

import uuid

from celery import shared_task

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_probe
from gpuaas.core import clock, leases
from gpuaas.core.queue import poke

BATCH = 50


@shared_task(name="catalog.probe_due")
def probe_due() -> int:
    """One task for each site that is due, so that a slow one keeps no other waiting."""
    due = leases.due_ids(Site, now=clock.now(), limit=BATCH)
    for site_id in due:
        poke("catalog.probe", str(site_id))
    return len(due)


@shared_task(name="catalog.probe", time_limit=90, soft_time_limit=75)
def probe(site_id: str) -> bool:
    return site_probe(uuid.UUID(site_id))
