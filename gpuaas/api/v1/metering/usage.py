"""Usage: who held what and when, to the second."""

import uuid
from datetime import datetime

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Instant, Output, PageQuery, Text
from gpuaas.api.schema import operation
from gpuaas.api.views import ProjectView
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import clusters_for
from gpuaas.core.rows import first_of
from gpuaas.metering.models import EndedBy, Meter, UsageInterval
from gpuaas.metering.selectors import UsageFilters, intervals_for, usage_by_project
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspaces_for
from tenants.models import Project
from tenants.roles import Permission

SWITCH = {"true": True, "false": False}


class UsageQuery(PageQuery):
    workspace = serializers.UUIDField(required=False)
    cluster = serializers.UUIDField(required=False)
    meter = serializers.ChoiceField(choices=Meter.choices, required=False)
    starts_at = Instant(required=False, help_text="Only intervals that end after this.")
    ends_at = Instant(required=False, help_text="Only intervals that start before this.")
    open_only = serializers.ChoiceField(
        choices=["true", "false"], required=False, help_text="Only what is held now."
    )
    consumer = Text(max_length=253, required=False, help_text="Name of a pod or machine.")
    owner = Text(
        max_length=320, required=False, help_text="Its owner, such as `Job/train` or `Deployment/serve`."
    )
    node = Text(max_length=253, required=False)
    surplus = serializers.ChoiceField(
        choices=["true", "false"],
        required=False,
        help_text="true: held beyond what was bought, until it was removed.",
    )


class UsageTotalsQuery(Input):
    starts_at = Instant()
    ends_at = Instant()


class UsageIntervalOutput(Output):
    id = serializers.UUIDField()
    workspace_id = serializers.UUIDField(allow_null=True, help_text="null: a cluster held it.")
    workspace = serializers.CharField(source="workspace.name", default=None, allow_null=True)
    cluster_id = serializers.UUIDField(allow_null=True, help_text="null: a workspace held it.")
    cluster = serializers.SerializerMethodField(
        help_text="Its name; of one that waited in a warm pool the name that it had there. null: a workspace held it."
    )
    site = serializers.CharField(source="site.slug")
    flavor = serializers.CharField(
        source="flavor.slug", default=None, allow_null=True, help_text="null: the GPU type is not sold."
    )
    consumer_uid = serializers.CharField()
    consumer_name = serializers.CharField()
    node = serializers.CharField(allow_blank=True)
    owner = serializers.CharField(
        allow_blank=True, help_text="The object that created it; blank: a person did."
    )
    meter = serializers.ChoiceField(choices=Meter.choices)
    resource_name = serializers.CharField()
    quantity = serializers.IntegerField(
        source="counted",
        help_text="Devices, cores or GiB. Of the tokens of a day, which are one second at its beginning: 3600 for each million, "
        "and 0 of a day that has no unit of its own, which begins and ends in the same moment.",
    )
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="null: still held.")
    ended_by = serializers.ChoiceField(choices=[*EndedBy.choices, ("", "still open")])
    surplus = serializers.BooleanField(
        help_text=(
            "true: held beyond what was bought, until it was removed; counted and priced like all other "
            "usage."
        )
    )

    def get_cluster(self, row: UsageInterval) -> str | None:
        return row.holder_name if row.cluster_id else None


class UsageSumOutput(Output):
    meter = serializers.ChoiceField(choices=Meter.choices)
    flavor = serializers.CharField(allow_null=True)
    unit_seconds = serializers.IntegerField(help_text="Of tokens, 3600 for each million.")
    surplus_unit_seconds = serializers.IntegerField(
        help_text="The part that was held beyond what was bought."
    )


class UsageTotalsOutput(Output):
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    totals = UsageSumOutput(many=True)


class UsageView(ProjectView):
    @operation("usage_list", "List usage intervals", rows=UsageIntervalOutput, query=UsageQuery)
    def get(self, request: Request, project: str) -> Response:
        """Whole seconds, UTC, [started_at, ended_at). Newest first. 409 for a time whose intervals are archived; without a
        time they are left out."""
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
        return first_of(workspaces_for(actor=self.actor, project=project).filter(pk=key), "workspace")

    def _cluster(self, project: Project) -> Cluster | None:
        key: uuid.UUID | None = self.params.get("cluster")
        if key is None:
            return None
        return first_of(clusters_for(actor=self.actor, project=project).filter(pk=key), "cluster")


class UsageTotalsView(ProjectView):
    @operation("usage_totals", "Get usage totals", answer=UsageTotalsOutput, query=UsageTotalsQuery)
    def get(self, request: Request, project: str) -> Response:
        """Returns unit-seconds in [starts_at, ends_at) by meter and flavor. What is still held counts until now. 409 for a
        time whose intervals are archived: the costs of its months have the same seconds."""
        starts_at: datetime = self.params["starts_at"]
        ends_at: datetime = self.params["ends_at"]
        found = self.project(Permission.WORKSPACE_VIEW)
        sums = usage_by_project(actor=self.actor, starts_at=starts_at, ends_at=ends_at, project=found)
        totals = {"starts_at": starts_at, "ends_at": ends_at, "totals": sums}
        return Response(UsageTotalsOutput(totals).data)
