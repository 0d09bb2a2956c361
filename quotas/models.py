"""Limits, the sellable capacity of sites, reservations of both, and pools reserved for one organization.

A resource is a key: `gpu:<GPU type slug>` (devices), `vcpu` (cores), `memory` (GiB), `storage` (GiB).
"""

from django.db import models
from django.db.models import F, Q

from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Site
from gpuaas.core.rows import Identified
from tenants.models import Organization, Project


class Limit(Identified):
    """The most of one resource that an organization or a project may hold at once.

    hard NULL = unlimited; no row = zero. `used` is the sum of held reservations, maintained by `reserve`.
    """

    organization = models.ForeignKey(
        Organization, on_delete=models.CASCADE, related_name="limits", null=True, blank=True
    )
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, related_name="limits", null=True, blank=True
    )
    resource = models.CharField(max_length=80)
    hard = models.PositiveBigIntegerField(null=True, blank=True)
    used = models.PositiveBigIntegerField(default=0)
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["resource"]
        constraints = [
            models.UniqueConstraint(fields=["organization", "resource"], name="organization_limit_once"),
            models.UniqueConstraint(fields=["project", "resource"], name="project_limit_once"),
            models.CheckConstraint(
                condition=Q(organization__isnull=True) ^ Q(project__isnull=True), name="limit_has_one_scope"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.resource} of {self.project or self.organization}"


class SiteCapacity(Identified):
    """How much of one resource can be sold at one site: sellable = healthy × oversubscription, rounded down.

    healthy: without devices in other hands. hard NULL = not counted at this site. A value
    below `used` evicts nobody and blocks new reservations.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="sellable")
    resource = models.CharField(max_length=80)
    healthy = models.PositiveBigIntegerField(default=0)
    oversubscription_percent = models.PositiveIntegerField(default=100)
    hard = models.PositiveBigIntegerField(null=True, blank=True)
    used = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["site", "resource"]
        constraints = [models.UniqueConstraint(fields=["site", "resource"], name="site_capacity_once")]

    def __str__(self) -> str:
        return f"{self.resource} at {self.site}"


class CapacityWatch(models.Model):
    """Until when the capacity of a site is known: the last observation in its history."""

    site = models.OneToOneField(
        Site, on_delete=models.CASCADE, primary_key=True, related_name="capacity_watch"
    )
    seen_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"capacity of {self.site}, seen {self.seen_at}"


class CapacityStretch(Identified):
    """The number of devices of a GPU type, healthy and not in other hands, at a site over [starts_at, ends_at), whole seconds, UTC.

    The stretches of a type are contiguous; the last is open. known=False: not observed, and `devices` is the previous
    number. Append-only: the database refuses all changes but the end of an open stretch (migration
    `history_and_reservations`). A stretch without length means that the site stopped answering right after the
    observation.
    """

    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="capacity_stretches")
    gpu_type = models.ForeignKey(GpuType, on_delete=models.PROTECT, related_name="+")
    devices = models.PositiveIntegerField()
    known = models.BooleanField(default=True)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["site", "gpu_type", "starts_at", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["site", "gpu_type"], condition=Q(ends_at__isnull=True), name="capacity_one_open"
            ),
            models.CheckConstraint(
                condition=Q(ends_at__isnull=True) | Q(ends_at__gte=F("starts_at")), name="capacity_ends_after"
            ),
            models.CheckConstraint(
                condition=Q(known=True) | Q(ends_at__isnull=False), name="capacity_open_is_known"
            ),
        ]
        indexes = [models.Index(fields=["site", "starts_at"], name="capacity_stretch_idx")]

    def __str__(self) -> str:
        return f"{self.devices} {self.gpu_type} at {self.site} from {self.starts_at:%Y-%m-%d %H:%M:%S}"


class ReservationState(models.TextChoices):
    HELD = "held", "Held"
    RELEASED = "released", "Released"


class Reservation(Identified):
    """The part of limits and of a site's capacity that a holder (a workspace or cluster) has, from request to
    release."""

    holder_kind = models.CharField(max_length=16)
    holder_id = models.UUIDField(db_index=True)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="reservations")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="reservations")
    resource = models.CharField(max_length=80)
    amount = models.PositiveBigIntegerField()
    state = models.CharField(max_length=16, choices=ReservationState, default=ReservationState.HELD)
    created_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["holder_id", "site", "resource"],
                condition=Q(state="held"),
                name="holder_reserves_resource_once",
            ),
            models.CheckConstraint(condition=Q(amount__gt=0), name="reservation_is_positive"),
            models.CheckConstraint(
                condition=Q(state="held", released_at__isnull=True)
                | Q(state="released", released_at__isnull=False),
                name="reservation_released_has_time",
            ),
            models.CheckConstraint(
                condition=Q(released_at__isnull=True) | Q(released_at__gte=F("created_at")),
                name="reservation_released_after",
            ),
        ]
        indexes = [
            models.Index(
                fields=["project", "resource"], condition=Q(state="held"), name="reservation_held_idx"
            )
        ]

    def __str__(self) -> str:
        return f"{self.amount} {self.resource} for {self.holder_kind} {self.holder_id}"


class Hold(Identified):
    """While it exists, nothing more can be reserved in its scope, whatever the limits; what is held stays.

    Scope: all projects of `organization`, or only `project`, or only the holder `holder_id`. `source` names who set
    it, and only they can remove it; `reason` is the complete refusal.
    """

    source = models.CharField(max_length=80, unique=True)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="holds")
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, related_name="holds", null=True, blank=True
    )
    holder_id = models.UUIDField(null=True, blank=True)
    reason = models.CharField(max_length=500)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(holder_id__isnull=True) | Q(project__isnull=False),
                name="hold_of_holder_has_project",
            )
        ]

    def __str__(self) -> str:
        return f"hold by {self.source}"


class PoolReservation(Identified):
    """A GPU pool that is reserved for the organization of `project` over [valid_from, valid_to), whole seconds.

    Others get nothing more of it as soon as this exists (pools.py). Its idle GPUs are usage of `project`, counted as
    `flavor`: one of the pool in the class reserved. Periods of a pool do not overlap (migration
    `history_and_reservations`).
    """

    pool = models.ForeignKey(GpuPool, on_delete=models.PROTECT, related_name="reservations")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="pool_reservations")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="+")
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, blank=True)
    note = models.CharField(max_length=300, blank=True)
    version = models.PositiveBigIntegerField(default=1, db_default=1)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-valid_from"]
        constraints = [
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")),
                name="pool_reserved_ends_after",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool} for {self.project}"
