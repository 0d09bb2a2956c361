"""Clusters that are kept ready for matching orders."""

from django.db import models

from gpuaas.clusters.models.templates import ClusterTemplate
from gpuaas.core.claims import Claimable
from gpuaas.core.rows import Identified
from tenants.models import Project, User


class WarmPool(Identified, Claimable):
    """A number of clusters of one choice (`document`) of a template's newest version are ready in `project`, which
    holds and pays for them until they are claimed.

    wanted: ready ones; making_most: how many are made at a time. trouble: why fewer are ready, as a sentence.
    ended_at: the pool was removed; the row stays, as its clusters do.
    """

    template = models.ForeignKey(ClusterTemplate, on_delete=models.PROTECT, related_name="warm_pools")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="warm_pools")
    name = models.CharField(max_length=40)
    document = models.JSONField()
    wanted = models.PositiveIntegerField()
    making_most = models.PositiveIntegerField()
    trouble = models.CharField(max_length=500, blank=True)
    version = models.PositiveBigIntegerField(default=1)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["template", "name"],
                condition=models.Q(ended_at__isnull=True),
                name="warm_pool_name_once",
            ),
            models.CheckConstraint(
                condition=models.Q(making_most__gte=1), name="warm_pool_makes_one_at_least"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.template}"
