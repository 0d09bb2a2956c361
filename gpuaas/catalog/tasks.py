"""Looking at sites and their nodes, each when it is due."""

import uuid

from celery import shared_task

from gpuaas.catalog.models import NodeCheck, Site, SiteRound
from gpuaas.catalog.services import (
    node_check_look,
    rounds_fill,
    site_health,
    site_offers,
    site_preflight,
    site_probe,
)
from gpuaas.catalog.services.rounds import TASKS
from gpuaas.catalog.states import RoundKind
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


@shared_task(name="catalog.rounds_due")
def rounds_due() -> int:
    rounds_fill()
    due = leases.due_ids(SiteRound, now=clock.now(), limit=BATCH)
    for site_id, kind in SiteRound.objects.filter(pk__in=due).values_list("site_id", "kind"):
        poke(TASKS[RoundKind(kind)], str(site_id))
    return len(due)


@shared_task(name="catalog.preflight", time_limit=110, soft_time_limit=100)
def preflight(site_id: str) -> bool:
    return site_preflight(uuid.UUID(site_id))


@shared_task(name="catalog.health", time_limit=110, soft_time_limit=100)
def health(site_id: str) -> bool:
    return site_health(uuid.UUID(site_id))


@shared_task(name="catalog.offers", time_limit=110, soft_time_limit=100)
def offers(site_id: str) -> bool:
    return site_offers(uuid.UUID(site_id))


@shared_task(name="catalog.node_checks")
def node_checks() -> int:
    """One task for each check of a node that wants a look."""
    due = leases.due_ids(NodeCheck, now=clock.now(), limit=BATCH)
    for check_id in due:
        poke("catalog.node_check", str(check_id))
    return len(due)


@shared_task(name="catalog.node_check", time_limit=55, soft_time_limit=50)
def node_check(check_id: str) -> bool:
    return node_check_look(uuid.UUID(check_id))
