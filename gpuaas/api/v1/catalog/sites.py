"""Operators: sites, their GPUs, and what is sold of them."""

from django.db import transaction
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.services.site_removal import site_remove
from gpuaas.api.etag import answer, etag, hold_version
from gpuaas.api.fields import Conditions, Input, Output, Switch, Text, TextOrEmpty, Whole
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.views import PlatformView
from gpuaas.catalog.selectors import (
    PoolMap,
    capacity_map,
    site_get_for,
    sites_for,
)
from gpuaas.catalog.services import site_create, site_update
from quotas.gpus import Gpus, PoolGpus, gpus_of_pools


class SiteInput(Input):
    slug = Text(max_length=40)
    name = Text(max_length=100)
    driver = Text(
        max_length=32, help_text="Name of a driver from `GET /platform/drivers` that provisions sites."
    )
    endpoint = TextOrEmpty(max_length=300)
    credentials = serializers.DictField(
        required=False, help_text="By the driver's schema. Encrypted at once; never returned."
    )
    options = serializers.DictField(required=False, help_text="By the driver's schema.")
    oversubscription_percent = Whole(required=False, default=100, min_value=1, max_value=1000)


class SitePatchInput(Input):
    name = Text(max_length=100, required=False)
    endpoint = Text(max_length=300, required=False, allow_blank=True)
    credentials = serializers.DictField(
        required=False, help_text="Replaces all credentials; the site is checked again with them."
    )
    options = serializers.DictField(required=False, help_text="Replaces all options.")
    enabled = Switch(required=False, help_text="false: accepts no new requests; present holders continue.")
    sell_unfit = Switch(required=False, help_text="true: sell there despite failed checks.")
    oversubscription_percent = Whole(required=False, min_value=1, max_value=1000)
    confirmed = Switch(
        required=False, help_text="true: after a restore of the database, make the site match it again."
    )


class UnknownOutput(Output):
    place = serializers.CharField(help_text="The node, or the pool of a DRA driver.")
    name = serializers.CharField(help_text="By which the site counts them.")
    count = serializers.IntegerField()
    reason = serializers.CharField()


class PlatformSiteOutput(Output):
    slug = serializers.CharField()
    name = serializers.CharField()
    driver = serializers.CharField()
    endpoint = serializers.CharField(allow_blank=True)
    options = serializers.DictField(help_text="Options of the driver.")
    enabled = serializers.BooleanField()
    fit = serializers.BooleanField(help_text="false: a check forbids new requests there.")
    sell_unfit = serializers.BooleanField(help_text="true: an operator sells there despite the checks.")
    confirmed = serializers.BooleanField(
        help_text="false: since a restore of the database nothing is changed there."
    )
    preflight_at = serializers.DateTimeField(allow_null=True)
    oversubscription_percent = serializers.IntegerField()
    server_version = serializers.CharField(allow_blank=True)
    conditions = Conditions()
    unknown = UnknownOutput(
        many=True, help_text="Devices that are not sold because it is not known what they are."
    )
    probed_at = serializers.DateTimeField(allow_null=True)
    answered_at = serializers.DateTimeField(allow_null=True)
    reached_at = serializers.DateTimeField(allow_null=True, help_text="When it first answered; null: never.")
    answer_ms = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


OTHERS = "Allocated devices that are not for a workspace or cluster of this portal."


class NodeOutput(Output):
    name = serializers.CharField()
    ready = serializers.BooleanField()
    cordoned = serializers.BooleanField()
    reason = serializers.CharField(allow_blank=True)
    capacity = serializers.IntegerField()
    allocated = serializers.IntegerField()
    others = serializers.IntegerField(help_text=OTHERS)
    unhealthy = serializers.IntegerField(help_text="Devices of its capacity that cannot take work.")
    zone = serializers.CharField(allow_blank=True)
    rack = serializers.CharField(allow_blank=True)
    nvlink_domain = serializers.CharField(allow_blank=True)
    numa = serializers.CharField(allow_blank=True, help_text="The kubelet's topology manager policy.")
    cpus = serializers.CharField(allow_blank=True, help_text="The kubelet's CPU manager policy.")
    profile = serializers.CharField(allow_blank=True)
    arch = serializers.CharField(
        allow_blank=True, help_text="The processor's architecture, for example arm64."
    )
    hugepages = serializers.DictField(child=serializers.IntegerField(), help_text="GiB by page size.")
    checks = Conditions()


class PoolOutput(Output):
    site = serializers.CharField(source="site.slug")
    gpu_type = serializers.CharField(source="gpu_type.slug")
    resource_name = serializers.CharField(source="pool.resource_name")
    capacity = serializers.IntegerField(help_text="Devices: whole GPUs, or slices or shares of them.")
    cards = serializers.FloatField(
        source="pool.counted_cards",
        help_text="GPUs that these devices are cut from; of pools that share hardware, one counts them.",
    )
    healthy = serializers.IntegerField(source="pool.healthy")
    sellable = serializers.SerializerMethodField(help_text="null: this site does not count it.")
    held = serializers.SerializerMethodField(help_text="Reserved for workspaces and clusters, used or not.")
    allocated = serializers.IntegerField(help_text="Used by pods and machines, as last observed.")
    free = serializers.SerializerMethodField(help_text="Sellable minus held; 0 where nothing new is sold.")
    others = serializers.IntegerField(help_text=f"{OTHERS} They are not sold.")
    out = serializers.SerializerMethodField(
        help_text="Devices that cannot take work, whether they are held or not."
    )
    closed = serializers.SerializerMethodField(
        help_text="Devices that nobody has and that are not for sale now, as of a site that is disabled."
    )
    beyond = serializers.SerializerMethodField(
        help_text="Held and offered beyond the devices there are: free + held + closed + others + out = capacity + beyond."
    )
    unhealthy = serializers.IntegerField()
    cordoned = serializers.IntegerField()
    largest_block = serializers.IntegerField()
    trouble = serializers.CharField(
        source="pool.trouble", allow_blank=True, help_text="Why it cannot be sold at present."
    )
    shares_with = serializers.ListField(
        source="pool.shares_with",
        child=serializers.CharField(),
        help_text="GPU types cut from the same devices; only one of them can be sold.",
    )
    observed_at = serializers.DateTimeField(source="pool.observed_at", allow_null=True)
    nodes = NodeOutput(many=True)

    def get_sellable(self, row: PoolMap) -> int | None:
        return self._gpus(row).sellable

    def get_held(self, row: PoolMap) -> int:
        return self._gpus(row).held

    def get_free(self, row: PoolMap) -> int:
        return self._gpus(row).free

    def get_out(self, row: PoolMap) -> int:
        return self._gpus(row).out

    def get_closed(self, row: PoolMap) -> int:
        return self._gpus(row).closed

    def get_beyond(self, row: PoolMap) -> int:
        return self._gpus(row).beyond

    def _gpus(self, row: PoolMap) -> PoolGpus:
        gpus: Gpus = self.context["gpus"]
        return gpus[row.pool.pk]


class PlatformSitesView(PlatformView):
    @operation("platform_site_list", "List sites", rows=PlatformSiteOutput)
    def get(self, request: Request) -> Response:
        """Lists every attached site with its state and conditions. Credentials are never shown."""
        return self.page(sites_for(actor=self.actor), PlatformSiteOutput, key="slug")

    @operation("platform_site_create", "Attach a site", body=SiteInput, created=PlatformSiteOutput)
    @idempotent
    def post(self, request: Request) -> Response:
        """The portal inspects the site at once. GPU types that it discovers appear in the catalog as drafts."""
        made = site_create(actor=self.actor, **self.input(SiteInput))
        headers = {
            "Location": reverse("api:platform-site", kwargs={"site": made.slug}),
            "ETag": etag(made.version),
        }
        return Response(PlatformSiteOutput(made).data, status=201, headers=headers)


class PlatformSiteView(PlatformView):
    @operation("platform_site_get", "Get a site", answer=PlatformSiteOutput)
    def get(self, request: Request, site: str) -> Response:
        """Returns its settings, state and conditions. Send the ETag as If-Match with a change. Credentials are never
        shown."""
        found = site_get_for(actor=self.actor, slug=site)
        return answer(request, version=found.version, data=PlatformSiteOutput(found).data)

    @operation(
        "platform_site_change",
        "Change a site",
        body=SitePatchInput,
        answer=PlatformSiteOutput,
        versioned=True,
    )
    def patch(self, request: Request, site: str) -> Response:
        """Oversubscription applies to new requests at once; nobody is evicted."""
        found = site_get_for(actor=self.actor, slug=site)
        asked = self.input(SitePatchInput)
        with transaction.atomic():
            hold_version(request, found)
            changed = site_update(actor=self.actor, site=found, **asked)
        return Response(PlatformSiteOutput(changed).data, headers={"ETag": etag(changed.version)})

    @operation("platform_site_remove", "Remove a site")
    def delete(self, request: Request, site: str) -> Response:
        """The site must be disabled and hold nothing: otherwise 409, with what is left in words in `left`. Its
        credentials are deleted; past usage and invoices keep its name, which no other site can take."""
        found = site_get_for(actor=self.actor, slug=site)
        site_remove(actor=self.actor, site=found, name=found.slug)
        return Response(status=204)


class PlatformCapacityView(PlatformView):
    @operation("platform_capacity", "Get the capacity map", rows=PoolOutput)
    def get(self, request: Request) -> Response:
        """Returns every GPU type at every site, node by node, as last observed."""
        pools = capacity_map(actor=self.actor)
        known = {"gpus": gpus_of_pools(row.pool for row in pools)}
        return self.page(pools, PoolOutput, key="pool__pk", context=known)
