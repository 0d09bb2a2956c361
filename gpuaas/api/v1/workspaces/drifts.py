"""Drift: changes at a site that were not made by the portal, and what became of them."""

import uuid

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Output, PageQuery
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.workspaces.shapes import WorkspaceOutput
from gpuaas.api.v1.workspaces.views import WorkspaceView
from gpuaas.api.views import PlatformView, SiteView
from gpuaas.workspaces import services
from gpuaas.workspaces.selectors import drift_get_for, drifts_at, drifts_of
from gpuaas.workspaces.states import DriftState
from tenants.roles import Permission


class DriftQuery(PageQuery):
    state = serializers.ChoiceField(choices=DriftState.choices, required=False)


class DifferenceOutput(Output):
    object = serializers.CharField(help_text='The object, such as "ResourceQuota/gpuaas".')
    path = serializers.CharField(allow_blank=True, help_text="The field; empty for the object itself.")
    wanted = serializers.CharField(allow_blank=True, help_text="Empty: nothing should be there.")
    found = serializers.CharField(allow_blank=True, help_text="Empty: it does not exist.")
    changed_by = serializers.CharField(
        allow_blank=True, help_text="Who last wrote the field; empty: the site does not report it."
    )


class DriftOutput(Output):
    id = serializers.UUIDField()
    workspace = serializers.UUIDField(source="workspace.pk")
    workspace_name = serializers.CharField(source="workspace.name")
    project = serializers.CharField(source="workspace.project.slug")
    site = serializers.CharField(source="workspace.site.slug")
    state = serializers.ChoiceField(choices=DriftState.choices)
    found_at = serializers.DateTimeField()
    differences = DifferenceOutput(many=True)
    resolved_at = serializers.DateTimeField(allow_null=True)
    resolved_by = serializers.CharField(
        allow_blank=True, help_text="Who repaired it, or is repairing it; empty: nobody."
    )


class SiteDriftCheckOutput(Output):
    workspaces = serializers.IntegerField(help_text="Number of workspaces to compare, ten a second.")


class WorkspaceDriftsView(WorkspaceView):
    @operation("workspace_drifts", "List drift of a workspace", rows=DriftOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Lists differences between the site and the portal's specification, newest first."""
        return self.page(drifts_of(workspace=self.held()), DriftOutput, key="-pk")


class WorkspaceDriftCheckView(WorkspaceView):
    @operation("workspace_drift_check", "Compare a workspace with its site", accepted=WorkspaceOutput)
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Compares every field, within seconds. The result is the condition `InSync` of the workspace, and its
        drifts."""
        found = self.held(Permission.WORKSPACE_CREATE)
        return self.accepted(services.drift_check_request(actor=self.actor, workspace=found))


class SiteDriftsView(SiteView):
    @operation("platform_site_drifts", "List drift at a site", rows=DriftOutput, query=DriftQuery)
    def get(self, request: Request, site: str) -> Response:
        """Lists the drift of all workspaces of the site, newest first."""
        found = self.site()
        state = DriftState(self.params["state"]) if "state" in self.params else None
        return self.page(drifts_at(site=found, state=state), DriftOutput, key="-pk")


class SiteDriftCheckView(SiteView):
    @operation("platform_site_drift_check", "Compare a site with the portal", accepted=SiteDriftCheckOutput)
    @idempotent
    def post(self, request: Request, site: str) -> Response:
        """Compares all its workspaces, ten a second, and at once the objects that the portal manages for the whole
        site."""
        found = self.site()
        count = services.site_drift_check_request(actor=self.actor, site=found)
        return Response(SiteDriftCheckOutput({"workspaces": count}).data, status=202)


class DriftRepairView(PlatformView):
    @operation("platform_drift_repair", "Repair a drift", accepted=DriftOutput)
    @idempotent
    def post(self, request: Request, drift: uuid.UUID) -> Response:
        """For sites that only observe drift: an operator decides. 409 if the drift is already over."""
        found = drift_get_for(actor=self.actor, drift_id=drift)
        services.drift_repair(actor=self.actor, drift=found)
        return Response(DriftOutput(drift_get_for(actor=self.actor, drift_id=drift)).data, status=202)
