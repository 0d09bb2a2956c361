"""Organizations: the billing accounts."""

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Output, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.views import ApiView, PlatformView
from gpuaas.core.errors import Invalid, NotFound
from tenants.models import User
from tenants.roles import Permission
from tenants.selectors import organization_get_for, organizations_for, user_find
from tenants.services import organization_create, organization_update


class OrganizationInput(Input):
    slug = Text(max_length=40)
    name = Text(max_length=100)
    owner = Text(max_length=254, required=False, help_text="Username or email address of its first owner.")


class OrganizationPatchInput(Input):
    name = Text(max_length=100)


class OrganizationOutput(Output):
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    created_at = serializers.DateTimeField()


class OrganizationsView(ApiView):
    @operation("organization_list", "List organizations", rows=OrganizationOutput)
    def get(self, request: Request) -> Response:
        """Lists the organizations that the caller belongs to, directly or through a project."""
        return self.page(organizations_for(actor=self.actor), OrganizationOutput, key="slug")


class OrganizationDetailView(ApiView):
    @operation("organization_get", "Get an organization", answer=OrganizationOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Returns its name and when it was created. Members, limits and projects have their own addresses."""
        found = organization_get_for(actor=self.actor, slug=organization)
        return Response(OrganizationOutput(found).data)

    @operation(
        "organization_change",
        "Rename an organization",
        body=OrganizationPatchInput,
        answer=OrganizationOutput,
    )
    def patch(self, request: Request, organization: str) -> Response:
        """Changes only the name. The slug stays, because people and scripts use it."""
        found = organization_get_for(
            actor=self.actor, slug=organization, permission=Permission.ORGANIZATION_MANAGE
        )
        asked = self.input(OrganizationPatchInput)
        changed = organization_update(actor=self.actor, organization=found, name=asked["name"])
        return Response(OrganizationOutput(changed).data)


class PlatformOrganizationsView(PlatformView):
    @operation("platform_organization_list", "List all organizations", rows=OrganizationOutput)
    def get(self, request: Request) -> Response:
        """Lists every organization on the platform, sorted by slug."""
        return self.page(organizations_for(actor=self.actor), OrganizationOutput, key="slug")

    @operation(
        "platform_organization_create",
        "Create an organization",
        body=OrganizationInput,
        created=OrganizationOutput,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Without an owner, only operators can use it."""
        asked = self.input(OrganizationInput)
        owner = self._owner(asked["owner"]) if "owner" in asked else None
        made = organization_create(actor=self.actor, slug=asked["slug"], name=asked["name"], owner=owner)
        where = reverse("api:organization", kwargs={"organization": made.slug})
        return Response(OrganizationOutput(made).data, status=201, headers={"Location": where})

    def _owner(self, text: str) -> User:
        """The user of this name. An unknown one is an error in the body, not a 404 of the address."""
        try:
            return user_find(actor=self.actor, text=text)
        except NotFound as error:
            raise Invalid.field("owner", error.message) from error
