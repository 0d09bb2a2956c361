"""Limits: what a project may hold, and operators setting it."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import Input, Output, PageQuery, Whole
from gpuaas.api.schema import operation, page_of
from gpuaas.api.views import ApiView, ProjectView
from quotas.models import Limit
from quotas.selectors import LimitLine, limits_for_project, limits_matrix
from quotas.services import MAX_HARD, limit_set
from tenants.roles import Permission
from tenants.selectors import organization_get_for, project_get_for

TAG = "limits"


class LimitLineOutput(Output):
    resource = serializers.CharField(help_text="gpu:<GPU type>, vcpu, memory or storage (GiB).")
    limit = serializers.IntegerField(allow_null=True, help_text="null = unlimited; no line = zero.")
    used = serializers.IntegerField()
    left = serializers.IntegerField(allow_null=True, help_text="What may still be asked, by both limits.")
    organization_limit = serializers.IntegerField(allow_null=True)
    organization_used = serializers.IntegerField()
    version = serializers.IntegerField()


class LimitInput(Input):
    hard = Whole(max_value=MAX_HARD, allow_null=True, help_text="null = unlimited.")


class LimitOutput(Output):
    resource = serializers.CharField()
    hard = serializers.IntegerField(allow_null=True)
    used = serializers.IntegerField()
    version = serializers.IntegerField()


class CellOutput(Output):
    limit = serializers.IntegerField(allow_null=True)
    used = serializers.IntegerField()
    version = serializers.IntegerField(help_text="0 = no limit was ever set, which counts as zero.")


class MatrixRowOutput(Output):
    organization = serializers.CharField(source="organization.slug")
    project = serializers.CharField(
        source="project.slug", default=None, allow_null=True, help_text="null for the organization itself."
    )
    limits = serializers.DictField(child=CellOutput(), source="cells", help_text="By resource.")


class MatrixOutput(Output):
    resources = serializers.ListField(child=serializers.CharField())
    rows = MatrixRowOutput(many=True)


class ProjectLimitsView(ProjectView):
    @operation("limit_list", "Limits of a project", tag=TAG, answer=page_of(LimitLineOutput), query=PageQuery)
    def get(self, request: Request, project: str) -> Response:
        """One line per resource with the organization's limit beside it; a resource without a line is zero."""
        del request, project
        lines: list[LimitLine] = limits_for_project(project=self.project())
        return self.page(lines, LimitLineOutput, key="resource")


def limit_answer(limit: Limit) -> Response:
    return Response(LimitOutput(limit).data, headers={"ETag": etag(limit.version)})


class PlatformLimitsView(ApiView):
    @operation("platform_limit_matrix", "Limits matrix", tag="platform", answer=MatrixOutput)
    def get(self, request: Request) -> Response:
        """All organizations and projects × all resources."""
        del request
        return Response(MatrixOutput(limits_matrix(actor=self.actor)).data)


class PlatformProjectLimitView(ApiView):
    @operation(
        "platform_project_limit_set",
        "Set a project's limit",
        tag="platform",
        body=LimitInput,
        answer=LimitOutput,
        versioned=True,
    )
    def put(self, request: Request, project: str, resource: str) -> Response:
        """Below what is used it evicts nobody and refuses new requests. `If-Match: "0"` = only where none was set."""
        found = project_get_for(actor=self.actor, slug=project, permission=Permission.PROJECT_VIEW)
        limit = limit_set(
            actor=self.actor,
            project=found,
            resource=resource,
            hard=self.input(LimitInput)["hard"],
            expected_version=wanted_version(request),
        )
        return limit_answer(limit)


class PlatformOrganizationLimitView(ApiView):
    @operation(
        "platform_organization_limit_set",
        "Set an organization's limit",
        tag="platform",
        body=LimitInput,
        answer=LimitOutput,
        versioned=True,
    )
    def put(self, request: Request, organization: str, resource: str) -> Response:
        """All projects of the organization together hold no more than this."""
        found = organization_get_for(actor=self.actor, slug=organization)
        limit = limit_set(
            actor=self.actor,
            organization=found,
            resource=resource,
            hard=self.input(LimitInput)["hard"],
            expected_version=wanted_version(request),
        )
        return limit_answer(limit)
