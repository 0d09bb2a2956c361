"""Members of projects and organizations."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Output, PageQuery, Pick
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.shapes import MemberOutput
from gpuaas.api.views import ApiView, ProjectView
from gpuaas.core.errors import NotFound
from tenants.models import Organization
from tenants.roles import OrganizationRole, Permission, ProjectRole
from tenants.selectors import organization_get_for, organization_members, project_members, user_find
from tenants.services import (
    organization_member_remove,
    organization_member_set,
    project_member_remove,
    project_member_set,
)

TAG = "members"
NOBODY = "there is no such member"


class ProjectMemberOutput(Output):
    username = serializers.CharField()
    email = serializers.CharField(allow_blank=True)
    role = serializers.CharField(
        source="project_role", allow_blank=True, help_text="Here; empty where only the organization's holds."
    )
    organization_role = serializers.CharField(
        allow_blank=True, help_text="A role in the organization holds in all its projects."
    )


class ProjectRoleInput(Input):
    role = Pick(choices=ProjectRole.choices)


class OrganizationRoleInput(Input):
    role = Pick(choices=OrganizationRole.choices)


class ProjectMembersView(ProjectView):
    @operation(
        "project_member_list", "List members", tag=TAG, answer=page_of(ProjectMemberOutput), query=PageQuery
    )
    def get(self, request: Request, project: str) -> Response:
        """Everybody with a role in the project, its organization's members included."""
        del request, project
        rows = project_members(actor=self.actor, project=self.project())
        return self.page(rows, ProjectMemberOutput, key="username")


class ProjectMemberView(ProjectView):
    @operation(
        "project_member_set",
        "Add a member or change the role",
        tag=TAG,
        body=ProjectRoleInput,
        answer=MemberOutput,
    )
    def put(self, request: Request, project: str, username: str) -> Response:
        """Only an exact username matches: the directory cannot be browsed."""
        del request, project
        found = self.project(Permission.PROJECT_MANAGE)
        asked = self.input(ProjectRoleInput)
        user = user_find(actor=self.actor, text=username)
        row = project_member_set(actor=self.actor, project=found, user=user, role=asked["role"])
        return Response(MemberOutput(row).data)

    @operation("project_member_remove", "Remove a member, or leave", tag=TAG, status=204)
    def delete(self, request: Request, project: str, username: str) -> Response:
        del request, project
        found = self.project()
        user = project_members(actor=self.actor, project=found).filter(username=username).first()
        if user is None:
            raise NotFound(NOBODY)
        project_member_remove(actor=self.actor, project=found, user=user)
        return Response(status=204)


class OrganizationView(ApiView):
    """Views below /organizations/{organization}/…"""

    def organization(self, permission: Permission = Permission.ORGANIZATION_VIEW) -> Organization:
        slug: str = self.kwargs["organization"]
        return organization_get_for(actor=self.actor, slug=slug, permission=permission)


class OrganizationMembersView(OrganizationView):
    @operation(
        "organization_member_list",
        "List members of an organization",
        tag=TAG,
        answer=page_of(MemberOutput),
        query=PageQuery,
    )
    def get(self, request: Request, organization: str) -> Response:
        del request, organization
        rows = organization_members(actor=self.actor, organization=self.organization())
        return self.page(rows, MemberOutput, key="user__username")


class OrganizationMemberView(OrganizationView):
    @operation(
        "organization_member_set",
        "Add a member of an organization or change the role",
        tag=TAG,
        body=OrganizationRoleInput,
        answer=MemberOutput,
    )
    def put(self, request: Request, organization: str, username: str) -> Response:
        """The role holds in all projects of the organization. The last owner stays one."""
        del request, organization
        found = self.organization(Permission.ORGANIZATION_MANAGE)
        asked = self.input(OrganizationRoleInput)
        user = user_find(actor=self.actor, text=username)
        row = organization_member_set(actor=self.actor, organization=found, user=user, role=asked["role"])
        return Response(MemberOutput(row).data)

    @operation("organization_member_remove", "Remove a member of an organization", tag=TAG, status=204)
    def delete(self, request: Request, organization: str, username: str) -> Response:
        """The last owner cannot be removed."""
        del request, organization
        found = self.organization(Permission.ORGANIZATION_MANAGE)
        rows = organization_members(actor=self.actor, organization=found)
        row = rows.filter(user__username=username).first()
        if row is None:
            raise NotFound(NOBODY)
        organization_member_remove(actor=self.actor, organization=found, user=row.user)
        return Response(status=204)
