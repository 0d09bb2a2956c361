"""Members of projects and organizations."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import EMAILS, Email, Input, Output, Pick
from gpuaas.api.schema import operation
from gpuaas.api.v1.shapes import MemberOutput
from gpuaas.api.views import ApiView, ProjectView
from gpuaas.core.errors import NotFound
from gpuaas.core.rows import one_or_none
from tenants.models import Organization, OrganizationMembership
from tenants.roles import OrganizationRole, Permission, ProjectRole
from tenants.selectors import (
    organization_get_for,
    organization_members,
    project_member_get,
    project_members,
    user_find,
)
from tenants.services import (
    organization_member_remove,
    organization_member_set,
    project_member_remove,
    project_member_set,
)

NOBODY = "there is no such member"


class ProjectMemberOutput(Output):
    username = serializers.CharField()
    email = Email(allow_blank=True)
    role = serializers.CharField(
        source="project_role",
        allow_blank=True,
        help_text="Role in the project; empty: only the role in the organization applies.",
    )
    organization_role = serializers.CharField(
        allow_blank=True, help_text="Role in the organization; it applies in all projects."
    )


class ProjectRoleInput(Input):
    role = Pick(choices=ProjectRole.choices)


class OrganizationRoleInput(Input):
    role = Pick(choices=OrganizationRole.choices)


class ProjectMembersView(ProjectView):
    @operation("project_member_list", "List members", rows=ProjectMemberOutput)
    def get(self, request: Request, project: str) -> Response:
        """Lists everybody with a role in the project, members of its organization included."""
        found = self.project()
        rows = project_members(actor=self.actor, project=found)
        return self.page(rows, ProjectMemberOutput, key="username", context=self.seeing(found))


class ProjectMemberView(ProjectView):
    @operation("project_member_get", "Get a member", answer=ProjectMemberOutput)
    def get(self, request: Request, project: str, username: str) -> Response:
        """Returns the role in the project, and the role in the organization, which also applies here."""
        found = self.project()
        rows = project_members(actor=self.actor, project=found)
        row = one_or_none(rows.filter(username=username))
        if row is None:
            raise NotFound(NOBODY)
        return Response(ProjectMemberOutput(row, context=self.seeing(found)).data)

    @operation(
        "project_member_set", "Add a member or change their role", body=ProjectRoleInput, answer=MemberOutput
    )
    def put(self, request: Request, project: str, username: str) -> Response:
        """Only an exact username matches: the directory cannot be browsed."""
        found = self.project(Permission.PROJECT_MANAGE)
        asked = self.input(ProjectRoleInput)
        user = user_find(actor=self.actor, text=username)
        row = project_member_set(actor=self.actor, project=found, user=user, role=asked["role"])
        return Response(MemberOutput(row, context=self.seeing(found)).data)

    @operation("project_member_remove", "Remove a member, or leave")
    def delete(self, request: Request, project: str, username: str) -> Response:
        """Everybody may leave a project; only those who manage it may remove others."""
        found = self.project(Permission.PROJECT_MANAGE, own=True)
        user = project_member_get(actor=self.actor, project=found, username=username)
        project_member_remove(actor=self.actor, project=found, user=user)
        return Response(status=204)


class OrganizationView(ApiView):
    """Views below /organizations/{organization}/…"""

    def organization(self, permission: Permission = Permission.ORGANIZATION_VIEW) -> Organization:
        slug: str = self.kwargs["organization"]
        return organization_get_for(actor=self.actor, slug=slug, permission=permission)

    def seeing(self, organization: Organization) -> dict[str, bool]:
        held = self.actor.on_organization(organization.pk)
        return {EMAILS: Permission.ORGANIZATION_MANAGE in held}


class OrganizationMembersView(OrganizationView):
    @operation("organization_member_list", "List members of an organization", rows=MemberOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Lists everybody with a role in the organization itself. A project lists its own members."""
        found = self.organization()
        rows = organization_members(actor=self.actor, organization=found)
        return self.page(rows, MemberOutput, key="user__username", context=self.seeing(found))


class OrganizationMemberView(OrganizationView):
    @operation("organization_member_get", "Get a member of an organization", answer=MemberOutput)
    def get(self, request: Request, organization: str, username: str) -> Response:
        """The role applies in all projects of the organization."""
        found = self.organization()
        row = self._member(found, username)
        return Response(MemberOutput(row, context=self.seeing(found)).data)

    @operation(
        "organization_member_set",
        "Add a member of an organization or change their role",
        body=OrganizationRoleInput,
        answer=MemberOutput,
    )
    def put(self, request: Request, organization: str, username: str) -> Response:
        """The role applies in all projects of the organization. The last owner cannot be given another role."""
        found = self.organization(Permission.ORGANIZATION_MANAGE)
        asked = self.input(OrganizationRoleInput)
        user = user_find(actor=self.actor, text=username)
        row = organization_member_set(actor=self.actor, organization=found, user=user, role=asked["role"])
        return Response(MemberOutput(row, context=self.seeing(found)).data)

    @operation("organization_member_remove", "Remove a member of an organization")
    def delete(self, request: Request, organization: str, username: str) -> Response:
        """The last owner cannot be removed."""
        found = self.organization(Permission.ORGANIZATION_MANAGE)
        row = self._member(found, username)
        organization_member_remove(actor=self.actor, organization=found, user=row.user)
        return Response(status=204)

    def _member(self, found: Organization, username: str) -> OrganizationMembership:
        rows = organization_members(actor=self.actor, organization=found)
        row = one_or_none(rows.filter(user__username=username))
        if row is None:
            raise NotFound(NOBODY)
        return row
