"""Drift: what somebody changed at the site behind the portal's back, and what became of it."""

import uuid

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Output, PageQuery
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.workspace_shapes import WorkspaceOutput
from gpuaas.api.v1.workspaces import WorkspaceView
from gpuaas.api.views import ApiView
from gpuaas.catalog.selectors import site_get_for
from gpuaas.workspaces import services
from gpuaas.workspaces.selectors import drift_get_for, drifts_at, drifts_of
from gpuaas.workspaces.states import DriftState
from tenants.roles import Permission
from tenants.selectors import platform_require

TAG = "drift"


class DriftQuery(PageQuery):
    state = serializers.ChoiceField(choices=DriftState.choices, required=False)


class DifferenceOutput(Output):
    object = serializers.CharField(help_text='What it is in, such as "ResourceQuota/gpuaas".')
    path = serializers.CharField(allow_blank=True, help_text="The field; empty for the whole object.")
    wanted = serializers.CharField(allow_blank=True, help_text="Empty: nothing should be there.")
    found = serializers.CharField(allow_blank=True, help_text="Empty: it is not there.")
    changed_by = serializers.CharField(
        allow_blank=True, help_text="Who took the field last; empty where the site cannot say."
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
        allow_blank=True, help_text="Who set it right, or is about to; empty where nobody did."
    )


class SiteDriftCheckOutput(Output):
    workspaces = serializers.IntegerField(help_text="How many are compared, ten a second.")


class WorkspaceDriftsView(WorkspaceView):
    @operation(
        "workspace_drifts", "Drift of a workspace", tag=TAG, answer=page_of(DriftOutput), query=PageQuery
    )
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """What differed at the site from what the portal had set, newest first."""
        del request, project, workspace
        return self.page(drifts_of(workspace=self.workspace()), DriftOutput, key="-pk")


class WorkspaceDriftCheckView(WorkspaceView):
    @operation(
        "workspace_drift_check", "Compare with the site now", tag=TAG, answer=WorkspaceOutput, status=202
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Field by field, within seconds; the outcome is its condition `InSync` and its drifts."""
        del request, project, workspace
        found = self.workspace(Permission.WORKSPACE_CREATE)
        return self.accepted(services.drift_check_request(actor=self.actor, workspace=found))


class SiteDriftsView(ApiView):
    @operation(
        "platform_site_drifts", "Drift at a site", tag=TAG, answer=page_of(DriftOutput), query=DriftQuery
    )
    def get(self, request: Request, site: str) -> Response:
        """Of all its workspaces, newest first."""
        del request
        platform_require(actor=self.actor)
        found = site_get_for(actor=self.actor, slug=site)
        state = DriftState(self.params["state"]) if "state" in self.params else None
        return self.page(drifts_at(site=found, state=state), DriftOutput, key="-pk")


class SiteDriftCheckView(ApiView):
    @operation(
        "platform_site_drift_check",
        "Compare a whole site now",
        tag=TAG,
        answer=SiteDriftCheckOutput,
        status=202,
    )
    @idempotent
    def post(self, request: Request, site: str) -> Response:
        """Its workspaces, ten a second, and at once what the portal keeps for the whole site."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        found = site_get_for(actor=self.actor, slug=site)
        count = services.site_drift_check_request(actor=self.actor, site=found)
        return Response(SiteDriftCheckOutput({"workspaces": count}).data, status=202)


class DriftRepairView(ApiView):
    @operation("platform_drift_repair", "Set a drift right", tag=TAG, answer=DriftOutput, status=202)
    @idempotent
    def post(self, request: Request, drift: uuid.UUID) -> Response:
        """Where the site only observes drift: an operator decides. 409 for one that is over already."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        found = drift_get_for(actor=self.actor, drift_id=drift)
        services.drift_repair(actor=self.actor, drift=found)
        return Response(DriftOutput(drift_get_for(actor=self.actor, drift_id=drift)).data, status=202)
