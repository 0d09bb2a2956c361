"""The common columns of workspaces and clusters, and of what runs inside a workspace."""

import uuid
from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from gpuaas.catalog.models import GpuPool
from gpuaas.core.claims import Claimable
from gpuaas.core.ids import short
from gpuaas.core.rows import Identified
from tenants.models import User


class Provisioned(Identified, Claimable):
    """What a reconciler maintains at a site for a tenant, as long as its lease runs; the concrete model adds `state`,
    `project` and `site`.

    observed: what the site last reported. deleted_after: while its lease is over, the end of the grace period that began
    when it slept; enforce_at: not before then the portal tries again what was refused to it (lifecycle/enforce.py).
    """

    state: "models.CharField[Any, str]"
    project: "models.ForeignKey[Any, Any]"
    project_id: uuid.UUID
    site: "models.ForeignKey[Any, Any]"
    lease_ends_at = models.DateTimeField()
    created_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True, blank=True)
    suspended_at = models.DateTimeField(null=True, blank=True)
    deleted_after = models.DateTimeField(null=True, blank=True, editable=False)
    enforce_at = models.DateTimeField(null=True, blank=True, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True)
    conditions = models.JSONField(default=dict, blank=True)
    observed = models.JSONField(default=dict, blank=True)
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        abstract = True
        ordering = ["-pk"]


class Inside(Provisioned):
    """What runs inside what a workspace bought, and ends with it; the concrete model adds `workspace`, whose project and site
    are its own.

    pool: of its GPUs, null without any. failure: why it failed, in a sentence. prefix: of its names at the site. asks: for what
    of its workspace, by the fields of an order.
    """

    prefix: ClassVar[str]
    asks: ClassVar[tuple[str, ...]] = ("gpus", "vcpus", "memory_gib")
    workspace: "models.ForeignKey[Any, Any]"
    workspace_id: uuid.UUID
    operations: Any
    name = models.CharField(max_length=40)
    pool = models.ForeignKey(GpuPool, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    gpus = models.PositiveIntegerField(default=0)
    vcpus = models.PositiveIntegerField()
    memory_gib = models.PositiveIntegerField()
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    failure = models.CharField(max_length=500, blank=True)
    # what a lease of its own would need
    deleted_after = enforce_at = None

    class Meta(Provisioned.Meta):
        abstract = True

    def __str__(self) -> str:
        return self.name

    @property
    def lease_ends_at(self) -> datetime:  # type: ignore[override]
        """It has no lease of its own."""
        ends_at: datetime = self.workspace.lease_ends_at
        return ends_at

    @property
    def sizes(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.asks}

    @property
    def has_gpus(self) -> bool:
        """Whether any part of it asks for some."""
        return self.gpus > 0

    @property
    def external_name(self) -> str:
        """Of its objects at the site, made only from our id and name, so that a lost answer is found again."""
        return f"{self.prefix}-{short(self.id)}-{self.name}"

    @property
    def resource_name(self) -> str:
        """By which its site counts its GPUs; "" without any."""
        return self.pool.resource_name if self.pool is not None and self.has_gpus else ""


def name_once(name: str) -> models.UniqueConstraint:
    """A project has one of a name; that of a deleted one is free again."""
    return models.UniqueConstraint(fields=["project", "name"], condition=~Q(state="deleted"), name=name)
