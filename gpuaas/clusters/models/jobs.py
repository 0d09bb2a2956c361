"""Jobs that people submit to a Slurm cluster through the portal."""

import uuid

from django.db import models
from django.db.models import Q

from gpuaas.clusters.models.clusters import Cluster
from gpuaas.clusters.models.logins import ClusterLogin
from gpuaas.clusters.states import JOB_OPEN, JOB_OVER, ClusterJobState
from gpuaas.core.rows import Identified
from gpuaas.staging.transfers import Way
from tenants.models import User


class ClusterJob(Identified):
    """Slurm knows it by its comment, which is made of the id. login: as whom it runs; None = the cluster has no logins.

    gpus_per_node, memory_gib: of a node; cpus_per_task: of a task; memory_gib None = Slurm's share. minutes: after which
    Slurm ends it. offered_at: when it was first in an answer to the head, from which moment it may be in Slurm. seen_at:
    when Slurm was last known to have it; gone_at: since when it has not been. reason: while it waits Slurm's word for why, or why it
    is not there yet; once it is being cancelled, why the portal does that; afterwards how it ended. log: its end.

    inputs, outputs: as `gpuaas/staging/transfers.py` stores them. staging: which of them are moved now, a `Way`; it stays where that
    failed. mover: by which id Slurm knows the mover, a job of its own of which offered_at and seen_at are meanwhile; another one for
    each try. mover_slurm_id: Slurm's. moved: by way, how far the mover is (`gpuaas/staging/rclone.py`), and whether it is `done`.
    emptied_at: since when script and log are not kept any more (`services/job_retention.py`).
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="jobs")
    login = models.ForeignKey(ClusterLogin, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=40)
    script = models.TextField()
    partition = models.CharField(max_length=20)
    nodes = models.PositiveIntegerField()
    tasks = models.PositiveIntegerField()
    gpus_per_node = models.PositiveIntegerField()
    cpus_per_task = models.PositiveIntegerField()
    memory_gib = models.PositiveIntegerField(null=True, blank=True)
    minutes = models.PositiveIntegerField(null=True, blank=True)
    inputs = models.JSONField(default=list, db_default=[], blank=True)
    outputs = models.JSONField(default=list, db_default=[], blank=True)
    staging = models.CharField(max_length=3, blank=True, default="", db_default="", editable=False)
    mover = models.UUIDField(null=True, blank=True, editable=False)
    mover_slurm_id = models.PositiveBigIntegerField(null=True, blank=True, editable=False)
    moved = models.JSONField(default=dict, db_default={}, blank=True, editable=False)
    state = models.CharField(max_length=16, choices=ClusterJobState, default=ClusterJobState.QUEUED)
    slurm_id = models.PositiveBigIntegerField(null=True, blank=True)
    reason = models.CharField(max_length=300, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    log = models.TextField(blank=True)
    log_taken_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    offered_at = models.DateTimeField(null=True, blank=True, editable=False)
    cancel_asked_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField(null=True, blank=True, editable=False)
    gone_at = models.DateTimeField(null=True, blank=True, editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    emptied_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=ClusterJobState.values), name="cluster_job_state_known"
            )
        ]
        indexes = [
            models.Index(fields=["cluster", "-id"], name="cluster_job_idx"),
            models.Index(
                fields=["cluster"], condition=Q(state__in=sorted(JOB_OPEN)), name="cluster_job_open_idx"
            ),
            models.Index(
                fields=["finished_at"],
                condition=Q(state__in=JOB_OVER, emptied_at=None),
                name="cluster_job_kept_idx",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_open(self) -> bool:
        return self.state in JOB_OPEN

    @property
    def is_unmoved(self) -> bool:
        """Its files are what failed."""
        return self.state == ClusterJobState.FAILED and bool(self.staging) and self.emptied_at is None

    @property
    def key(self) -> uuid.UUID:
        """By which Slurm knows what is there of it now."""
        return self.mover or self.pk

    def transfers(self, way: Way) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.inputs if way is Way.IN else self.outputs
        return found
