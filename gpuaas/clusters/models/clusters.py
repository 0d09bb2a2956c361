"""Clusters, the operations on them, and the ledger of what was made."""

from collections.abc import Sequence
from typing import Self

from django.db import models
from django.db.models import Q

from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models.templates import TemplateVersion
from gpuaas.clusters.models.warm import WarmPool
from gpuaas.clusters.states import CHANGE_KINDS, ClusterState
from gpuaas.core.ids import short
from gpuaas.core.rows import Identified
from gpuaas.core.statemachine import TransitionRow
from gpuaas.lifecycle.grants import GrantStanding, standing
from gpuaas.lifecycle.holdings import HoldingRow, ends_after
from gpuaas.lifecycle.models import Provisioned, name_once
from gpuaas.lifecycle.operations import OperationRow, StepRow, open_once
from gpuaas.providers.base import StepSpec
from tenants.models import Project, User


class Cluster(Provisioned):
    """A cluster: what is wanted of it, and (confirmed_…) what the site last confirmed.

    trouble: why it failed: `cause`, `evidence` (lines), `next` (what to do). observed: nodes as last seen. warm_pool:
    the pool for which it was made, forever; until claimed_at it is held there. logins: names of those that its head lets
    in, by its own report; None = people have no logins of their own there. takes_jobs: whether its head has ever reported
    the portal's jobs; moves_files: whether it has also said that it submits movers of their files.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="clusters")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="clusters")
    template_version = models.ForeignKey(TemplateVersion, on_delete=models.PROTECT, related_name="clusters")
    name = models.CharField(max_length=20)
    state = models.CharField(max_length=16, choices=ClusterState, default=ClusterState.REQUESTED)
    release = models.CharField(max_length=32)
    confirmed_release = models.CharField(max_length=32, blank=True)
    control_count = models.PositiveSmallIntegerField()
    addons = models.JSONField(default=list, blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    trouble = models.JSONField(default=dict, blank=True)
    # encrypted: what every secret of the cluster is worked out of (providers/base/boots.py); forgotten with the cluster
    seed = models.TextField(blank=True)
    warm_pool = models.ForeignKey(
        WarmPool, on_delete=models.PROTECT, null=True, blank=True, related_name="clusters"
    )
    claimed_at = models.DateTimeField(null=True, blank=True)
    logins = models.JSONField(null=True, blank=True, editable=False)
    takes_jobs = models.BooleanField(default=False, db_default=False, editable=False)
    moves_files = models.BooleanField(default=False, db_default=False, editable=False)

    class Meta(Provisioned.Meta):
        constraints = [
            name_once("cluster_name_once_per_project"),
            models.CheckConstraint(condition=Q(state__in=ClusterState.values), name="cluster_state_known"),
            models.CheckConstraint(
                condition=Q(claimed_at__isnull=True) | Q(warm_pool__isnull=False),
                name="cluster_claimed_was_warm",
            ),
        ]
        indexes = [models.Index(fields=["project", "-id"], name="cluster_project_idx")]

    def __str__(self) -> str:
        return self.name

    @property
    def external_name(self) -> str:
        """The name at the site, made only from our id (plus a readable word), so that a lost answer is found again.
        It never changes: a cluster made for a warm pool does not have a tenant's name."""
        return f"c-{short(self.id)}-{'warm' if self.warm_pool_id else self.name}"

    @property
    def is_waiting(self) -> bool:
        """Whether it is in a warm pool and not claimed."""
        return self.warm_pool_id is not None and self.claimed_at is None


class ClusterPool(models.Model):
    """Identical workers: the number and release wanted, and what the site has confirmed."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="pools")
    name = models.CharField(max_length=20)
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="+")
    count = models.PositiveIntegerField()
    confirmed = models.PositiveIntegerField(default=0)
    release = models.CharField(max_length=32)
    confirmed_release = models.CharField(max_length=32, blank=True)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="cluster_pool_once")]

    def __str__(self) -> str:
        return f"{self.name} of {self.cluster}"


class ClusterTransition(TransitionRow):
    subject = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="transitions")


class ClusterOperation(OperationRow):
    """One operation on a cluster, with its steps."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="operations")
    kind = models.CharField(max_length=16, choices=CHANGE_KINDS)

    class Meta(OperationRow.Meta):
        constraints = [open_once("cluster", "cluster_operation_one_open")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.cluster}"


class ClusterOperationStep(StepRow):
    """`makes`: [kind, name] of every object that the step may make. site: the burst site of the step; none = the
    cluster's. moved_at: when the site last said something new about it while it waited."""

    operation = models.ForeignKey(ClusterOperation, on_delete=models.CASCADE, related_name="steps")
    makes = models.JSONField(default=list, blank=True, editable=False)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    moved_at = models.DateTimeField(null=True, blank=True)

    class Meta(StepRow.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "site", "key"],
                nulls_distinct=False,
                name="cluster_step_once_per_operation",
            )
        ]

    @classmethod
    def of(cls, steps: Sequence[StepSpec]) -> list[Self]:
        elsewhere = {step.site for step in steps if step.site}
        sites = {site.slug: site for site in Site.objects.filter(slug__in=elsewhere)} if elsewhere else {}
        rows = super().of(steps)
        for row, step in zip(rows, steps, strict=True):
            row.site, row.makes = sites.get(step.site), [[made.kind, made.name] for made in step.makes]
        return rows

    @property
    def name(self) -> str:
        """One of the operation's steps: `key`, at a burst site `key@site`."""
        return f"{self.key}@{self.site.slug}" if self.site else self.key


class LedgerEntry(models.Model):
    """One object at the site: recorded before it is made; gone_at = a sweep of the site proved that it does not
    exist.

    found: it was not planned, a sweep found it with the cluster's tag. site: its burst site; none = the cluster's.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="ledger")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    kind = models.CharField(max_length=64)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=120, blank=True)
    step = models.CharField(max_length=32, blank=True)
    written_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True, blank=True)
    gone_at = models.DateTimeField(null=True, blank=True)
    found = models.BooleanField(default=False)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "site", "kind", "name"], nulls_distinct=False, name="ledger_entry_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class ClusterHolding(HoldingRow):
    """What a cluster held, confirmed by the site; one open row per cluster × site × meter × flavor. Ends when a sweep
    has proved that nothing is left there, or when another project has claimed the cluster. site: a burst site; none =
    the cluster's."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="holdings")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")  # whose it was then
    site = models.ForeignKey(Site, on_delete=models.PROTECT, null=True, blank=True, related_name="+")

    class Meta(HoldingRow.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "site", "meter", "flavor"],
                condition=Q(ended_at__isnull=True),
                nulls_distinct=False,
                name="cluster_holding_open_once",
            ),
            ends_after("cluster_holding_ends_after"),
        ]
        indexes = [models.Index(fields=["ended_at"], name="cluster_holding_ended_idx")]

    def __str__(self) -> str:
        return f"{self.quantity} {self.meter} of {self.cluster}"


class NodeBoot(models.Model):
    """The progress of one boot of one machine, by its own reports. passed: the last stage before `stage`."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="boots")
    node = models.CharField(max_length=100)
    boot = models.CharField(max_length=32)
    stage = models.CharField(max_length=16)
    passed = models.CharField(max_length=16, blank=True)
    message = models.TextField(blank=True)
    reported_at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["cluster", "boot"], name="node_boot_once")]

    def __str__(self) -> str:
        return f"{self.node}: {self.stage}"


class ClusterQueue(models.Model):
    """The latest queue report of the head of a cluster. pools: [{pool, used_gpus, pending_gpus, queued}]; workers: by
    pool {busy, least, drain, unhealthy}, nothing of a head that does not report them."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="queue")
    pools = models.JSONField(default=list)
    workers = models.JSONField(default=dict, db_default={})
    told_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"queue of {self.cluster}"


class ClusterGrant(Identified):
    """An issued credential: to whom and for how long, and whether it was ended early. Never the credential itself.

    revoke_asked_at: an end was requested; revoked_at: the site has confirmed it.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="grants")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoke_asked_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(
                fields=["revoke_asked_at"],
                condition=Q(revoke_asked_at__isnull=False, revoked_at__isnull=True),
                name="cluster_grant_ending_idx",
            )
        ]

    def __str__(self) -> str:
        return f"access of {self.user}"

    @property
    def standing(self) -> GrantStanding:
        ending = self.revoke_asked_at is not None
        return standing(revoked_at=self.revoked_at, expires_at=self.expires_at, ending=ending)
