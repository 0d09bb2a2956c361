"""Operators: templates of clusters, clusters of all tenants, and objects at sites without a proof of deletion."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import ChangeInput, Input, Output, Pick, Switch, Text, TextOrEmpty
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.shapes import (
    ORDERS,
    ClusterOutput,
    ClusterQuery,
    ClusterTemplateOutput,
    DefinitionOutput,
    Document,
    LedgerEntryOutput,
)
from gpuaas.api.v1.clusters.views import listed
from gpuaas.api.views import PlatformView
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
from tenants.selectors import organization_get_for


class PlatformTemplateInput(Input):
    slug = Text(max_length=40, help_text="Lower-case letters, digits and hyphens.")
    name = Text(max_length=100)
    summary = TextOrEmpty(max_length=300)
    kind = Pick(choices=CLUSTER_KINDS)
    site = Text(max_length=40, help_text="A site's slug.")
    driver = Text(
        max_length=32,
        help_text="Driver that builds it: one of `GET /platform/drivers` that provisions clusters.",
    )


class PlatformTemplatePatchInput(ChangeInput):
    name = Text(required=False, max_length=100)
    summary = Text(required=False, allow_blank=True, max_length=300)
    public = Switch(
        required=False, help_text="true: every organization may order it; false: only those it is granted to."
    )
    state = Pick(choices=TemplateState.choices, required=False)


class TemplateVersionInput(Input):
    document = Document(help_text="Releases, control plane, pools, add-ons, parameters, settings.")
    note = TextOrEmpty(max_length=300)


class TemplateVersionPatchInput(Input):
    deprecated = Switch(help_text="true: orders of it show a warning.")


class PlatformTemplateOutput(ClusterTemplateOutput):
    driver = serializers.CharField()
    public = serializers.BooleanField()
    organizations = serializers.SerializerMethodField(help_text="Organizations it is granted to (slugs).")

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_organizations(self, template: ClusterTemplate) -> list[str]:
        return sorted(grant.organization.slug for grant in template.grants.all())


class TemplateVersionOutput(DefinitionOutput):
    document = Document()
    created_by = serializers.CharField()

    def said(self, version: TemplateVersion) -> dict[str, Any]:
        return super().said(version) | {"document": version.document, "created_by": version.created_by}


class TemplateGrantOutput(Output):
    organization = serializers.CharField(source="organization.slug")


class OrphanOutput(LedgerEntryOutput):
    cluster = serializers.UUIDField(source="cluster_id")
    cluster_name = serializers.CharField(source="cluster.name")
    cluster_state = serializers.ChoiceField(choices=ClusterState.choices, source="cluster.state")
    project = serializers.CharField(source="cluster.project.slug")


class TemplateView(PlatformView):
    """Views of one template, as operators see it."""

    def template(self) -> ClusterTemplate:
        return template_get(actor=self.actor, slug=self.kwargs["template"])

    def shown(self, template: ClusterTemplate, *, status: int = 200) -> Response:
        fresh = template_get(actor=self.actor, slug=template.slug)
        where = reverse("api:platform-cluster-template", kwargs={"template": fresh.slug})
        headers = {"ETag": etag(fresh.version)} | ({"Location": where} if status == 201 else {})
        return Response(PlatformTemplateOutput(fresh).data, status=status, headers=headers)


class PlatformTemplatesView(TemplateView):
    @operation("platform_cluster_template_list", "List all cluster templates", rows=PlatformTemplateOutput)
    def get(self, request: Request) -> Response:
        """Drafts and retired templates are included."""
        return self.page(templates_all(actor=self.actor), PlatformTemplateOutput, key="slug")

    @operation(
        "platform_cluster_template_create",
        "Create a cluster template",
        body=PlatformTemplateInput,
        created=PlatformTemplateOutput,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Creates a draft. Add a version, then set its state to active."""
        asked = self.input(PlatformTemplateInput)
        try:
            site = site_get_for(actor=self.actor, slug=asked.pop("site"))
        except NotFound as error:
            raise Invalid.field("site", error.message) from error
        return self.shown(services.template_create(actor=self.actor, site=site, **asked), status=201)


class PlatformTemplateView(TemplateView):
    @operation("platform_cluster_template_get", "Get a cluster template", answer=PlatformTemplateOutput)
    def get(self, request: Request, template: str) -> Response:
        """Returns its state, versions and the organizations that may order it. Send the ETag as If-Match with a
        change."""
        return self.shown(self.template())

    @operation(
        "platform_cluster_template_change",
        "Change a cluster template",
        body=PlatformTemplatePatchInput,
        answer=PlatformTemplateOutput,
        versioned=True,
    )
    def patch(self, request: Request, template: str) -> Response:
        """Clusters made from it do not change."""
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
        "List versions of a cluster template",
        rows=TemplateVersionOutput,
    )
    def get(self, request: Request, template: str) -> Response:
        """Newest first, each with its document and the JSON Schema of orders."""
        rows = versions_of(template=self.template())
        return self.page(rows, TemplateVersionOutput, key="-number")

    @operation(
        "platform_cluster_template_version_add",
        "Add a version to a cluster template",
        body=TemplateVersionInput,
        created=TemplateVersionOutput,
    )
    @idempotent
    def post(self, request: Request, template: str) -> Response:
        """Orders use it from now on; clusters of earlier versions do not change. Errors in the schema are reported at
        `document`, with their place."""
        found = self.template()
        asked = self.input(TemplateVersionInput)
        made = services.template_version_add(actor=self.actor, template=found, **asked)
        return Response(TemplateVersionOutput(made).data, status=201)


class PlatformVersionView(TemplateView):
    @operation(
        "platform_cluster_template_version_get",
        "Get a version of a cluster template",
        answer=TemplateVersionOutput,
    )
    def get(self, request: Request, template: str, version: int) -> Response:
        """Returns its document, the JSON Schema of orders, and whether it is deprecated."""
        row = template_version_get(template=self.template(), number=version)
        return Response(TemplateVersionOutput(row).data)

    @operation(
        "platform_cluster_template_version_change",
        "Deprecate a version",
        body=TemplateVersionPatchInput,
        answer=TemplateVersionOutput,
    )
    def patch(self, request: Request, template: str, version: int) -> Response:
        """Deprecates the version, or undoes that. The document of a version never changes."""
        row = template_version_get(template=self.template(), number=version)
        asked = self.input(TemplateVersionPatchInput)
        changed = services.template_version_deprecate(actor=self.actor, version=row, **asked)
        changed.template = row.template
        return Response(TemplateVersionOutput(changed).data)


class PlatformTemplateGrantView(TemplateView):
    @operation(
        "platform_cluster_template_given", "Get the grant to an organization", answer=TemplateGrantOutput
    )
    def get(self, request: Request, template: str, organization: str) -> Response:
        """404 if the organization has no grant; it can still order a public template."""
        found = self.template()
        row = found.grants.filter(organization__slug=organization).select_related("organization").first()
        if row is None:
            raise NotFound("the template is not granted to this organization")
        return Response(TemplateGrantOutput(row).data)

    @operation("platform_cluster_template_give", "Grant a template to an organization")
    def put(self, request: Request, template: str, organization: str) -> Response:
        """Projects of the organization may order it although it is not public. Repeating the request changes
        nothing."""
        return self._set(organization, granted=True)

    @operation("platform_cluster_template_take", "Revoke the grant of a template")
    def delete(self, request: Request, template: str, organization: str) -> Response:
        """Existing clusters stay. Repeating the request changes nothing."""
        return self._set(organization, granted=False)

    def _set(self, slug: str, *, granted: bool) -> Response:
        found = self.template()
        organization = organization_get_for(actor=self.actor, slug=slug)
        services.template_grant(actor=self.actor, template=found, organization=organization, granted=granted)
        return Response(status=204)


class PlatformClustersView(PlatformView):
    @operation("platform_cluster_list", "List all clusters", rows=ClusterOutput, query=ClusterQuery)
    def get(self, request: Request) -> Response:
        """Lists clusters of all projects, newest first unless `order` is given."""
        return self.page(
            listed(self.actor, self.params, None), ClusterOutput, key=ORDERS[self.params["order"]]
        )


class PlatformOrphansView(PlatformView):
    @operation("platform_cluster_orphan_list", "List objects without a proof of deletion", rows=OrphanOutput)
    def get(self, request: Request) -> Response:
        """Lists objects of deleted clusters, and of clusters being deleted, for which no sweep has proved yet that
        they are gone."""
        return self.page(ledger_orphans(actor=self.actor), OrphanOutput, key="pk")
