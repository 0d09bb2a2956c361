"""Operators: the installed drivers and the credentials and options that each needs."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Output
from gpuaas.api.schema import operation
from gpuaas.api.views import PlatformView
from gpuaas.providers.registry import kinds_known


class DriverOutput(Output):
    name = serializers.CharField(help_text="The value of `driver` of a site or a cluster template.")
    label = serializers.CharField()
    summary = serializers.CharField(help_text="What its sites, or the clusters that it builds, are called.")
    provisions = serializers.ListField(
        child=serializers.ChoiceField(choices=["workspaces", "clusters"]),
        help_text="What it provisions for tenants.",
    )
    attaches = serializers.BooleanField(
        help_text="true: sites are attached with it. false: it builds at sites of other drivers."
    )
    experimental = serializers.CharField(
        allow_blank=True, help_text="Why it should not be relied on yet; empty: it is ready for use."
    )
    credentials = serializers.DictField(help_text="JSON Schema; `writeOnly` marks secrets.")
    options = serializers.DictField(
        allow_null=True,
        help_text="JSON Schema; null: the driver does not declare them, and any object is accepted.",
    )


class PlatformDriversView(PlatformView):
    @operation("platform_driver_list", "List drivers", rows=DriverOutput)
    def get(self, request: Request) -> Response:
        """Lists every installed driver, plug-ins included, with the schema of what an operator enters when attaching
        a site."""
        return self.page(kinds_known(), DriverOutput, key="name")
