"""Usage: who held what, when, to the second."""

import uuid
from datetime import datetime

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Instant, Output, PageQuery, Text
from gpuaas.api.schema import operation, page_of
from gpuaas.api.views import ProjectView
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import clusters_for
from gpuaas.core.errors import NotFound
from gpuaas.metering.models import EndedBy, Meter
from gpuaas.metering.selectors import UsageFilters, intervals_for, usage_by_project
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspaces_for
from tenants.models import Project
from tenants.roles import Permission

TAG = "usage"
SWITCH = {"true": True, "false": False}


class UsageQuery(PageQuery):
    workspace = serializers.UUIDField(required=False)
    cluster = serializers.UUIDField(required=False)
    meter = serializers.ChoiceField(choices=Meter.choices, required=False)
    starts_at = Instant(required=False, help_text="Only intervals that end after this.")
    ends_at = Instant(required=False, help_text="Only intervals that start before this.")
    open_only = serializers.ChoiceField(
        choices=["true", "false"], required=False, help_text="Only what is held at this moment."
    )
    consumer = Text(max_length=253, required=False, help_text="Name of a pod or machine.")
    owner = Text(max_length=320, required=False, help_text="What made it: `Job/train`, `Deployment/serve`.")
    node = Text(max_length=253, required=False)
    surplus = serializers.ChoiceField(
        choices=["true", "false"],
        required=False,
        help_text="Held beyond what was bought, until it was removed.",
    )


class UsageTotalsQuery(Input):
    starts_at = Instant()
    ends_at = Instant()


class UsageIntervalOutput(Output):
    id = serializers.UUIDField()
    workspace_id = serializers.UUIDField(allow_null=True, help_text="null where a cluster held it.")
    workspace = serializers.CharField(source="workspace.name", default=None, allow_null=True)
    cluster_id = serializers.UUIDField(allow_null=True, help_text="null where a workspace held it.")
    cluster = serializers.CharField(source="cluster.name", default=None, allow_null=True)
    site = serializers.CharField(source="site.slug")
    flavor = serializers.CharField(
        source="flavor.slug", default=None, allow_null=True, help_text="null for a GPU type that is not sold."
    )
    consumer_uid = serializers.CharField()
    consumer_name = serializers.CharField()
    node = serializers.CharField(allow_blank=True)
    owner = serializers.CharField(
        allow_blank=True, help_text="What made it; blank where nothing but a person did."
    )
    meter = serializers.ChoiceField(choices=Meter.choices)
    resource_name = serializers.CharField()
    quantity = serializers.IntegerField(help_text="Devices, cores or GiB.")
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="null while it is held.")
    ended_by = serializers.ChoiceField(choices=[*EndedBy.choices, ("", "still open")])
    surplus = serializers.BooleanField(
        help_text="Held beyond what was bought, until it was removed: counted and priced like the rest."
    )


class UsageSumOutput(Output):
    meter = serializers.ChoiceField(choices=Meter.choices)
    flavor = serializers.CharField(allow_null=True)
    unit_seconds = serializers.IntegerField()
    surplus_unit_seconds = serializers.IntegerField(
        help_text="The part that was held beyond what was bought."
    )


class UsageTotalsOutput(Output):
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    totals = UsageSumOutput(many=True)


class UsageView(ProjectView):
    @operation(
        "usage_list", "Usage intervals", tag=TAG, answer=page_of(UsageIntervalOutput), query=UsageQuery
    )
    def get(self, request: Request, project: str) -> Response:
        """Whole seconds, UTC, [started_at, ended_at); newest first."""
        del request, project
        found = self.project(Permission.WORKSPACE_VIEW)
        meter = self.params.get("meter")
        filters = UsageFilters(
            project=found,
            workspace=self._workspace(found),
            cluster=self._cluster(found),
            meter=Meter(meter) if meter else None,
            starts_at=self.params.get("starts_at"),
            ends_at=self.params.get("ends_at"),
            open_only=self.params.get("open_only") == "true",
            surplus=SWITCH.get(self.params.get("surplus", "")),
            **{name: self.params[name] for name in ("consumer", "owner", "node") if name in self.params},
        )
        return self.page(intervals_for(actor=self.actor, filters=filters), UsageIntervalOutput, key="-pk")

    def _workspace(self, project: Project) -> Workspace | None:
        key: uuid.UUID | None = self.params.get("workspace")
        if key is None:
            return None
        found = workspaces_for(actor=self.actor, project=project).filter(pk=key).first()
        if found is None:
            raise NotFound("there is no such workspace")
        return found

    def _cluster(self, project: Project) -> Cluster | None:
        key: uuid.UUID | None = self.params.get("cluster")
        if key is None:
            return None
        found = clusters_for(actor=self.actor, project=project).filter(pk=key).first()
        if found is None:
            raise NotFound("there is no such cluster")
        return found


class UsageTotalsView(ProjectView):
    @operation("usage_totals", "Usage totals", tag=TAG, answer=UsageTotalsOutput, query=UsageTotalsQuery)
    def get(self, request: Request, project: str) -> Response:
        """Unit-seconds in [starts_at, ends_at) by meter and flavor; what is still held counts until now."""
        del request, project
        starts_at: datetime = self.params["starts_at"]
        ends_at: datetime = self.params["ends_at"]
        found = self.project(Permission.WORKSPACE_VIEW)
        sums = usage_by_project(actor=self.actor, starts_at=starts_at, ends_at=ends_at, project=found)
        totals = {"starts_at": starts_at, "ends_at": ends_at, "totals": sums}
        return Response(UsageTotalsOutput(totals).data)
