"""Hosts of bare-metal sites, and which of their certificates were approved. No other room reads these tables."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from gpuaas.core.rows import Identified


class HostState(models.TextChoices):
    FREE = "free", "Free"
    BOUND = "bound", "Bound"  # held by a cluster, from the order until its wipe begins
    WIPING = "wiping", "Wiping"  # still the cluster's, until the hub confirms that its disks are clean
    BROKEN = "broken", "Broken"  # an operator has taken it out


HELD = (HostState.BOUND, HostState.WIPING)


class Host(Identified):
    """One machine of a rack. Each change of `state` is one conditional UPDATE: of two orders for one host, one gets it.

    name: also the node's name. resource_name: by what its flavor asks for it. product, gpu_memory_gib: of one of
    its GPUs. network: NMState's `interfaces`, `routes`, `dns-resolver` as they are; interfaces:
    [{"name", "mac"}] by which the hub knows which is which. root_device: Metal3's rootDeviceHints. bmc_secret: the Secret at
    the hub with the BMC's user and password, which never come here. binding counts how often it was bound. pool, slot: which of the
    cluster's machines it is. dirty: somebody's data may be on its disks. reason: why it was taken out; while a cluster holds it, it is
    replaced, and broken instead of free once it is wiped. drained_from: since when its work is being moved off; drain_words: what was not
    moved in time.
    """

    site_id = models.UUIDField()
    name = models.CharField(max_length=253)
    resource_name = models.CharField(max_length=150)
    gpus = models.PositiveSmallIntegerField()
    product = models.CharField(max_length=100, blank=True)
    gpu_memory_gib = models.PositiveIntegerField(default=0)
    vcpus = models.PositiveIntegerField(default=0)
    memory_gib = models.PositiveIntegerField(default=0)
    bmc_address = models.CharField(max_length=300)
    bmc_secret = models.CharField(max_length=63)
    bmc_verify = models.BooleanField(default=True)
    boot_mac = models.CharField(max_length=17)
    interfaces = models.JSONField(default=list)
    network = models.JSONField(default=dict, blank=True)
    addresses = ArrayField(models.GenericIPAddressField(), default=list)
    root_device = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=8, choices=HostState, default=HostState.FREE)
    reason = models.CharField(max_length=300, blank=True)
    cluster_id = models.UUIDField(null=True, blank=True)
    pool = models.CharField(max_length=20, blank=True)
    slot = models.CharField(max_length=30, blank=True)
    dirty = models.BooleanField(default=False)
    drained_from = models.DateTimeField(null=True, blank=True)
    drain_words = models.CharField(max_length=300, blank=True)
    bound_at = models.DateTimeField(null=True, blank=True)
    binding = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["site_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["site_id", "name"], name="baremetal_host_name_once"),
            models.UniqueConstraint(fields=["site_id", "boot_mac"], name="baremetal_host_mac_once"),
            models.UniqueConstraint(fields=["site_id", "bmc_address"], name="baremetal_host_bmc_once"),
            models.UniqueConstraint(
                fields=["cluster_id", "slot"],
                condition=Q(cluster_id__isnull=False),
                name="baremetal_host_slot_once",
            ),
            models.CheckConstraint(
                condition=~Q(state=HostState.FREE) | Q(dirty=False), name="baremetal_host_free_is_clean"
            ),
            models.CheckConstraint(
                condition=Q(state__in=HELD, cluster_id__isnull=False, bound_at__isnull=False)
                | (~Q(state__in=HELD) & Q(cluster_id__isnull=True)),
                name="baremetal_host_held_by_one",
            ),
            models.CheckConstraint(
                condition=Q(state__in=HostState.values), name="baremetal_host_state_known"
            ),
        ]
        indexes = [models.Index(fields=["cluster_id"], name="baremetal_host_cluster_idx")]

    def __str__(self) -> str:
        return self.name


class CertificateApproval(models.Model):
    """A used round of a binding, and the request that used it: stored before the site is told, so that it happens once."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="approvals")
    binding = models.PositiveIntegerField()
    round = models.CharField(max_length=8)
    request_uid = models.CharField(max_length=64)
    request_name = models.CharField(max_length=253)
    written_at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["host", "binding", "round"], name="certificate_approval_once")
        ]

    def __str__(self) -> str:
        return f"{self.round} certificate of {self.host}"
