"""What exists at the sites and what is sold of it."""

from django.db import models
from django.db.models import Q

from gpuaas.catalog.states import OfferState, PriceClass, Sharing
from gpuaas.core.ids import uuid7
from gpuaas.core.leases import Claimable
from tenants.models import slug_validator


class Site(Claimable):
    """One Kubernetes cluster or OpenStack cloud that the portal drives. Probed when `due_at` has come."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
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
    answer_ms = models.PositiveIntegerField(null=True, blank=True)
    observed_digest = models.CharField(max_length=64, blank=True, editable=False)
    version = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class GpuType(models.Model):
    """A kind of device, the same at every site: `h100-sxm-80gb`. Limits are given per GPU type."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100)
    product = models.CharField(max_length=100)
    memory_gib = models.PositiveIntegerField()
    compute_capability = models.CharField(max_length=8, blank=True)
    ecc = models.BooleanField(null=True, blank=True)
    sharing = models.CharField(max_length=16, choices=Sharing, default=Sharing.WHOLE)
    mig_profile = models.CharField(max_length=32, blank=True)
    interconnect = models.CharField(max_length=32, blank=True)
    state = models.CharField(max_length=16, choices=OfferState, default=OfferState.DRAFT)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class GpuPool(models.Model):
    """The devices of one GPU type at one site: the name by which the site counts them, and what was last observed.

    capacity = devices on nodes; healthy = on nodes that can take work; allocated = of the healthy ones, in use by pods
    or machines (what still runs on a cordoned node is in its Node row); largest_block = most free devices on one node.
    A site that does not answer keeps what it had when it last did.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="pools")
    gpu_type = models.ForeignKey(GpuType, on_delete=models.PROTECT, related_name="pools")
    resource_name = models.CharField(max_length=150)
    selector = models.JSONField(default=dict, blank=True)
    capacity = models.PositiveIntegerField(default=0)
    healthy = models.PositiveIntegerField(default=0)
    allocated = models.PositiveIntegerField(default=0)
    largest_block = models.PositiveIntegerField(default=0)
    observed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["site", "gpu_type"]
        constraints = [models.UniqueConstraint(fields=["site", "gpu_type"], name="pool_once_per_site")]

    def __str__(self) -> str:
        return f"{self.gpu_type} at {self.site}"

    @property
    def free(self) -> int:
        return max(self.healthy - self.allocated, 0)


class Node(models.Model):
    """Devices of one pool on one node as last observed, for the capacity map. vCPU and memory are the whole node's."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="nodes")
    pool = models.ForeignKey(GpuPool, on_delete=models.CASCADE, related_name="nodes", null=True, blank=True)
    name = models.CharField(max_length=253)
    ready = models.BooleanField(default=True)
    cordoned = models.BooleanField(default=False)
    reason = models.CharField(max_length=300, blank=True)
    capacity = models.PositiveIntegerField(default=0)
    allocated = models.PositiveIntegerField(default=0)
    vcpus = models.PositiveIntegerField(default=0)
    memory_gib = models.PositiveIntegerField(default=0)
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
        return self.capacity if self.ready and not self.cordoned else 0

    @property
    def free(self) -> int:
        return max(self.healthy - self.allocated, 0)


class Flavor(models.Model):
    """What is sold: n × a GPU type with its share of vCPU, memory and disk, at a site, in a price class."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100)
    pool = models.ForeignKey(GpuPool, on_delete=models.PROTECT, related_name="flavors")
    gpus = models.PositiveIntegerField(default=1)
    vcpus = models.PositiveIntegerField()
    memory_gib = models.PositiveIntegerField()
    disk_gib = models.PositiveIntegerField(default=0)
    price_class = models.CharField(max_length=16, choices=PriceClass, default=PriceClass.ON_DEMAND)
    state = models.CharField(max_length=16, choices=OfferState, default=OfferState.DRAFT)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [models.CheckConstraint(condition=Q(gpus__gte=1), name="flavor_has_a_gpu")]

    def __str__(self) -> str:
        return self.slug
