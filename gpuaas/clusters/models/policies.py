"""Scaling policies of pools, their samples, and their decisions."""

from django.db import models
from django.db.models import F, Q

from gpuaas.clusters.models.clusters import Cluster, ClusterPool
from gpuaas.core.claims import Claimable
from gpuaas.core.rows import Identified


class ScalingPolicy(Identified, Claimable):
    """How many workers a pool has, decided every minute while it is enabled; a disabled one only records.

    Delays in seconds. gpu_hours_month, money_month: the most that the pool's flavor may use in the cluster in a
    month, in GPU-hours and in the organization's currency; counted by billing, which passes what is left. memory: of
    the last decision.
    """

    pool = models.OneToOneField(ClusterPool, on_delete=models.CASCADE, related_name="policy")
    kind = models.CharField(max_length=32)
    settings = models.JSONField(default=dict, blank=True)
    minimum = models.PositiveIntegerField()
    maximum = models.PositiveIntegerField()
    step = models.PositiveIntegerField()
    up_delay = models.PositiveIntegerField()
    down_delay = models.PositiveIntegerField()
    cool_down = models.PositiveIntegerField()
    gpu_hours_month = models.PositiveIntegerField(null=True, blank=True)
    money_month = models.DecimalField(max_digits=14, decimal_places=2, null=True, blank=True)
    # a pool at a burst site: the pool at the cluster's own that is filled first
    after = models.CharField(max_length=20, blank=True)
    enabled = models.BooleanField(default=False)
    memory = models.JSONField(default=dict, blank=True, editable=False)
    version = models.PositiveBigIntegerField(default=1)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(step__gte=1, maximum__gte=F("minimum")), name="scaling_policy_bounds"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.pool}"


class PoolSample(models.Model):
    """The demand of a pool with a policy at a moment. room: the most workers that limits and capacity then allowed,
    up to the policy's maximum. Deleted after 35 days."""

    pool = models.ForeignKey(ClusterPool, on_delete=models.CASCADE, related_name="samples")
    at = models.DateTimeField()
    count = models.PositiveIntegerField()
    used_gpus = models.PositiveIntegerField()
    pending_gpus = models.PositiveIntegerField()
    queued = models.PositiveIntegerField()
    room = models.PositiveIntegerField()

    class Meta:
        ordering = ["at"]
        constraints = [models.UniqueConstraint(fields=["pool", "at"], name="pool_sample_once")]
        indexes = [models.Index(fields=["at"], name="pool_sample_at_idx")]

    def __str__(self) -> str:
        return f"{self.pool} at {self.at:%H:%M:%S}"


class ScalingOutcome(models.TextChoices):
    SCALED = "scaled", "Scaled"
    REFUSED = "refused", "Refused"
    BROKEN = "broken", "No answer"


class ScalingDecision(Identified):
    """A log line, never changed. refused: the reason of what allowed less than was wanted. per_hour: the additional
    (or negative) cost per hour, in `currency`; null without a price. It outlives its policy."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="scaling_decisions")
    pool = models.CharField(max_length=20)
    kind = models.CharField(max_length=32)
    at = models.DateTimeField()
    outcome = models.CharField(max_length=16, choices=ScalingOutcome)
    before = models.PositiveIntegerField()
    wanted = models.PositiveIntegerField()
    after = models.PositiveIntegerField()
    reason = models.CharField(max_length=500)
    refused = models.CharField(max_length=500, blank=True)
    signals = models.JSONField()
    per_hour = models.DecimalField(max_digits=20, decimal_places=6, null=True, blank=True)
    currency = models.CharField(max_length=3, blank=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["cluster", "-id"], name="scaling_decision_idx")]

    def __str__(self) -> str:
        return f"{self.pool}: {self.before} to {self.after}"
