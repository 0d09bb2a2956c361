"""The load of a simulated cluster: the number of requested GPUs is set as a dial, and ready machines provide theirs. Which workers
are busy is known from queue reports, where there are any."""

import uuid
from typing import Any

from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import ClusterSpec, PoolSignals
from gpuaas.providers.sandbox.clusters.objects import Thing
from gpuaas.providers.sandbox.clusters.plan import MACHINE
from gpuaas.providers.sandbox.dials import fault_set
from gpuaas.providers.sandbox.models import SandboxSite

AREA = "demand"


def demand_set(site_id: uuid.UUID, cluster_id: uuid.UUID, pool: str, *, gpus: int, jobs: int = 0) -> None:
    """Set the demand: `gpus` requested in the pool, by `jobs` (0 = one for each GPU) where some have to wait."""
    found = {"gpus": gpus, "jobs": jobs} if gpus else None
    fault_set(site_id, area=AREA, name=f"{cluster_id}/{pool}", found=found)


def signals(site: SandboxSite, spec: ClusterSpec) -> tuple[PoolSignals, ...]:
    machines = list(Thing.objects.filter(tag=spec.id, kind=MACHINE, gone_at=None))  # from any site
    working = [row for row in machines if row.ready_at <= clock.now() and not row.facts.get("fault")]
    if all(row.facts["pool"] for row in working):
        raise NotFound("the cluster's API does not answer")
    reported = {one.pool: one for one in spec.queue.pools} if spec.queue else {}
    found = []
    for pool in spec.pools:
        dialed: dict[str, Any] = site.faults.get(AREA, {}).get(f"{spec.id}/{pool.name}", {})
        asked, jobs = dialed.get("gpus", 0), dialed.get("jobs", 0)
        has = sum(row.facts["pool"] == pool.name for row in working) * pool.flavor.gpus
        waiting = max(asked - has, 0)
        queued = -(-jobs * waiting // asked) if jobs and waiting else waiting
        seen = reported.get(pool.name)
        least, drain = (seen.least, seen.drain) if seen else (None, "")
        found.append(PoolSignals(pool.name, min(asked, has), waiting, queued, least=least, drain=drain))
    return tuple(found)
