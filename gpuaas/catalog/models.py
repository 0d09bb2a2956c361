"""Sites with what was observed there, GPU types, and flavors."""

from decimal import Decimal

from django.db import models
from django.db.models import Q

from gpuaas.catalog.states import (
    DriftPolicy,
    HugepagesSize,
    NodeCheckState,
    OfferState,
    PriceClass,
    RoundKind,
    Sharing,
)
from gpuaas.core.claims import Claimable
from gpuaas.core.rows import Identified
from tenants.models import slug_validator


class Site(Identified, Claimable):
    """One Kubernetes cluster or OpenStack cloud that the portal drives. Probed when `due_at` has come."""

    slug = models.CharField(max_length=40, unique=True, validators=[slug_validator])
    name = models.CharField(max_length=100)
    driver = models.CharField(max_length=32)
    endpoint = models.CharField(max_length=300, blank=True)
    credentials = models.TextField(blank=True, editable=False)  # core.crypto, never shown
    options = models.JSONField(default=dict, blank=True)
    enabled = models.BooleanField(default=True)
    oversubscription_percent = models.PositiveIntegerField(default=100)
    server_version = models.CharField(max_length=64, blank=True)
    conditions = models.JSONField(default=dict, blank=True)
    probed_at = models.DateTimeField(null=True, blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    # when it answered for the first time; null: never, so nothing has run there and nothing is counted
    reached_at = models.DateTimeField(null=True, blank=True)
    # null: still ours; otherwise only a name that past usage and invoices keep
    removed_at = models.DateTimeField(null=True, blank=True)
    answer_ms = models.PositiveIntegerField(null=True, blank=True)
    # until then its work is left to the workers of slow sites (lanes.py)
    slow_until = models.DateTimeField(null=True, blank=True, editable=False)
    observed_digest = models.CharField(max_length=64, blank=True, editable=False)
    # every name by which the site counts GPUs or ever did: what a workspace did not buy of them is closed to it
    gpu_names = models.JSONField(default=list, blank=True, editable=False)
    # since when it names its storage classes and not which is the default; null: it does, or says that none is
    default_unknown_since = models.DateTimeField(null=True, blank=True, editable=False)
    # devices that are not sold because it is not known what they are: `place`, `name`, `count`, `reason`
    unknown = models.JSONField(default=list, db_default=[], blank=True, editable=False)
    # training runtimes that jobs may name, as it was last found: `name`, `framework`
    runtimes = models.JSONField(default=list, db_default=[], blank=True, editable=False)
    # what is done about objects of ours that somebody else has changed
    drift_policy = models.CharField(max_length=16, choices=DriftPolicy, default=DriftPolicy.REPAIR)
    preflight_at = models.DateTimeField(null=True, blank=True)  # when `checks` were last taken
    checks = models.JSONField(default=dict, blank=True)  # what makes it fit to be sold, as conditions
    fit = models.BooleanField(default=True)  # False: one of the checks forbids to sell anything new there
    sell_unfit = models.BooleanField(default=False)  # an operator sells there all the same
    # False since a restore of the database: nothing is changed there until an operator has compared it
    confirmed = models.BooleanField(default=True, db_default=True)
    version = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug

    @property
    def takes_new(self) -> bool:
        """Whether new requests are accepted there; the same condition as `SELLING` in the selectors."""
        return self.enabled and (self.fit or self.sell_unfit)


class SiteRound(Claimable):
    """A periodic check of a site beside the probe, with its own claim and schedule.

    found: for a round of kind `health`, node → the last report of its monitoring (`cards`, `sick` by MIG profile,
    `check`).
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="rounds")
    kind = models.CharField(max_length=16, choices=RoundKind)
    found = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["site", "kind"], name="round_once_per_site")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.site}"


class SiteReadings(Claimable):
    """What the last round of health read of each device of a site (fields of DeviceReading), until it is kept by
    gpustats, which claims this row."""

    site = models.OneToOneField(Site, on_delete=models.CASCADE, primary_key=True, related_name="readings")
    at = models.DateTimeField()
    devices = models.JSONField(default=list, blank=True)

    def __str__(self) -> str:
        return f"readings of {self.site_id}"


class GpuType(Identified):
    """A kind of device, the same at every site: `h100-sxm-80gb`. Limits are set per GPU type."""

    slug = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100)
    product = models.CharField(max_length=100)
    memory_gib = models.PositiveIntegerField()
    compute_capability = models.CharField(max_length=8, blank=True)
    ecc = models.BooleanField(null=True, blank=True)
    mig_capable = models.BooleanField(null=True, blank=True)
    sharing = models.CharField(max_length=16, choices=Sharing, default=Sharing.WHOLE)
    mig_profile = models.CharField(max_length=32, blank=True)
    interconnect = models.CharField(max_length=32, blank=True)
    state = models.CharField(max_length=16, choices=OfferState, default=OfferState.DRAFT)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class GpuPool(Identified):
    """The devices of one GPU type at one site: the name under which the site counts them, and what was last observed.

    capacity = devices on nodes; healthy = on nodes that can take work; allocated = healthy ones used by pods or
    machines (those on a cordoned node are in its Node row); others = those of them that are not for a workspace or cluster of
    ours, and so are not sold; largest_block = most unallocated devices on one node. A site that does not answer keeps its
    last values. trouble: why it cannot be sold at present. shares_with: slugs of
    GPU types that the site cuts from the same hardware; only one of them may be sold.

    cards = GPUs that the devices are cut from, without those that a pool of the same hardware counts; null = not observed
    yet. card_share = the part of a GPU that one device is, kept when the pool is empty. shares = how many devices were one card or slice
    when it was first seen; null = not seen since that is written.

    Once sold (a flavor of it was published), its name, class and selector are a contract: discoveries at the site do
    not overwrite them, and differences are reported as trouble. device_class: the DRA class of that name; also:
    further names to which the site charges these devices.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="pools")
    gpu_type = models.ForeignKey(GpuType, on_delete=models.PROTECT, related_name="pools")
    resource_name = models.CharField(max_length=150)
    selector = models.JSONField(default=dict, blank=True)
    trouble = models.CharField(max_length=500, blank=True)
    device_class = models.CharField(max_length=253, blank=True)
    also = models.JSONField(default=list, blank=True)
    shares_with = models.JSONField(default=list, blank=True)
    capacity = models.PositiveIntegerField(default=0)
    healthy = models.PositiveIntegerField(default=0)
    allocated = models.PositiveIntegerField(default=0)
    others = models.PositiveIntegerField(default=0, db_default=0)
    largest_block = models.PositiveIntegerField(default=0)
    cards = models.DecimalField(max_digits=14, decimal_places=4, null=True, blank=True)
    card_share = models.DecimalField(
        max_digits=13, decimal_places=12, default=Decimal(1), db_default=Decimal(1)
    )
    shares = models.PositiveIntegerField(null=True, blank=True)
    arch = models.CharField(
        max_length=16, blank=True, db_default="", default=""
    )  # of its nodes; "" = not known
    observed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["site", "gpu_type"]
        constraints = [models.UniqueConstraint(fields=["site", "gpu_type"], name="pool_once_per_site")]

    def __str__(self) -> str:
        return f"{self.gpu_type} at {self.site}"

    def in_cards(self, devices: int) -> Decimal:
        """So many of its devices as GPUs: a card that is sold in slices is one card in every sum."""
        return round(devices * self.card_share, 4)

    @property
    def counted_cards(self) -> Decimal:
        return self.in_cards(self.capacity) if self.cards is None else self.cards

    @property
    def unallocated(self) -> int:
        """Healthy and used by nobody now, whoever holds them. The room quotas knows what can still be held."""
        return max(self.healthy - self.allocated, 0)


class Node(models.Model):
    """Devices of one pool on one node as last observed, for the capacity map. vCPU and memory are those of the node.

    capacity counts all installed devices, `unhealthy` those of them that cannot take work, `allocated` those in use, and `others`
    those of these that are not for a workspace or cluster of ours. rack and nvlink_domain group nodes;
    numa and cpus are the kubelet's policies; hugepages: page size to GiB.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="nodes")
    pool = models.ForeignKey(GpuPool, on_delete=models.CASCADE, related_name="nodes", null=True, blank=True)
    name = models.CharField(max_length=253)
    ready = models.BooleanField(default=True)
    cordoned = models.BooleanField(default=False)
    reason = models.CharField(max_length=300, blank=True)
    capacity = models.PositiveIntegerField(default=0)
    allocated = models.PositiveIntegerField(default=0)
    others = models.PositiveIntegerField(default=0, db_default=0)
    vcpus = models.PositiveIntegerField(default=0)
    memory_gib = models.PositiveIntegerField(default=0)
    unhealthy = models.PositiveIntegerField(default=0)
    zone = models.CharField(max_length=63, blank=True)
    rack = models.CharField(max_length=63, blank=True)
    nvlink_domain = models.CharField(max_length=63, blank=True)
    numa = models.CharField(max_length=32, blank=True)
    cpus = models.CharField(max_length=32, blank=True)
    profile = models.CharField(max_length=63, blank=True)
    arch = models.CharField(max_length=16, blank=True, db_default="", default="")
    hugepages = models.JSONField(default=dict, blank=True)
    checks = models.JSONField(default=dict, blank=True)  # conditions, as on the site
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["site", "name", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["site", "name", "pool"], nulls_distinct=False, name="node_once_per_pool"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} at {self.site}"

    @property
    def healthy(self) -> int:
        return max(self.capacity - self.unhealthy, 0) if self.ready and not self.cordoned else 0

    @property
    def unallocated(self) -> int:
        """Healthy and used by nobody now, whoever holds them. The room quotas knows what can still be held."""
        return max(self.healthy - self.allocated, 0)


STORAGE_PREFIX = "storage:"


class StorageClass(Identified):
    """A class of storage of a site, by the name that claims use there. A class that is gone stays: it stays closed.

    plain: what an amount of storage without a class is taken from; chosen: an operator said so, else it follows the site's
    default. At the site a workspace has a limit for each class, 0 for what it did not buy. slug: the name by which it is sold and
    priced, kept from the first offer on; "" = never offered.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="storage_classes")
    name = models.CharField(max_length=253)
    provisioner = models.CharField(max_length=253, blank=True)
    is_default = models.BooleanField(default=False)
    present = models.BooleanField(default=True)
    plain = models.BooleanField(default=False)
    chosen = models.BooleanField(default=False)
    slug = models.CharField(max_length=40, blank=True, validators=[slug_validator])
    state = models.CharField(max_length=16, choices=OfferState, default=OfferState.DRAFT)
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["site", "name"]
        constraints = [
            models.UniqueConstraint(fields=["site", "name"], name="storage_class_once_per_site"),
            models.UniqueConstraint(fields=["site"], condition=Q(plain=True), name="storage_class_one_plain"),
            models.UniqueConstraint(fields=["slug"], condition=~Q(slug=""), name="storage_class_sold_once"),
            models.CheckConstraint(
                condition=Q(chosen=False) | Q(plain=True), name="storage_class_chosen_is_plain"
            ),
            models.CheckConstraint(
                condition=Q(state="draft") | ~Q(slug=""), name="storage_class_sold_has_a_slug"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} at {self.site}"

    @property
    def resource(self) -> str:
        """The name by which usage and prices know it."""
        return f"{STORAGE_PREFIX}{self.slug}"


class NodeCheck(Identified, Claimable):
    """One run of the vendor's own check (nvidia-smi) on a node, requested by an operator.

    finished_at is set when the check has ended and nothing of it is left at the site.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="node_checks")
    node = models.CharField(max_length=253)
    state = models.CharField(max_length=16, choices=NodeCheckState, default=NodeCheckState.WAITING)
    detail = models.CharField(max_length=500, blank=True)
    output = models.TextField(blank=True)
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["site", "node"], condition=Q(finished_at__isnull=True), name="node_check_one_open"
            )
        ]

    def __str__(self) -> str:
        return f"check of {self.node}"


class Flavor(Identified):
    """What is sold: n × a GPU type with its share of vCPU, memory and disk, at a site, in a price class.

    It may require tuned nodes: hugepages of one size (part of its memory), exclusive cores, sysctls that pods may
    set, a node profile; or sell whole nodes only.

    notice_seconds: of the class spot alone, for how long what runs of it may go on once a buyer needs its GPUs; 0: not lent. One of
    the class spot from an earlier release is not lent either, but sold like any other.
    """

    slug = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100)
    pool = models.ForeignKey(GpuPool, on_delete=models.PROTECT, related_name="flavors")
    gpus = models.PositiveIntegerField(default=1)
    vcpus = models.PositiveIntegerField()
    memory_gib = models.PositiveIntegerField()
    disk_gib = models.PositiveIntegerField(default=0)
    price_class = models.CharField(max_length=16, choices=PriceClass, default=PriceClass.ON_DEMAND)
    notice_seconds = models.PositiveIntegerField(default=0, db_default=0)
    whole_node = models.BooleanField(default=False)
    hugepages_size = models.CharField(max_length=8, choices=HugepagesSize, blank=True)
    hugepages_gib = models.PositiveIntegerField(default=0)
    exclusive_cpus = models.BooleanField(default=False)
    sysctls = models.JSONField(default=list, blank=True)
    profile = models.CharField(max_length=63, blank=True)
    state = models.CharField(max_length=16, choices=OfferState, default=OfferState.DRAFT)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(condition=Q(gpus__gte=1), name="flavor_has_a_gpu"),
            models.CheckConstraint(
                condition=Q(hugepages_gib=0, hugepages_size="")
                | (Q(hugepages_gib__gt=0) & ~Q(hugepages_size="")),
                name="flavor_hugepages_have_a_size",
            ),
            models.CheckConstraint(
                condition=Q(notice_seconds=0) | Q(price_class=PriceClass.SPOT), name="flavor_lent_is_spot"
            ),
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def is_lent(self) -> bool:
        """It lends what was sold and is idle: it takes nothing of what can be bought, and ends when a buyer needs it."""
        return self.notice_seconds > 0
