"""Templates, the clusters that are made of them, the operations on those, and the ledger of what was made."""

from django.db import models
from django.db.models import F, Q

from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.states import CHANGE_KINDS, CLUSTER_KINDS, ClusterState, TemplateState
from gpuaas.core.ids import short, uuid7
from gpuaas.core.leases import Claimable
from gpuaas.core.operations import OperationRow, StepRow
from gpuaas.core.statemachine import TransitionRow
from gpuaas.core.visits import Provisioned
from tenants.models import Organization, Project, User


class ClusterTemplate(models.Model):
    """A kind of cluster that is offered at one site, built by one driver; what exactly is in its versions."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=100)
    summary = models.CharField(max_length=300, blank=True)
    kind = models.CharField(max_length=16, choices=CLUSTER_KINDS)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="cluster_templates")
    driver = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=TemplateState, default=TemplateState.DRAFT)
    public = models.BooleanField(default=False)  # for every organization; else for those of `grants`
    version = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=TemplateState.values), name="cluster_template_state_known"
            )
        ]

    def __str__(self) -> str:
        return self.slug


class TemplateGrant(models.Model):
    template = models.ForeignKey(ClusterTemplate, on_delete=models.CASCADE, related_name="grants")
    organization = models.ForeignKey(
        Organization, on_delete=models.CASCADE, related_name="cluster_template_grants"
    )

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["template", "organization"], name="template_grant_once")
        ]

    def __str__(self) -> str:
        return f"{self.template} for {self.organization}"


class TemplateVersion(models.Model):
    """What the template is, as `definition.py` reads it. Never changed (a trigger sees to it): another one is added."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    template = models.ForeignKey(ClusterTemplate, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    document = models.JSONField()
    note = models.CharField(max_length=300, blank=True)
    deprecated_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["template", "number"], name="template_version_once")]

    def __str__(self) -> str:
        return f"{self.template} v{self.number}"


class Cluster(Provisioned):
    """A cluster on demand: what is wanted of it, and (confirmed_…) what the site last confirmed.

    trouble: why it failed: `cause`, `evidence` (lines), `next` (what to do). observed: nodes as last seen.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
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

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "name"],
                condition=~Q(state="deleted"),
                name="cluster_name_once_per_project",
            ),
            models.CheckConstraint(condition=Q(state__in=ClusterState.values), name="cluster_state_known"),
        ]
        indexes = [models.Index(fields=["project", "-id"], name="cluster_project_idx")]

    def __str__(self) -> str:
        return self.name

    @property
    def external_name(self) -> str:
        """The name at the site, from our id alone (plus the readable name): a lost answer is found again."""
        return f"c-{short(self.id)}-{self.name}"


class ClusterPool(models.Model):
    """Workers alike: how many and of which release are wanted, and what the site has confirmed."""

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
    """One thing asked of a cluster, with its steps."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="operations")
    kind = models.CharField(max_length=16, choices=CHANGE_KINDS)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster"],
                condition=Q(finished_at__isnull=True),
                name="cluster_operation_one_open",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.cluster}"


class ClusterOperationStep(StepRow):
    """`makes`: [kind, name] of every object that the step may make."""

    operation = models.ForeignKey(ClusterOperation, on_delete=models.CASCADE, related_name="steps")
    makes = models.JSONField(default=list, blank=True, editable=False)

    class Meta(StepRow.Meta):
        constraints = [
            models.UniqueConstraint(fields=["operation", "key"], name="cluster_step_once_per_operation")
        ]


class LedgerEntry(models.Model):
    """One object at the site: written down before it is made; gone_at = a sweep of the site proved that it is not there.

    found: it was not planned, a sweep found it with the cluster's tag.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="ledger")
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
        constraints = [models.UniqueConstraint(fields=["cluster", "kind", "name"], name="ledger_entry_once")]

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class ClusterHolding(models.Model):
    """What a cluster held over [started_at, ended_at), confirmed by the site. Whole seconds, UTC; one open row per
    cluster × meter × flavor. Ends when a sweep has proved that nothing is left."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="holdings")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    meter = models.CharField(max_length=32)
    quantity = models.PositiveBigIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "meter", "flavor"],
                condition=Q(ended_at__isnull=True),
                nulls_distinct=False,
                name="cluster_holding_open_once",
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at")),
                name="cluster_holding_ends_after",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.quantity} {self.meter} of {self.cluster}"


class NodeBoot(models.Model):
    """How far one boot of one machine came, by its own reports. passed: the last stage before `stage`."""

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


class ClusterGrant(models.Model):
    """A credential that was issued: to whom and for how long. Never the credential."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="grants")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"access of {self.user}"


class ScalingPolicy(Claimable):
    """How many workers a pool has, decided every minute while it is enabled; one that is not only watches.

    Delays in seconds. gpu_hours_month, money_month: the most that the pool's flavor may take in the cluster in a month, of GPU-hours
    and of the organization's currency; counted by billing, which tells the runner what is left. memory: of the last decision.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
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
    """What a pool with a policy had to do at a moment. room: the most workers that limits and capacity then allowed it, up to the
    policy's maximum. Kept for 35 days."""

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


class ScalingDecision(models.Model):
    """A line of the log, never changed. refused: the sentence of what allowed less than was wanted. per_hour: what the change costs
    more (or less) an hour, in `currency`; null where nobody has said a price. It outlives its policy."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
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
