"""Operators: from the GPU types that sites have to the flavors that are sold."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.services.offers import flavor_offer
from gpuaas.api.fields import Input, Pick, Switch, Text, TextOrEmpty, Whole
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.catalog.views import FlavorOutput, FlavorQuery, GpuTypeOutput, filters, flavor_page
from gpuaas.api.views import PlatformView
from gpuaas.catalog.models import GpuPool, GpuType
from gpuaas.catalog.selectors import flavor_get_for, flavors_for, gpu_types_for
from gpuaas.catalog.services import (
    flavor_create,
    flavor_retire,
    gpu_type_publish,
    gpu_type_retire,
)
from gpuaas.catalog.services.lending import NOTICE_LEAST, NOTICE_MOST, NOTICE_USUAL
from gpuaas.catalog.states import HugepagesSize, OfferState, PriceClass
from gpuaas.core.errors import Invalid
from gpuaas.core.rows import first_of

SOLD = [(OfferState.ACTIVE.value, "sell it"), (OfferState.RETIRED.value, "stop selling it")]


class FlavorStateInput(Input):
    state = Pick(choices=SOLD)
    without_price = Switch(
        required=False,
        default=False,
        help_text="true: sell it although it has no price; nobody is charged for it until it has one.",
    )


class GpuTypeStateInput(Input):
    state = Pick(choices=SOLD)
    name = Text(required=False, max_length=100, help_text="Display name. Default: as its sites call it.")


class FlavorInput(Input):
    site = Text(max_length=40)
    gpu_type = Text(max_length=64, help_text="A GPU type of the site.")
    slug = Text(max_length=64)
    name = Text(max_length=100)
    gpus = Whole(required=False, default=1, min_value=1, max_value=1000)
    vcpus = Whole(min_value=1)
    memory_gib = Whole(min_value=1)
    disk_gib = Whole(required=False, default=0)
    price_class = Pick(choices=PriceClass.choices, required=False, default=PriceClass.ON_DEMAND)
    notice_seconds = Whole(
        required=False,
        allow_null=True,
        default=None,
        help_text=f"Of spot, {NOTICE_LEAST} to {NOTICE_MOST:,}: how long what runs may go on once a buyer needs its GPUs. "
        f"Default: {NOTICE_USUAL}.",
    )
    whole_node = Switch(required=False, default=False, help_text="Sold by the node: all GPUs of one node.")
    hugepages_size = Pick(choices=HugepagesSize.choices, required=False)
    hugepages_gib = Whole(
        required=False, default=0, help_text="Part of memory_gib; every node must have them."
    )
    exclusive_cpus = Switch(
        required=False, default=False, help_text="Every node must have the static CPU manager policy."
    )
    sysctls = serializers.ListField(child=Text(max_length=120), required=False, max_length=32)
    profile = TextOrEmpty(max_length=63)


class PlatformFlavorsView(PlatformView):
    @operation("platform_flavor_list", "List all flavors", rows=FlavorOutput, query=FlavorQuery)
    def get(self, request: Request) -> Response:
        """Drafts and retired flavors are included."""
        rows = flavors_for(actor=self.actor, drafts=True, **filters(self.params))
        return self.page(rows, FlavorOutput, **flavor_page(self.actor))

    @operation("platform_flavor_create", "Create a flavor", body=FlavorInput, created=FlavorOutput)
    @idempotent
    def post(self, request: Request) -> Response:
        """Creates a draft: set a price, then sell it. Every node of the GPU type has to meet the flavor's node
        requirements."""
        asked = self.input(FlavorInput)
        made = flavor_create(actor=self.actor, pool=_pool(asked), **asked)
        fresh = flavor_get_for(actor=self.actor, slug=made.slug)
        return Response(FlavorOutput(fresh, context=flavor_page(self.actor)["context"]).data, status=201)


class PlatformFlavorView(PlatformView):
    @operation("platform_flavor_get", "Get a flavor", answer=FlavorOutput)
    def get(self, request: Request, flavor: str) -> Response:
        """Returns its resources, state and price, and how many of its GPUs are free. Drafts and retired flavors are
        included."""
        return self._shown(flavor)

    @operation(
        "platform_flavor_change", "Sell or retire a flavor", body=FlavorStateInput, answer=FlavorOutput
    )
    def patch(self, request: Request, flavor: str) -> Response:
        """Workspaces and clusters that have a retired flavor keep it."""
        found = flavor_get_for(actor=self.actor, slug=flavor)
        asked = self.input(FlavorStateInput)
        if asked["state"] == OfferState.ACTIVE:
            flavor_offer(actor=self.actor, flavor=found, without_price=asked["without_price"])
        else:
            flavor_retire(actor=self.actor, flavor=found)
        return self._shown(flavor)

    def _shown(self, slug: str) -> Response:
        found = flavor_get_for(actor=self.actor, slug=slug)
        return Response(FlavorOutput(found, context=flavor_page(self.actor)["context"]).data)


class PlatformGpuTypeView(PlatformView):
    @operation("platform_gpu_type_get", "Get a GPU type", answer=GpuTypeOutput)
    def get(self, request: Request, gpu_type: str) -> Response:
        """Returns what its sites report about it and whether it is sold. Drafts and retired types are included."""
        return Response(GpuTypeOutput(self._named(gpu_type)).data)

    @operation(
        "platform_gpu_type_change", "Sell or retire a GPU type", body=GpuTypeStateInput, answer=GpuTypeOutput
    )
    def patch(self, request: Request, gpu_type: str) -> Response:
        """Flavors of an active GPU type can be sold. Workspaces and clusters that have a flavor of a retired type
        keep it."""
        found = self._named(gpu_type)
        asked = self.input(GpuTypeStateInput)
        if asked["state"] == OfferState.ACTIVE:
            gpu_type_publish(actor=self.actor, gpu_type=found, name=asked.get("name", ""))
        else:
            gpu_type_retire(actor=self.actor, gpu_type=found)
        return Response(GpuTypeOutput(self._named(gpu_type)).data)

    def _named(self, slug: str) -> GpuType:
        return first_of(gpu_types_for(actor=self.actor).filter(slug=slug), "GPU type")


def _pool(asked: dict[str, Any]) -> GpuPool:
    """Removes the keys `site` and `gpu_type` from the input and returns their pool."""
    site, gpu_type = asked.pop("site"), asked.pop("gpu_type")
    rows = GpuPool.objects.select_related("site", "gpu_type")
    pool = (
        rows.filter(site__slug=site, gpu_type__slug=gpu_type).first()
        if "\x00" not in site + gpu_type
        else None
    )
    if pool is None:
        raise Invalid.field("gpu_type", f"the site {site} has no GPUs of the type {gpu_type}")
    return pool
