"""Clusters that are kept ready for whoever orders one like them."""

from django.db import models

from gpuaas.clusters.models.templates import ClusterTemplate
from gpuaas.core.ids import uuid7
from gpuaas.core.leases import Claimable
from tenants.models import Project, User


class WarmPool(Claimable):
    """So many clusters of one choice (`document`) of a template's newest version wait in `project`, which holds and pays them until
    they are claimed.

    wanted: ready ones; making_most: so many are made at once. trouble: why fewer are ready, in a sentence. ended_at: nothing is
    kept any more; the row stays, as its clusters do.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
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
