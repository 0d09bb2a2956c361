"""What is offered: templates, their versions, and the organizations that may order them."""

from django.db import models
from django.db.models import Q

from gpuaas.catalog.models import Site
from gpuaas.clusters.states import CLUSTER_KINDS, TemplateState
from gpuaas.core.rows import Identified
from tenants.models import Organization


class ClusterTemplate(Identified):
    """A kind of cluster that is offered at one site, built by one driver; the details are in its versions."""

    slug = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=100)
    summary = models.CharField(max_length=300, blank=True)
    kind = models.CharField(max_length=16, choices=CLUSTER_KINDS)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="cluster_templates")
    driver = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=TemplateState, default=TemplateState.DRAFT)
    public = models.BooleanField(default=False)  # for every organization; else for those of `grants`
    version = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=TemplateState.values), name="cluster_template_state_known"
            )
        ]

    def __str__(self) -> str:
        return self.slug


class TemplateGrant(models.Model):
    template = models.ForeignKey(ClusterTemplate, on_delete=models.CASCADE, related_name="grants")
    organization = models.ForeignKey(
        Organization, on_delete=models.CASCADE, related_name="cluster_template_grants"
    )

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["template", "organization"], name="template_grant_once")
        ]

    def __str__(self) -> str:
        return f"{self.template} for {self.organization}"


class TemplateVersion(Identified):
    """The document of a template, as `definition.py` parses it. Never changed (a trigger enforces it): another
    version is added."""

    template = models.ForeignKey(ClusterTemplate, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    document = models.JSONField()
    note = models.CharField(max_length=300, blank=True)
    deprecated_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["template", "number"], name="template_version_once")]

    def __str__(self) -> str:
        return f"{self.template} v{self.number}"
