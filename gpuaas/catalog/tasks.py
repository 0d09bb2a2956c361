"""Tasks that probe sites and check nodes when they are due."""

import uuid

from celery import shared_task

from gpuaas.catalog import services
from gpuaas.catalog.lanes import SiteTask
from gpuaas.catalog.models import NodeCheck, Site, SiteRound
from gpuaas.catalog.services.rounds import TASKS
from gpuaas.catalog.states import RoundKind
from gpuaas.core import claims, clock
from gpuaas.core.queue import poke

BATCH = 50


@shared_task(name="catalog.probe_due")
def probe_due() -> int:
    """One task for each site that is due, so that a slow site does not delay others."""
    return claims.due_poke(Site, "catalog.probe", limit=BATCH)


@shared_task(name="catalog.probe", base=SiteTask, time_limit=90, soft_time_limit=75)
def probe(site_id: str) -> bool:
    return services.site_probe(uuid.UUID(site_id))


@shared_task(name="catalog.rounds_due")
def rounds_due() -> int:
    services.rounds_fill()
    due = claims.due_in_turn(SiteRound, by="site", now=clock.now(), limit=BATCH)
    for site_id, kind in SiteRound.objects.filter(pk__in=due).values_list("site_id", "kind"):
        poke(TASKS[RoundKind(kind)], str(site_id))
    return len(due)


@shared_task(name="catalog.preflight", base=SiteTask, time_limit=110, soft_time_limit=100)
def preflight(site_id: str) -> bool:
    return services.site_preflight(uuid.UUID(site_id))


@shared_task(name="catalog.health", base=SiteTask, time_limit=110, soft_time_limit=100)
def health(site_id: str) -> bool:
    return services.site_health(uuid.UUID(site_id))


@shared_task(name="catalog.offers", base=SiteTask, time_limit=110, soft_time_limit=100)
def offers(site_id: str) -> bool:
    return services.site_offers(uuid.UUID(site_id))


@shared_task(name="catalog.node_checks")
def node_checks() -> int:
    """One task for each node check that is due."""
    return claims.due_poke(NodeCheck, "catalog.node_check", by="site", limit=BATCH)


@shared_task(
    name="catalog.node_check", base=SiteTask, site_by="node_checks", time_limit=55, soft_time_limit=50
)
def node_check(check_id: str) -> bool:
    return services.node_check_look(uuid.UUID(check_id))
