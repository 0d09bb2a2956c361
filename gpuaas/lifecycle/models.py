"""The common columns of workspaces and clusters."""

import uuid
from typing import Any

from django.db import models
from django.db.models import Q

from gpuaas.core.claims import Claimable
from gpuaas.core.rows import Identified


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


def name_once(name: str) -> models.UniqueConstraint:
    """A project has one of a name; that of a deleted one is free again."""
    return models.UniqueConstraint(fields=["project", "name"], condition=~Q(state="deleted"), name=name)
