"""The volumes of a project."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.quotes import prices_of, storage_month
from gpuaas.api.fields import Money, Output
from gpuaas.api.schema import operation
from gpuaas.api.views import ProjectView
from gpuaas.workspaces.volumes import Volume, volumes_for
from tenants.roles import Permission


class VolumeOutput(Output):
    workspace_id = serializers.UUIDField()
    workspace = serializers.CharField()
    site = serializers.CharField()
    name = serializers.CharField(help_text="Of the claim.")
    gib = serializers.IntegerField()
    storage_class = serializers.CharField(
        allow_blank=True, help_text="By the site's name; empty: it names none."
    )
    sold_as = serializers.CharField(
        allow_blank=True, help_text="Short name of the class; empty: plain storage."
    )
    charged = serializers.BooleanField(help_text="false: its workspace did not buy storage of this class.")
    bound = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    observed_at = serializers.DateTimeField(help_text="When the site was last asked.")
    price_per_month = serializers.SerializerMethodField(
        help_text="Of its size, for the current month; null: not charged, no price, or the caller may not see prices."
    )

    def get_price_per_month(self, volume: Volume) -> str | None:
        prices = self.context["prices"]
        if prices is None or not volume.charged:
            return None
        price = storage_month(prices, volume.sold_as, volume.gib)
        return None if price is None else Money().to_representation(price)


class ProjectVolumesView(ProjectView):
    @operation("project_volume_list", "List volumes", rows=VolumeOutput)
    def get(self, request: Request, project: str) -> Response:
        """Lists the claims of storage in all workspaces of the project, as their sites were last observed."""
        found = self.project(Permission.WORKSPACE_VIEW)
        prices = prices_of(found.organization, None, None) if self.sees_prices(found) else None
        rows = volumes_for(actor=self.actor, project=found)
        return self.page(rows, VolumeOutput, key="key", context={"prices": prices})
