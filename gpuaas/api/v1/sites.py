"""Operators: sites, what they have, and what of it is sold."""

from django.db import transaction
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import answer, etag, hold_version
from gpuaas.api.fields import Conditions, Input, Output, PageQuery, Pick, Switch, Text, Whole
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.views import ApiView
from gpuaas.catalog.selectors import (
    capacity_map,
    site_get_for,
    sites_for,
)
from gpuaas.catalog.services import site_create, site_update
from gpuaas.providers.registry import driver_names
from tenants.roles import Permission
from tenants.selectors import platform_require

TAG = "platform"


class SiteInput(Input):
    slug = Text(max_length=40)
    name = Text(max_length=100)
    driver = Pick(choices=[(name, name) for name in driver_names()])
    endpoint = Text(max_length=300, required=False, default="", allow_blank=True)
    credentials = serializers.DictField(required=False, help_text="Sealed at once; never comes out again.")
    options = serializers.DictField(required=False)
    oversubscription_percent = Whole(required=False, default=100, min_value=1, max_value=1000)


class SitePatchInput(Input):
    name = Text(max_length=100, required=False)
    endpoint = Text(max_length=300, required=False, allow_blank=True)
    credentials = serializers.DictField(required=False, help_text="Replaced whole.")
    options = serializers.DictField(
        required=False, help_text="Replaced whole; the site is checked again with them."
    )
    enabled = Switch(required=False, help_text="false: takes no new work; what runs goes on.")
    sell_unfit = Switch(required=False, help_text="true: sell there whatever the checks say.")
    oversubscription_percent = Whole(required=False, min_value=1, max_value=1000)


class PlatformSiteOutput(Output):
    slug = serializers.CharField()
    name = serializers.CharField()
    driver = serializers.CharField()
    endpoint = serializers.CharField(allow_blank=True)
    options = serializers.DictField(help_text="What the driver was told of the site.")
    enabled = serializers.BooleanField()
    fit = serializers.BooleanField(help_text="false: a check forbids to sell anything new there.")
    sell_unfit = serializers.BooleanField(help_text="An operator sells there all the same.")
    preflight_at = serializers.DateTimeField(allow_null=True)
    oversubscription_percent = serializers.IntegerField()
    server_version = serializers.CharField(allow_blank=True)
    conditions = Conditions()
    probed_at = serializers.DateTimeField(allow_null=True)
    answered_at = serializers.DateTimeField(allow_null=True)
    answer_ms = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class NodeOutput(Output):
    name = serializers.CharField()
    ready = serializers.BooleanField()
    cordoned = serializers.BooleanField()
    reason = serializers.CharField(allow_blank=True)
    capacity = serializers.IntegerField()
    allocated = serializers.IntegerField()
    unhealthy = serializers.IntegerField(help_text="Of its capacity, devices that cannot take work.")
    zone = serializers.CharField(allow_blank=True)
    rack = serializers.CharField(allow_blank=True)
    nvlink_domain = serializers.CharField(allow_blank=True)
    numa = serializers.CharField(allow_blank=True, help_text="The kubelet's topology manager policy.")
    cpus = serializers.CharField(allow_blank=True, help_text="The kubelet's CPU manager policy.")
    profile = serializers.CharField(allow_blank=True)
    hugepages = serializers.DictField(child=serializers.IntegerField(), help_text="Page size to GiB.")
    checks = Conditions()


class PoolOutput(Output):
    site = serializers.CharField(source="site.slug")
    gpu_type = serializers.CharField(source="gpu_type.slug")
    resource_name = serializers.CharField(source="pool.resource_name")
    capacity = serializers.IntegerField()
    healthy = serializers.IntegerField(source="pool.healthy")
    allocated = serializers.IntegerField()
    free = serializers.IntegerField()
    unhealthy = serializers.IntegerField()
    cordoned = serializers.IntegerField()
    largest_block = serializers.IntegerField()
    trouble = serializers.CharField(
        source="pool.trouble", allow_blank=True, help_text="Why it cannot be sold as it is."
    )
    shares_with = serializers.ListField(
        source="pool.shares_with",
        child=serializers.CharField(),
        help_text="GPU types that are cut from the same devices; only one of them can be sold.",
    )
    observed_at = serializers.DateTimeField(source="pool.observed_at", allow_null=True)
    nodes = NodeOutput(many=True)


class PlatformSitesView(ApiView):
    @operation(
        "platform_site_list", "List sites", tag=TAG, answer=page_of(PlatformSiteOutput), query=PageQuery
    )
    def get(self, request: Request) -> Response:
        del request
        return self.page(sites_for(actor=self.actor), PlatformSiteOutput, key="slug")

    @operation(
        "platform_site_create",
        "Attach a site",
        tag=TAG,
        body=SiteInput,
        answer=PlatformSiteOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """It is looked at at once; what it has appears in the catalog as drafts."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        made = site_create(actor=self.actor, **self.input(SiteInput))
        headers = {
            "Location": reverse("api:platform-site", kwargs={"site": made.slug}),
            "ETag": etag(made.version),
        }
        return Response(PlatformSiteOutput(made).data, status=201, headers=headers)


class PlatformSiteView(ApiView):
    @operation("platform_site_get", "Look at a site", tag=TAG, answer=PlatformSiteOutput)
    def get(self, request: Request, site: str) -> Response:
        found = site_get_for(actor=self.actor, slug=site)
        return answer(request, version=found.version, data=PlatformSiteOutput(found).data)

    @operation(
        "platform_site_change",
        "Change a site",
        tag=TAG,
        body=SitePatchInput,
        answer=PlatformSiteOutput,
        versioned=True,
    )
    def patch(self, request: Request, site: str) -> Response:
        """Oversubscription counts at once for new requests; nobody is evicted."""
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        found = site_get_for(actor=self.actor, slug=site)
        asked = self.input(SitePatchInput)
        with transaction.atomic():
            hold_version(request, found)
            changed = site_update(actor=self.actor, site=found, **asked)
        return Response(PlatformSiteOutput(changed).data, headers={"ETag": etag(changed.version)})


class PlatformCapacityView(ApiView):
    @operation("platform_capacity", "Capacity map", tag=TAG, answer=page_of(PoolOutput), query=PageQuery)
    def get(self, request: Request) -> Response:
        """Every GPU type at every site, node by node, as last observed."""
        del request
        return self.page(capacity_map(actor=self.actor), PoolOutput, key="pool__pk")
