"""Operators: templates of clusters, clusters of all tenants, and what is left at a site without a proof."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import Input, PageQuery, Pick, Switch, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.cluster_shapes import (
    ORDERS,
    ClusterOutput,
    ClusterQuery,
    ClusterTemplateOutput,
    DefinitionOutput,
    Document,
    LedgerEntryOutput,
)
from gpuaas.api.v1.clusters import listed
from gpuaas.api.views import ApiView
from gpuaas.catalog.selectors import site_get_for
from gpuaas.clusters import services
from gpuaas.clusters.models import ClusterTemplate, TemplateVersion
from gpuaas.clusters.selectors import (
    ledger_orphans,
    template_get,
    template_version_get,
    templates_all,
    versions_of,
)
from gpuaas.clusters.states import CLUSTER_KINDS, ClusterState, TemplateState
from gpuaas.core.errors import Invalid, NotFound
from tenants.roles import Permission
from tenants.selectors import organization_get_for, platform_require

TAG = "platform"


class PlatformTemplateInput(Input):
    slug = Text(max_length=40, help_text="Lower-case letters, digits and hyphens.")
    name = Text(max_length=100)
    summary = Text(required=False, default="", allow_blank=True, max_length=300)
    kind = Pick(choices=CLUSTER_KINDS)
    site = Text(max_length=40, help_text="A site's slug.")
    driver = Text(
        max_length=32, help_text="Which driver of clusters builds it, such as sandbox or openstack."
    )


class PlatformTemplatePatchInput(Input):
    name = Text(required=False, max_length=100)
    summary = Text(required=False, allow_blank=True, max_length=300)
    public = Switch(required=False, help_text="For every organization; else for those that it is given to.")
    state = Pick(choices=TemplateState.choices, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError("say what shall change: name, summary, public or state")
        return attrs


class TemplateVersionInput(Input):
    document = Document(help_text="Releases, control plane, pools, add-ons, parameters, settings.")
    note = Text(required=False, default="", allow_blank=True, max_length=300)


class TemplateVersionPatchInput(Input):
    deprecated = Switch(help_text="Orders of it are warned.")


class PlatformTemplateOutput(ClusterTemplateOutput):
    driver = serializers.CharField()
    public = serializers.BooleanField()
    organizations = serializers.SerializerMethodField(help_text="Those that it is given to, by slug.")

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_organizations(self, template: ClusterTemplate) -> list[str]:
        return sorted(grant.organization.slug for grant in template.grants.all())


class TemplateVersionOutput(DefinitionOutput):
    document = Document()
    created_by = serializers.CharField()

    def said(self, version: TemplateVersion) -> dict[str, Any]:
        return super().said(version) | {"document": version.document, "created_by": version.created_by}


class OrphanOutput(LedgerEntryOutput):
    cluster = serializers.UUIDField(source="cluster_id")
    cluster_name = serializers.CharField(source="cluster.name")
    cluster_state = serializers.ChoiceField(choices=ClusterState.choices, source="cluster.state")
    project = serializers.CharField(source="cluster.project.slug")


class TemplateView(ApiView):
    """Views of one template, as operators see it."""

    def template(self, permission: Permission = Permission.PLATFORM_MANAGE) -> ClusterTemplate:
        platform_require(actor=self.actor, permission=permission)
        return template_get(actor=self.actor, slug=self.kwargs["template"])

    def shown(self, template: ClusterTemplate, *, status: int = 200) -> Response:
        fresh = template_get(actor=self.actor, slug=template.slug)
        where = reverse("api:platform-cluster-template", kwargs={"template": fresh.slug})
        headers = {"ETag": etag(fresh.version)} | ({"Location": where} if status == 201 else {})
        return Response(PlatformTemplateOutput(fresh).data, status=status, headers=headers)


class PlatformTemplatesView(TemplateView):
    @operation(
        "platform_cluster_template_list",
        "List all cluster templates",
        tag=TAG,
        answer=page_of(PlatformTemplateOutput),
        query=PageQuery,
    )
    def get(self, request: Request) -> Response:
        """Drafts and retired ones too."""
        del request
        return self.page(templates_all(actor=self.actor), PlatformTemplateOutput, key="slug")

    @operation(
        "platform_cluster_template_create",
        "Make a cluster template",
        tag=TAG,
        body=PlatformTemplateInput,
        answer=PlatformTemplateOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """A draft; add a version, then set its state to active."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        asked = self.input(PlatformTemplateInput)
        try:
            site = site_get_for(actor=self.actor, slug=asked.pop("site"))
        except NotFound as error:
            raise Invalid.field("site", error.message) from error
        return self.shown(services.template_create(actor=self.actor, site=site, **asked), status=201)


class PlatformTemplateView(TemplateView):
    @operation(
        "platform_cluster_template_get",
        "Look at a cluster template",
        tag=TAG,
        answer=PlatformTemplateOutput,
    )
    def get(self, request: Request, template: str) -> Response:
        del request, template
        return self.shown(self.template(Permission.PLATFORM_VIEW))

    @operation(
        "platform_cluster_template_change",
        "Offer, deprecate, retire or rename",
        tag=TAG,
        body=PlatformTemplatePatchInput,
        answer=PlatformTemplateOutput,
        versioned=True,
    )
    def patch(self, request: Request, template: str) -> Response:
        """Clusters that were made of it stay as they are."""
        del template
        found = self.template()
        asked = self.input(PlatformTemplatePatchInput)
        return self.shown(
            services.template_update(
                actor=self.actor, template=found, expected_version=wanted_version(request), **asked
            )
        )


class PlatformVersionsView(TemplateView):
    @operation(
        "platform_cluster_template_version_list",
        "List versions",
        tag=TAG,
        answer=page_of(TemplateVersionOutput),
        query=PageQuery,
    )
    def get(self, request: Request, template: str) -> Response:
        """Newest first, each with its document and the schema that orders follow."""
        del request, template
        rows = versions_of(template=self.template(Permission.PLATFORM_VIEW))
        return self.page(rows, TemplateVersionOutput, key="-number")

    @operation(
        "platform_cluster_template_version_add",
        "Add a version",
        tag=TAG,
        body=TemplateVersionInput,
        answer=TemplateVersionOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request, template: str) -> Response:
        """Orders take it from now on; clusters of earlier versions stay what they are. What the schema may not say is refused
        beside `document`, with the place.
        """
        del request, template
        found = self.template()
        asked = self.input(TemplateVersionInput)
        made = services.template_version_add(actor=self.actor, template=found, **asked)
        return Response(TemplateVersionOutput(made).data, status=201)


class PlatformVersionView(TemplateView):
    @operation(
        "platform_cluster_template_version_change",
        "Deprecate a version",
        tag=TAG,
        body=TemplateVersionPatchInput,
        answer=TemplateVersionOutput,
    )
    def patch(self, request: Request, template: str, version: int) -> Response:
        """Or take that back. What a version says never changes."""
        del request, template
        row = template_version_get(template=self.template(), number=version)
        asked = self.input(TemplateVersionPatchInput)
        changed = services.template_version_deprecate(actor=self.actor, version=row, **asked)
        changed.template = row.template
        return Response(TemplateVersionOutput(changed).data)


class PlatformTemplateGrantView(TemplateView):
    @operation("platform_cluster_template_give", "Give to an organization", tag=TAG, status=204)
    def put(self, request: Request, template: str, organization: str) -> Response:
        """Its projects may order it, though it is not public. Asking again changes nothing."""
        del request, template
        return self._set(organization, granted=True)

    @operation("platform_cluster_template_take", "Take from an organization", tag=TAG, status=204)
    def delete(self, request: Request, template: str, organization: str) -> Response:
        """Clusters that are there stay. Asking again changes nothing."""
        del request, template
        return self._set(organization, granted=False)

    def _set(self, slug: str, *, granted: bool) -> Response:
        found = self.template()
        organization = organization_get_for(actor=self.actor, slug=slug)
        services.template_grant(actor=self.actor, template=found, organization=organization, granted=granted)
        return Response(status=204)


class PlatformClustersView(ApiView):
    @operation(
        "platform_cluster_list",
        "List all clusters",
        tag=TAG,
        answer=page_of(ClusterOutput),
        query=ClusterQuery,
    )
    def get(self, request: Request) -> Response:
        """Of all projects, newest first unless `order` says otherwise."""
        del request
        platform_require(actor=self.actor)
        return self.page(
            listed(self.actor, self.params, None), ClusterOutput, key=ORDERS[self.params["order"]]
        )


class PlatformOrphansView(ApiView):
    @operation(
        "platform_cluster_orphan_list",
        "List what has no proof",
        tag=TAG,
        answer=page_of(OrphanOutput),
        query=PageQuery,
    )
    def get(self, request: Request) -> Response:
        """Objects of clusters that are being deleted or are deleted, of which no sweep has proved yet that they are gone."""
        del request
        return self.page(ledger_orphans(actor=self.actor), OrphanOutput, key="pk")
