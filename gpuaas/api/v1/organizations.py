"""Organizations: the billing accounts."""

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Output, PageQuery, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.views import ApiView
from gpuaas.core.errors import Invalid, NotFound
from tenants.models import User
from tenants.roles import Permission
from tenants.selectors import organization_get_for, organizations_for, platform_require, user_find
from tenants.services import organization_create, organization_update

TAG = "organizations"


class OrganizationInput(Input):
    slug = Text(max_length=40)
    name = Text(max_length=100)
    owner = Text(max_length=254, required=False, help_text="Username or e-mail address of its first owner.")


class OrganizationPatchInput(Input):
    name = Text(max_length=100)


class OrganizationOutput(Output):
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    created_at = serializers.DateTimeField()


class OrganizationsView(ApiView):
    @operation(
        "organization_list",
        "List organizations",
        tag=TAG,
        answer=page_of(OrganizationOutput),
        query=PageQuery,
    )
    def get(self, request: Request) -> Response:
        """Those that the caller belongs to, directly or by a project."""
        del request
        return self.page(organizations_for(actor=self.actor), OrganizationOutput, key="slug")


class OrganizationDetailView(ApiView):
    @operation("organization_get", "Look at an organization", tag=TAG, answer=OrganizationOutput)
    def get(self, request: Request, organization: str) -> Response:
        del request
        found = organization_get_for(actor=self.actor, slug=organization)
        return Response(OrganizationOutput(found).data)

    @operation(
        "organization_change",
        "Rename an organization",
        tag=TAG,
        body=OrganizationPatchInput,
        answer=OrganizationOutput,
    )
    def patch(self, request: Request, organization: str) -> Response:
        del request
        found = organization_get_for(
            actor=self.actor, slug=organization, permission=Permission.ORGANIZATION_MANAGE
        )
        asked = self.input(OrganizationPatchInput)
        changed = organization_update(actor=self.actor, organization=found, name=asked["name"])
        return Response(OrganizationOutput(changed).data)


class PlatformOrganizationsView(ApiView):
    @operation(
        "platform_organization_list",
        "List all organizations",
        tag="platform",
        answer=page_of(OrganizationOutput),
        query=PageQuery,
    )
    def get(self, request: Request) -> Response:
        del request
        platform_require(actor=self.actor)
        return self.page(organizations_for(actor=self.actor), OrganizationOutput, key="slug")

    @operation(
        "platform_organization_create",
        "Make an organization",
        tag="platform",
        body=OrganizationInput,
        answer=OrganizationOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Without an owner nobody but operators can use it yet."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        asked = self.input(OrganizationInput)
        owner = self._owner(asked["owner"]) if "owner" in asked else None
        made = organization_create(actor=self.actor, slug=asked["slug"], name=asked["name"], owner=owner)
        where = reverse("api:organization", kwargs={"organization": made.slug})
        return Response(OrganizationOutput(made).data, status=201, headers={"Location": where})

    def _owner(self, text: str) -> User:
        """Somebody unknown is a mistake in the body, not a missing address."""
        try:
            return user_find(actor=self.actor, text=text)
        except NotFound as error:
            raise Invalid.field("owner", error.message) from error
