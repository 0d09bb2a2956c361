"""Jobs that the portal submits to Slurm clusters: what is ordered of a head, and what Slurm says about it.

Where the portal has no way into the cluster, the head carries out the orders in the answer to its report. A driver that
reaches Slurm itself has `ClusterJobsCapability`.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gpuaas.providers.base.cluster import ClusterSpec

REFUSED = "REFUSED"  # Slurm takes it never; not a word of Slurm's own, nor is the next
GONE = "GONE"  # Slurm was asked, and does not know it
ERROR = "ERROR"  # nor does it know this one, which could not be submitted now


def usable_mib(memory_gib: int) -> int:
    """Of a worker with so much memory, for its jobs: the machine's kernel and firmware use some."""
    return memory_gib * 1024 * 9 // 10


@dataclass(frozen=True)
class SlurmOrder:
    """One job that has not ended, as far as the portal knows. slurm_id: Slurm's, once it is known. submit: Slurm is not known to have it,
    so it is to be submitted unless there is a job of this comment already. cancel: it is to be ended. since: no job of this id is older.
    memory_gib of a node, None = Slurm's default; minutes None = no limit. keys: of a mover that is to be submitted, rclone's configuration,
    which is secret: Slurm keeps scripts and surroundings, so it is in neither."""

    id: uuid.UUID
    slurm_id: int | None
    login: str
    since: datetime
    submit: bool
    cancel: bool
    name: str
    script: str
    partition: str
    nodes: int
    tasks: int
    gpus_per_node: int
    cpus_per_task: int
    memory_gib: int | None
    minutes: int | None
    keys: str = field(default="", repr=False)


@dataclass(frozen=True)
class SlurmSeen:
    """What Slurm says about one of them. state: Slurm's word. reason: why it waits. error: why it could not be submitted. log: its end;
    None = not taken now."""

    id: uuid.UUID
    state: str
    slurm_id: int | None = None
    reason: str = ""
    error: str = ""
    exit_code: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    log: str | None = None


class ClusterJobsCapability(ABC):
    """Drivers that hand jobs to the Slurm of a cluster themselves."""

    @abstractmethod
    def slurm_exchange(self, spec: ClusterSpec, orders: Sequence[SlurmOrder]) -> tuple[SlurmSeen, ...]:
        """Carry out the orders, each at most once, and tell what Slurm says about each. Raises NotFound if the cluster does not answer."""
