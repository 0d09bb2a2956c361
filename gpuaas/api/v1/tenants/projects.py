"""Projects: listing, creating and renaming."""

from django.db import transaction
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import answer, etag, hold_version
from gpuaas.api.fields import Input, Output, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.views import ApiView, ProjectView
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import organization_get_for, projects_for
from tenants.services import project_create, project_update


class ProjectInput(Input):
    slug = Text(max_length=40, help_text="Unique on the platform; people type it.")
    name = Text(max_length=100)


class ProjectPatchInput(Input):
    name = Text(max_length=100)


class ProjectOutput(Output):
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    organization = serializers.CharField(source="organization.slug")
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class ProjectsView(ApiView):
    @operation("project_list", "List projects", rows=ProjectOutput)
    def get(self, request: Request) -> Response:
        """Lists every project that the caller may see, sorted by slug. A token sees its own project."""
        return self.page(projects_for(actor=self.actor), ProjectOutput, key="slug")


class ProjectDetailView(ProjectView):
    @operation("project_get", "Get a project", answer=ProjectOutput)
    def get(self, request: Request, project: str) -> Response:
        """Returns its name, organization and version. Send the ETag as If-Match with a change."""
        found = self.project()
        return answer(request, version=found.version, data=ProjectOutput(found).data)

    @operation(
        "project_change", "Rename a project", body=ProjectPatchInput, answer=ProjectOutput, versioned=True
    )
    def patch(self, request: Request, project: str) -> Response:
        """The slug stays, because people and scripts use it."""
        found = self.project(Permission.PROJECT_MANAGE)
        asked = self.input(ProjectPatchInput)
        with transaction.atomic():
            hold_version(request, found)
            changed = project_update(actor=self.actor, project=found, name=asked["name"])
        return Response(ProjectOutput(changed).data, headers={"ETag": etag(changed.version)})


class OrganizationProjectsView(ApiView):
    @operation("organization_project_list", "List projects of an organization", rows=ProjectOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Lists the projects of the organization that you may see, sorted by slug."""
        found = organization_get_for(actor=self.actor, slug=organization)
        rows = projects_for(actor=self.actor).filter(organization=found)
        return self.page(rows, ProjectOutput, key="slug")

    @operation("project_create", "Create a project", body=ProjectInput, created=ProjectOutput)
    @idempotent
    def post(self, request: Request, organization: str) -> Response:
        """All its limits are zero until an operator sets them."""
        found = organization_get_for(
            actor=self.actor, slug=organization, permission=Permission.ORGANIZATION_MANAGE
        )
        asked = self.input(ProjectInput)
        made: Project = project_create(actor=self.actor, organization=found, **asked)
        where = reverse("api:project", kwargs={"project": made.slug})
        headers = {"Location": where, "ETag": etag(made.version)}
        return Response(ProjectOutput(made).data, status=201, headers=headers)
