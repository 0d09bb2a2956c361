"""Workspaces, their operations, and their timeline."""

from django.db import models
from django.db.models import Q

from gpuaas.catalog.models import Flavor, Site, StorageClass
from gpuaas.core.claims import Claimable
from gpuaas.core.ids import short
from gpuaas.core.rows import Identified
from gpuaas.core.statemachine import TransitionRow
from gpuaas.lifecycle.grants import GrantStanding, standing
from gpuaas.lifecycle.holdings import HoldingRow, ends_after
from gpuaas.lifecycle.models import Provisioned, name_once
from gpuaas.lifecycle.operations import OperationRow, StepRow, open_once
from gpuaas.providers.base import Placement
from gpuaas.workspaces.machines.models import Machine, MachineLook, MachineTransition, PublicKey
from gpuaas.workspaces.states import (
    AccessRole,
    AdoptionState,
    DriftState,
    OperationKind,
    WorkspaceState,
)
from tenants.models import Project, User

__all__ = ["Machine", "MachineLook", "MachineTransition", "PublicKey"]  # found by Django here

PLACEMENTS = [(place.value, place.name) for place in Placement if place]

PREFIX_LENGTH = len("gpu-00000000-")  # of a name at a site, before the name that the tenant gave


class Workspace(Provisioned):
    """A tenant's slice of a site: flavors × counts, storage, members, lease. observed: hard, used, consumers, at.

    storage_gib is plain storage; what is bought of a storage class by name are its `storage` rows. notice_seconds: that of its
    flavors, all of which are lent; 0: none is, which never changes. open_to_project: jobs of the project's other workspaces may run
    in it while there is room.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="workspaces")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="workspaces")
    name = models.CharField(max_length=40)
    state = models.CharField(max_length=16, choices=WorkspaceState, default=WorkspaceState.REQUESTED)
    storage_gib = models.PositiveIntegerField(default=0)
    notice_seconds = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    open_to_project = models.BooleanField(default=False, db_default=False)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    # of a namespace or project that was there before the portal; "" = named by us
    adopted_name = models.CharField(max_length=63, blank=True, editable=False)
    placement = models.CharField(max_length=16, choices=PLACEMENTS, blank=True)
    failure = models.CharField(max_length=500, blank=True)
    # digest of the WorkspaceSpec that the site last confirmed as a whole; another digest = the site must be ensured
    ensured_digest = models.CharField(max_length=64, blank=True, editable=False)
    # when the site is compared field by field again; null = with the next look
    drift_due_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta(Provisioned.Meta):
        constraints = [
            name_once("workspace_name_once_per_project"),
            models.UniqueConstraint(
                fields=["site", "adopted_name"],
                condition=~Q(state="deleted") & ~Q(adopted_name=""),
                name="workspace_adopted_once",
            ),
            models.CheckConstraint(
                condition=Q(state__in=WorkspaceState.values), name="workspace_state_known"
            ),
        ]
        indexes = [models.Index(fields=["project", "-id"], name="workspace_project_idx")]

    def __str__(self) -> str:
        return self.name

    @property
    def is_spot(self) -> bool:
        """It borrows its GPUs: what runs in it is charged, nothing that it holds, and ends once a buyer needs them."""
        return self.notice_seconds > 0

    @property
    def external_name(self) -> str:
        """The name at the site, made only from our id (plus the readable name), so that a lost answer is found
        again."""
        return self.adopted_name or f"gpu-{short(self.id)}-{self.name}"


class WorkspaceFlavor(models.Model):
    """How many of a flavor are wanted, and how many the site has confirmed."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="flavors")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="+")
    count = models.PositiveIntegerField()
    confirmed = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["workspace", "flavor"], name="workspace_flavor_once")]

    def __str__(self) -> str:
        return f"{self.count} × {self.flavor}"


class WorkspaceStorage(models.Model):
    """How many GiB of a storage class are wanted, and how many the site has confirmed."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="storage")
    storage_class = models.ForeignKey(StorageClass, on_delete=models.PROTECT, related_name="+")
    gib = models.PositiveIntegerField()
    confirmed = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["workspace", "storage_class"], name="workspace_storage_once")
        ]

    def __str__(self) -> str:
        return f"{self.gib} GiB of {self.storage_class}"


class WorkspaceMember(models.Model):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="workspace_memberships")
    role = models.CharField(max_length=16, choices=AccessRole)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["workspace", "user"], name="workspace_member_once")]

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"


class Robot(Identified):
    """A service account of a workspace, for CI and other automation; its credentials are issued like a member's.

    A deleted one stays in the table, so that its credentials can still be listed; its name can be used again.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="robots")
    name = models.CharField(max_length=40)
    role = models.CharField(max_length=16, choices=AccessRole)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"],
                condition=Q(deleted_at__isnull=True),
                name="robot_name_once",
            ),
            models.CheckConstraint(condition=Q(role__in=AccessRole.values), name="robot_role_known"),
        ]

    def __str__(self) -> str:
        return self.name


class AccessGrant(Identified):
    """An issued credential: to whom, for how long, and whether it was ended early. Never the credential itself.

    revoke_due_at: an end was requested and the site has not confirmed it yet; when it is asked (again).
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="grants")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    robot = models.ForeignKey(Robot, on_delete=models.CASCADE, null=True, blank=True, related_name="grants")
    issued_by = models.CharField(max_length=150)
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoke_due_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=True) ^ Q(robot__isnull=True), name="grant_to_a_person_or_a_robot"
            )
        ]
        indexes = [
            models.Index(
                fields=["revoke_due_at"],
                condition=Q(revoke_due_at__isnull=False),
                name="grant_revocation_due_idx",
            )
        ]

    def __str__(self) -> str:
        return f"access of {self.user or self.robot}"

    @property
    def standing(self) -> GrantStanding:
        ending = self.revoke_due_at is not None
        return standing(revoked_at=self.revoked_at, expires_at=self.expires_at, ending=ending)


class Drift(Identified):
    """A difference between the site and the specification: who made it, and what became of it."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="drifts")
    found_at = models.DateTimeField()
    # Differences: object, path, wanted, found, changed_by
    differences = models.JSONField(default=list)
    digest = models.CharField(max_length=64, editable=False)
    state = models.CharField(max_length=16, choices=DriftState, default=DriftState.OPEN)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(state="open"), name="drift_one_open_per_workspace"
            )
        ]

    def __str__(self) -> str:
        return f"drift of {self.workspace}"


class SiteWatch(models.Model):
    """The state of the watch for changes at a site: where it resumes, and until when it was proved alive."""

    site = models.OneToOneField(Site, on_delete=models.CASCADE, primary_key=True, related_name="watch")
    cursor = models.TextField(blank=True)
    proof_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"watch of {self.site}"


class Eviction(Identified):
    """A consumer that was removed because the workspace held more than it bought (a quota that was exceeded)."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="evictions")
    consumer_uid = models.CharField(max_length=80)
    consumer_name = models.CharField(max_length=253)
    resource_name = models.CharField(max_length=150)
    quantity = models.PositiveIntegerField()
    limit = models.PositiveIntegerField()  # what the workspace may hold of it
    held = models.PositiveIntegerField()  # what it held at that moment, this one included
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "consumer_uid", "resource_name"], name="eviction_once_per_consumer"
            )
        ]

    def __str__(self) -> str:
        return f"eviction of {self.consumer_name}"


class Holding(HoldingRow):
    """What a workspace held, confirmed by the site: the source of the "held" meters. One open row per workspace ×
    meter × flavor; a resize ends it and starts the next in the same second."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="holdings")

    class Meta(HoldingRow.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "meter", "flavor"],
                condition=Q(ended_at__isnull=True),
                nulls_distinct=False,
                name="holding_open_once",
            ),
            ends_after("holding_ends_after"),
        ]
        indexes = [models.Index(fields=["ended_at"], name="holding_ended_idx")]

    def __str__(self) -> str:
        return f"{self.quantity} {self.meter} of {self.workspace}"


class StorageHolding(HoldingRow):
    """The same of a storage class, beside plain storage; the meter is always that of storage."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="storage_holdings")
    storage_class = models.ForeignKey(StorageClass, on_delete=models.PROTECT, related_name="+")

    class Meta(HoldingRow.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "storage_class"],
                condition=Q(ended_at__isnull=True),
                name="storage_holding_open_once",
            ),
            ends_after("storage_holding_ends_after"),
        ]
        indexes = [models.Index(fields=["ended_at"], name="storage_holding_ended_idx")]

    def __str__(self) -> str:
        return f"{self.quantity} GiB of {self.storage_class}"


class WorkspaceTransition(TransitionRow):
    subject = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="transitions")


class Operation(OperationRow):
    """One operation on a workspace, with its steps: what the tenant watches live."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="operations")
    kind = models.CharField(max_length=16, choices=OperationKind)
    # digest of the spec that every step so far worked from; "mixed" where it changed between steps
    spec_digest = models.CharField(max_length=64, blank=True, editable=False)

    class Meta(OperationRow.Meta):
        constraints = [open_once("workspace", "operation_one_open_per_workspace")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.workspace}"


class Step(StepRow):
    """A step of an operation on a workspace."""

    operation = models.ForeignKey(Operation, on_delete=models.CASCADE, related_name="steps")

    class Meta(StepRow.Meta):
        constraints = [models.UniqueConstraint(fields=["operation", "key"], name="step_once_per_operation")]


class AdoptionScan(Claimable):
    """What exists at a site, is not a workspace, and could be adopted; due while a scan is requested.

    found: ForeignWorkspaces as JSON, as they were at taken_at.
    """

    site = models.OneToOneField(
        Site, on_delete=models.CASCADE, primary_key=True, related_name="adoption_scan"
    )
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True, blank=True)
    failure = models.CharField(max_length=500, blank=True)
    found = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"what can be adopted at {self.site}"


class Adoption(Identified, Claimable):
    """The plan of adopting one namespace or project of a site, and its result. The workspace gets its id.

    items: count by flavor; members: role by username; steps: AdoptionSteps as JSON. digest covers all that would be
    done: a plan with another digest is another plan.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="adoptions")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    workspace = models.OneToOneField(
        Workspace, on_delete=models.CASCADE, null=True, blank=True, related_name="adoption"
    )
    external_name = models.CharField(max_length=63)
    name = models.CharField(max_length=40)
    items = models.JSONField(default=dict)
    storage_gib = models.PositiveIntegerField(default=0)
    members = models.JSONField(default=dict)
    lease_ends_at = models.DateTimeField(null=True, blank=True)
    state = models.CharField(max_length=16, choices=AdoptionState, default=AdoptionState.PLANNING)
    steps = models.JSONField(default=list)
    digest = models.CharField(max_length=64, blank=True, editable=False)
    failure = models.CharField(max_length=500, blank=True)
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    requested_at = models.DateTimeField()
    planned_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    adopted_at = models.DateTimeField(null=True, blank=True)  # from when on it is metered
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=AdoptionState.values), name="adoption_state_known")
        ]

    def __str__(self) -> str:
        return f"adoption of {self.external_name}"


class AdoptionTransition(TransitionRow):
    subject = models.ForeignKey(Adoption, on_delete=models.CASCADE, related_name="transitions")
