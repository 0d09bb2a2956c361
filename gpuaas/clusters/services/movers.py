"""The files of a job on a Slurm cluster: moved before it is submitted and after it has succeeded, by jobs of Slurm's without GPUs.

Each is known to Slurm by an id of its own, so it is offered, followed and cancelled as any job is. What is secret is opened while
one is offered, and is in its order alone.
"""

from dataclasses import replace
from typing import Any

from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.states import JOB_STAGING
from gpuaas.core.ids import uuid7
from gpuaas.core.terminal import plain
from gpuaas.providers.base import SlurmOrder, SlurmSeen
from gpuaas.staging.credentials import remotes_of
from gpuaas.staging.rclone import VARIABLES, config_of, failure_of, progress_of, script_of
from gpuaas.staging.transfers import Way

SIZE = {"nodes": 1, "tasks": 1, "gpus_per_node": 0, "cpus_per_task": 1, "memory_gib": 1, "minutes": None}
NAME_MOST = 36  # of a job's name, so that what is added to it makes none too long
OLD = (
    "the head of this cluster was made before the portal could move files for jobs: let the script copy them, or order a new "
    "cluster"
)
# stats less often than it is looked at would be lost, and more often they push the beginning of a transfer out of the end of the log
SHELL = "\n".join(
    (
        "#!/bin/sh",
        *(f"export {name}={value}" for name, value in {**VARIABLES, "RCLONE_STATS": "10s"}.items()),
        """trap ': > "$RCLONE_CONFIG"' EXIT""",
        """command -v rclone > /dev/null || {""",
        """printf '{"level": "error", "msg": "rclone is not on the worker %s"}\\n' "$SLURMD_NODENAME"; exit 1; }""",
        "",
    )
)


def files_why_not(cluster: Cluster, *, driver_takes: bool) -> str:
    """Why none are moved for its jobs."""
    return "" if cluster.moves_files or driver_takes else OLD


def staging_begin(row: ClusterJob, way: Way) -> None:
    row.state, row.staging, row.reason = JOB_STAGING[way], way.value, ""
    row.mover, row.mover_slurm_id = uuid7(), None
    row.offered_at = row.seen_at = row.gone_at = None


def mover_order(row: ClusterJob, order: SlurmOrder) -> SlurmOrder:
    """order: of the job. Raises Conflict where a credential that it needs is there no more."""
    way = Way(row.staging)
    of_it: dict[str, Any] = {"name": f"{row.name[:NAME_MOST]}-{way}", "script": "", **SIZE}
    if order.submit:
        transfers = row.transfers(way)
        of_it["script"] = SHELL + script_of(way, transfers, {"": '"$HOME"'}, "the home")
        of_it["keys"] = config_of(transfers, remotes_of(row.cluster.project_id, transfers))
    return replace(order, id=row.key, slurm_id=row.mover_slurm_id, **of_it)


def moved_keep(row: ClusterJob, seen: SlurmSeen) -> None:
    """How far it is; its log is of no other use."""
    if seen.log is not None:
        known = row.moved.get(row.staging, {})
        row.moved = {**row.moved, row.staging: progress_of(plain(seen.log), known)}


def moved_end(row: ClusterJob) -> None:
    """All of it is there, and nothing of the mover is in Slurm any more."""
    row.moved = {**row.moved, row.staging: {**row.moved.get(row.staging, {}), "done": True}}
    row.staging, row.mover, row.reason = "", None, ""
    row.offered_at = row.seen_at = row.gone_at = None


def moved_failure(row: ClusterJob, seen: SlurmSeen, otherwise: str) -> str:
    return failure_of(plain(seen.log or ""), Way(row.staging), otherwise)
