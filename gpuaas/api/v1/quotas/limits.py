"""Limits: what a project may hold. Operators set them."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import Input, Output, Whole
from gpuaas.api.schema import operation
from gpuaas.api.views import ApiView, PlatformView, ProjectView
from quotas.matrix import limits_matrix
from quotas.models import Limit
from quotas.selectors import LimitLine, limit_get, limits_for_project
from quotas.services import MAX_HARD, limit_set
from tenants.roles import Permission
from tenants.selectors import organization_get_for, platform_require, project_get_for


class LimitLineOutput(Output):
    resource = serializers.CharField(
        help_text="gpu:<GPU type>, spot:<GPU type> (borrowed), vcpu, memory or storage (GiB)."
    )
    limit = serializers.IntegerField(allow_null=True, help_text="null = unlimited; no line = zero.")
    used = serializers.IntegerField(help_text="Reserved for workspaces and clusters, used or not.")
    left = serializers.IntegerField(
        allow_null=True, help_text="What can still be requested under both limits."
    )
    organization_limit = serializers.IntegerField(allow_null=True)
    organization_used = serializers.IntegerField(help_text="Held in all its projects.")
    version = serializers.IntegerField()


class LimitInput(Input):
    hard = Whole(max_value=MAX_HARD, allow_null=True, help_text="null = unlimited.")


class LimitOutput(Output):
    resource = serializers.CharField()
    hard = serializers.IntegerField(allow_null=True)
    used = serializers.IntegerField(help_text="Held.")
    version = serializers.IntegerField()


class CellOutput(Output):
    limit = serializers.IntegerField(allow_null=True)
    used = serializers.IntegerField(help_text="Held.")
    version = serializers.IntegerField(help_text="0: no limit was ever set, which counts as zero.")


class MatrixRowOutput(Output):
    organization = serializers.CharField(source="organization.slug")
    project = serializers.CharField(
        source="project.slug", default=None, allow_null=True, help_text="null: the organization itself."
    )
    limits = serializers.DictField(child=CellOutput(), source="cells", help_text="By resource.")


class MatrixOutput(Output):
    resources = serializers.ListField(child=serializers.CharField())
    rows = MatrixRowOutput(many=True)


class ProjectLimitsView(ProjectView):
    @operation("limit_list", "List limits of a project", rows=LimitLineOutput)
    def get(self, request: Request, project: str) -> Response:
        """Returns one line per resource, with the limit of the organization beside it. A resource without a line has
        the limit zero."""
        lines: list[LimitLine] = limits_for_project(project=self.project())
        return self.page(lines, LimitLineOutput, key="resource")


def limit_answer(limit: Limit) -> Response:
    return Response(LimitOutput(limit).data, headers={"ETag": etag(limit.version)})


class PlatformLimitsView(PlatformView):
    @operation("platform_limit_matrix", "Get all limits", answer=MatrixOutput)
    def get(self, request: Request) -> Response:
        """Returns all organizations and projects × all resources."""
        return Response(MatrixOutput(limits_matrix(actor=self.actor)).data)


class PlatformProjectLimitView(ApiView):
    @operation("platform_project_limit", "Get a limit of a project", answer=LimitOutput)
    def get(self, request: Request, project: str, resource: str) -> Response:
        """Returns the limit and what is held of it. 404 if none was ever set, which counts as zero. Send the ETag as
        If-Match when you set it."""
        platform_require(actor=self.actor)
        found = project_get_for(actor=self.actor, slug=project, permission=Permission.PROJECT_VIEW)
        return limit_answer(limit_get(resource=resource, project=found))

    @operation(
        "platform_project_limit_set",
        "Set a limit of a project",
        body=LimitInput,
        answer=LimitOutput,
        versioned=True,
    )
    def put(self, request: Request, project: str, resource: str) -> Response:
        """A limit below present use evicts nobody and refuses new requests. `If-Match: "0"` sets it only if none was
        set before."""
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
    @operation("platform_organization_limit", "Get a limit of an organization", answer=LimitOutput)
    def get(self, request: Request, organization: str, resource: str) -> Response:
        """Returns the limit and what all projects hold of it. 404 if none was ever set, which counts as zero."""
        platform_require(actor=self.actor)
        found = organization_get_for(actor=self.actor, slug=organization)
        return limit_answer(limit_get(resource=resource, organization=found))

    @operation(
        "platform_organization_limit_set",
        "Set a limit of an organization",
        body=LimitInput,
        answer=LimitOutput,
        versioned=True,
    )
    def put(self, request: Request, organization: str, resource: str) -> Response:
        """All projects of the organization together cannot hold more than this."""
        found = organization_get_for(actor=self.actor, slug=organization)
        limit = limit_set(
            actor=self.actor,
            organization=found,
            resource=resource,
            hard=self.input(LimitInput)["hard"],
            expected_version=wanted_version(request),
        )
        return limit_answer(limit)
