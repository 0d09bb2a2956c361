"""Background tasks of environments. Arguments are ids; everything else is read again."""

import uuid

from celery import shared_task

from gpuaas.catalog.lanes import SiteTask
from gpuaas.core import claims
from gpuaas.environments import reconcile
from gpuaas.environments.models import Environment, EnvironmentLog
from gpuaas.environments.services.changes import LOG_TASK
from gpuaas.environments.services.rows import ENVIRONMENT


@shared_task(name=ENVIRONMENT.task, base=SiteTask, site_by="environments")
def environment_visit(environment_id: str) -> None:
    reconcile.run(uuid.UUID(environment_id))


@shared_task(name=LOG_TASK, base=SiteTask, site_by="environments")
def environment_log(environment_id: str) -> bool:
    return reconcile.log_fetch(uuid.UUID(environment_id))


@shared_task(name="environments.sweep")
def sweep() -> int:
    """Starts what is due: requests whose poke was lost, waiting steps, retries, periodic looks, and logs."""
    claims.due_poke(EnvironmentLog, LOG_TASK)
    return claims.due_poke(Environment, ENVIRONMENT.task)
