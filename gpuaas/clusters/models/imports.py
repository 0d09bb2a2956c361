"""Parameters imported from sites, until they become a version of a template or are dropped."""

from django.db import models

from gpuaas.clusters.models.templates import ClusterTemplate, TemplateVersion
from gpuaas.core.claims import Claimable


class ParametersImport(Claimable):
    """The last request for the parameters of a template's site; due while there is no answer.

    base: the version whose settings were sent; only its parameters can be replaced by the answer. parameters: the
    schema as it was at read_at; null without an answer. published: the version that was made from it.
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
