"""Background tasks by name; rules are in services."""

import uuid
from datetime import timedelta

from celery import shared_task

from gpuaas.catalog.lanes import SiteTask
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.queue import poke
from gpuaas.core.rows import one_or_none
from gpuaas.metering import crosscheck, services

RECENT = timedelta(days=2)


@shared_task(name="metering.held_sync")
def held_sync() -> None:
    now = clock.now()
    services.held_sync(now=now, since=now - RECENT)


@shared_task(name="metering.held_sync_all")
def held_sync_all() -> None:
    """Once a day, and before a month is closed: also what ended while no worker ran for longer than that."""
    services.held_sync()
    services.tokens_sync()


@shared_task(name="metering.tokens_sync")
def tokens_sync() -> None:
    now = clock.now()
    services.tokens_sync(now=now, since=clock.billing_day(now - RECENT))


@shared_task(name="metering.cross_checks_due")
def cross_checks_due() -> int:
    """One task for each site that was not compared for a day; one that did not answer is due again in the next
    round."""
    due = crosscheck.sites_due(now=clock.now())
    for site_id in due:
        poke("metering.cross_check", str(site_id))
    return len(due)


@shared_task(name="metering.cross_check", base=SiteTask)
def cross_check(site_id: str) -> int:
    """Returns how many differences were found."""
    site = one_or_none(Site.objects.filter(pk=uuid.UUID(site_id)))
    return len(crosscheck.site_cross_check(site=site).findings) if site is not None else 0
