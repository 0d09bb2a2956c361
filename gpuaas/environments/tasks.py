"""Background tasks of environments. Arguments are ids; everything else is read again."""

import uuid

from celery import shared_task

from gpuaas.catalog.lanes import SiteTask
from gpuaas.core import claims
from gpuaas.environments import reconcile, tokens, use
from gpuaas.environments.door import passes
from gpuaas.environments.models import Environment, EnvironmentCounter, EnvironmentLog, EnvironmentUse
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
    claims.due_poke(EnvironmentLog, LOG_TASK, by="environment__site")
    return claims.due_poke(Environment, ENVIRONMENT.task, by="site")


@shared_task(name="environments.use", base=SiteTask, site_by="environments")
def environment_use(environment_id: str) -> bool:
    return use.use_look(uuid.UUID(environment_id))


@shared_task(name="environments.uses")
def uses() -> int:
    """A look at each environment whose use is to be asked for, and at the counters of each that has some."""
    use.uses_begin()
    claims.due_poke(EnvironmentCounter, "environments.count", by="environment__site")
    return claims.due_poke(EnvironmentUse, "environments.use", by="environment__site")


@shared_task(name="environments.count", base=SiteTask, site_by="environments")
def environment_count(environment_id: str) -> bool:
    return tokens.counts_look(uuid.UUID(environment_id))


@shared_task(name="environments.passes_forget")
def passes_forget() -> int:
    return passes.passes_forget()
