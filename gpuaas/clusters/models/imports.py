"""What sites have said that may be chosen, until it becomes a version of a template or is dropped."""

from django.db import models

from gpuaas.clusters.models.templates import ClusterTemplate, TemplateVersion
from gpuaas.core.leases import Claimable


class ParametersImport(Claimable):
    """The last time that a template's site was asked for its parameters; due while no answer is there.

    base: the version whose settings were asked with; what was read can replace the parameters of that one only.
    parameters: the schema as it was at read_at; null where there is no answer. published: the version that was made of it.
    """

    template = models.OneToOneField(
        ClusterTemplate, on_delete=models.CASCADE, primary_key=True, related_name="parameters_import"
    )
    base = models.ForeignKey(TemplateVersion, on_delete=models.PROTECT, related_name="+")
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True, blank=True)
    parameters = models.JSONField(null=True, blank=True)
    failure = models.CharField(max_length=500, blank=True)
    published = models.ForeignKey(
        TemplateVersion, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    version = models.PositiveBigIntegerField(default=1)

    def __str__(self) -> str:
        return f"parameters for {self.template}"
