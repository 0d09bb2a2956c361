"""Usage intervals, on which all charges are based, and the state of each site's meter."""

from decimal import Decimal
from typing import Any

from django.db import models
from django.db.models import F, Q

from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster
from gpuaas.core.ids import uuid7
from gpuaas.workspaces.models import Workspace
from tenants.models import Project


class Meter(models.TextChoices):
    """Units: devices for GPUs, cores for vCPU, GiB for memory and storage; each times seconds. A million tokens is 3600 unit-seconds."""

    GPU_HELD = "gpu_held", "GPU held"
    GPU_ALLOCATED = "gpu_allocated", "GPU allocated"
    GPU_STOPPED = "gpu_stopped", "GPU of a stopped machine"
    GPU_SHELVED = "gpu_shelved", "GPU of a shelved machine"
    GPU_IDLE = (
        "gpu_idle",
        "GPU idle in a reserved pool",
    )  # counted by billing from the history of capacity; no interval
    VCPU_HELD = "vcpu_held", "vCPU held"
    MEMORY_HELD = "memory_held", "Memory held"
    STORAGE_HELD = "storage_held", "Storage held"
    TOKENS_IN = "tokens_in", "Tokens in"
    TOKENS_OUT = "tokens_out", "Tokens out"


# what the site's stream tells of consumers; the first two are devices that nobody else can have
HOLDING_METERS = (Meter.GPU_ALLOCATED, Meter.GPU_STOPPED)
STREAMED_METERS = (*HOLDING_METERS, Meter.GPU_SHELVED)
# of an endpoint: a day is one second at its beginning (docs/decisions/0126)
TOKEN_METERS = (Meter.TOKENS_IN, Meter.TOKENS_OUT)


class EndedBy(models.TextChoices):
    """How the end is known; a proof of life is the last moment at which the consumer was seen."""

    OBSERVED = "observed", "observed"
    PROOF_OF_LIFE = "proof_of_life", "last proof of life"


class ImportStep(models.IntegerChoices):
    """Of an import of usage, in this order."""

    READ = 1, "The rows of the file are read"
    CHECK = 2, "They are checked, and other imports waited for"
    COMPARE = 3, "They are compared with the usage that is there"
    WRITE = 4, "New rows are written"
    SUM = 5, "It is added up by month, project and meter"


class ImportProgress(models.Model):
    """Of an import that is under way, for display only; the row is there for as long as the import takes.

    Written aside: what the import itself writes is seen only when it has ended. rows: read so far.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    file = models.CharField(max_length=255)
    requested_by = models.CharField(max_length=150)
    step = models.PositiveSmallIntegerField(choices=ImportStep, default=ImportStep.READ)
    rows = models.PositiveBigIntegerField(default=0)
    began_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.file}: step {self.step}"


class UsageImport(models.Model):
    """A batch of usage that was metered elsewhere: what one import wrote. Taken back, it stays without its intervals.

    rows were read; intervals of them were new and not empty, from starts_at until ends_at. closed_months: those
    that were closed when it came; the close of any other month counted it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    file = models.CharField(max_length=255)
    imported_at = models.DateTimeField()
    imported_by = models.CharField(max_length=150)
    rows = models.PositiveBigIntegerField()
    intervals = models.PositiveBigIntegerField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    closed_months: Any = models.JSONField(default=list)
    taken_back_at = models.DateTimeField(null=True, blank=True)
    taken_back_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.name


class UsageImportSum(models.Model):
    """What a batch brought of a month, project and meter, and what else was there then, in unit-seconds."""

    id = models.BigAutoField(primary_key=True)
    batch = models.ForeignKey(UsageImport, on_delete=models.CASCADE, related_name="sums")
    month = models.DateField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    meter = models.CharField(max_length=32, choices=Meter)
    intervals = models.PositiveBigIntegerField()
    unit_seconds = models.PositiveBigIntegerField()
    besides_unit_seconds = models.PositiveBigIntegerField()

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.meter} of {self.month:%Y-%m}"


class UsageInterval(models.Model):
    """One resource held by one consumer over [started_at, ended_at), whole seconds, UTC. Open while ended_at is null.

    Belongs to a workspace or a cluster, never both; clusters have only the held meters (docs/decisions/0033). Keyed
    by (site, consumer_uid, meter, resource_name): a replayed, reordered or duplicated event finds the same row.
    flavor is null for a GPU type that is not sold: billing quarantines it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, null=True, blank=True, related_name="intervals"
    )
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, null=True, blank=True, related_name="intervals", db_index=False
    )
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    consumer_uid = models.CharField(max_length=80)
    consumer_name = models.CharField(max_length=253)
    node = models.CharField(max_length=253, blank=True)
    meter = models.CharField(max_length=32, choices=Meter)
    resource_name = models.CharField(max_length=150)
    quantity = models.PositiveBigIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    last_seen_at = models.DateTimeField()
    ended_by = models.CharField(max_length=16, choices=EndedBy, blank=True)
    owner = models.CharField(max_length=320, blank=True, db_default="")  # what made the consumer: "Job/train"
    # of one that is being deleted: by when it was to have ended, as it was seen first; it is not counted after that
    deadline_at = models.DateTimeField(null=True, blank=True)
    # held beyond what was bought, until the warden removed it: counted, shown apart, priced by the rate card's word
    surplus = models.BooleanField(default=False, db_default=False)
    # the import that it came by; null for what was metered here
    batch = models.ForeignKey(
        UsageImport, on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )

    class Meta:
        ordering = ["-started_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["site", "consumer_uid", "meter", "resource_name"], name="interval_once_per_consumer"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at")),
                name="interval_ends_after",
            ),
            models.CheckConstraint(condition=Q(quantity__gt=0), name="interval_is_positive"),
            models.CheckConstraint(
                condition=Q(workspace__isnull=False, cluster__isnull=True)
                | Q(workspace__isnull=True, cluster__isnull=False),
                name="interval_has_one_holder",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "started_at"], name="interval_project_idx"),
            models.Index(fields=["project", "ended_at"], name="interval_project_end_idx"),
            models.Index(fields=["site"], condition=Q(ended_at__isnull=True), name="interval_open_idx"),
            # of GPUs that are not sold: few, and asked for by whoever sets prices
            models.Index(
                fields=["resource_name"],
                condition=Q(flavor__isnull=True, meter__startswith="gpu_"),
                name="interval_unsold_idx",
            ),
            models.Index(fields=["cluster"], condition=Q(cluster__isnull=False), name="interval_cluster_idx"),
            models.Index(fields=["batch"], condition=Q(batch__isnull=False), name="interval_batch_idx"),
        ]

    def __str__(self) -> str:
        return f"{self.quantity} {self.meter} by {self.consumer_name}"

    @property
    def holder(self) -> Workspace | Cluster:
        """The holder, if it does not matter which of the two it is."""
        owner = self.workspace or self.cluster
        if owner is None:
            raise ValueError("an interval without a holder: the database refuses it")
        return owner

    @property
    def counted(self) -> int:
        """The quantity; of a day of tokens without length, which late tokens of an earlier day have left without a unit, none."""
        is_empty = self.meter in TOKEN_METERS and self.ended_at == self.started_at
        return 0 if is_empty else self.quantity

    @property
    def millions(self) -> Decimal | None:
        """Of tokens; None for all else."""
        return Decimal(self.counted) / 3600 if self.meter in TOKEN_METERS else None

    @property
    def was_warm(self) -> bool:
        """Whether the project held the cluster in a warm pool before others claimed it, who are not named here."""
        return self.cluster is not None and self.cluster.project_id != self.project_id

    @property
    def holder_name(self) -> str:
        return self.consumer_name if self.was_warm else self.holder.name

    @property
    def holder_person(self) -> str:
        """Who requested it."""
        pool = self.cluster.warm_pool if self.cluster is not None and self.was_warm else None
        return (pool or self.holder).created_by.username


class SiteMeter(models.Model):
    """The meter of one site: its claim, where its watch resumes, and when it last heard from the site."""

    site = models.OneToOneField(Site, on_delete=models.CASCADE, primary_key=True, related_name="meter")
    holder = models.CharField(max_length=100, blank=True)
    claim_until = models.DateTimeField(null=True, blank=True)
    cursor = models.CharField(max_length=200, blank=True)
    last_event_at = models.DateTimeField(null=True, blank=True)
    first_proof_at = models.DateTimeField(null=True, blank=True)
    last_proof_at = models.DateTimeField(null=True, blank=True)
    # when it was first heard again after it had not been heard for too long; null: never heard
    watching_since = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"meter of {self.site}"


class MeterGap(models.Model):
    """A period without history at the site in which the meter saw nothing: it ended with a list.

    What ran before or after it is counted, and so are objects that still exist; what started and was deleted inside
    is unknown. What was missing afterwards was closed at its last proof of life.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="meter_gaps")
    starts_at = models.DateTimeField()  # the last proof of life before it
    ends_at = models.DateTimeField()  # the list after it
    closed = models.PositiveIntegerField(default=0)  # intervals that ended inside, at a time that nobody saw

    class Meta:
        ordering = ["-starts_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["site", "starts_at"], name="meter_gap_once"),
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="meter_gap_has_length"),
        ]

    def __str__(self) -> str:
        return f"gap of {self.site} from {self.starts_at:%Y-%m-%d %H:%M:%S}"


class CrossCheck(models.Model):
    """A comparison of the open intervals of a site with a full list of what runs there."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="cross_checks")
    checked_at = models.DateTimeField()
    compared = models.PositiveIntegerField()
    # consumers that are not counted, are counted and do not run, or differ: uid, name, workspace, what, repaired
    findings = models.JSONField(default=list)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"cross-check of {self.site}"


class FinalMonth(models.Model):
    """A month of which no interval is compared, credited or taken in any more. All earlier months are final, too.

    ends_at: the end of the month when it became final. archived_at: since when its intervals may stand in files and
    not here.
    """

    month = models.DateField(primary_key=True)
    ends_at = models.DateTimeField(unique=True)
    marked_at = models.DateTimeField()
    marked_by = models.CharField(max_length=150)
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["month"]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m}"


class UsageFile(models.Model):
    """A file of archived intervals that ended in a final month; written and checked before the row is.

    unit_seconds: by meter. cleared_at: since when none of its intervals is left in the database.
    """

    id = models.BigAutoField(primary_key=True)
    month = models.ForeignKey(FinalMonth, on_delete=models.PROTECT, related_name="files")
    name = models.CharField(max_length=100, unique=True)
    sha256 = models.CharField(max_length=64)
    rows = models.PositiveBigIntegerField()
    unit_seconds: Any = models.JSONField()
    written_at = models.DateTimeField()
    cleared_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name
