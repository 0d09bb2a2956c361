"""Operators: GPU types and flavors, from what the sites have to what is sold."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Pick, Switch, Text, Whole
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.catalog import FlavorOutput, FlavorQuery, GpuTypeOutput, filters, priced
from gpuaas.api.views import ApiView
from gpuaas.catalog.models import GpuPool, GpuType
from gpuaas.catalog.selectors import flavor_get_for, flavors_for, gpu_types_for
from gpuaas.catalog.services import (
    flavor_create,
    flavor_publish,
    flavor_retire,
    gpu_type_publish,
    gpu_type_retire,
)
from gpuaas.catalog.states import HugepagesSize, OfferState, PriceClass
from gpuaas.core.errors import Invalid, NotFound
from tenants.roles import Permission
from tenants.selectors import platform_require

TAG = "platform"
SOLD = [(OfferState.ACTIVE.value, "sell it"), (OfferState.RETIRED.value, "sell it no more")]


class FlavorStateInput(Input):
    state = Pick(choices=SOLD)


class GpuTypeStateInput(Input):
    state = Pick(choices=SOLD)
    name = Text(required=False, max_length=100, help_text="For people; default: as its sites call it.")


class FlavorInput(Input):
    site = Text(max_length=40)
    gpu_type = Text(max_length=64, help_text="A GPU type that the site has.")
    slug = Text(max_length=64)
    name = Text(max_length=100)
    gpus = Whole(required=False, default=1, min_value=1, max_value=1000)
    vcpus = Whole(min_value=1)
    memory_gib = Whole(min_value=1)
    disk_gib = Whole(required=False, default=0)
    price_class = Pick(choices=PriceClass.choices, required=False, default=PriceClass.ON_DEMAND)
    whole_node = Switch(required=False, default=False, help_text="Sold by the node: all GPUs of one.")
    hugepages_size = Pick(choices=HugepagesSize.choices, required=False)
    hugepages_gib = Whole(
        required=False, default=0, help_text="Part of memory_gib; every node must have them."
    )
    exclusive_cpus = Switch(
        required=False, default=False, help_text="Every node's CPU manager must be static."
    )
    sysctls = serializers.ListField(child=Text(max_length=120), required=False, max_length=32)
    profile = Text(required=False, default="", max_length=63, allow_blank=True)


class PlatformFlavorsView(ApiView):
    @operation(
        "platform_flavor_list",
        "List all flavors",
        tag=TAG,
        answer=page_of(FlavorOutput),
        query=FlavorQuery,
    )
    def get(self, request: Request) -> Response:
        """Drafts and retired ones included."""
        del request
        rows = flavors_for(actor=self.actor, drafts=True, **filters(self.params))
        return self.page(rows, FlavorOutput, **priced())

    @operation(
        "platform_flavor_create", "Make a flavor", tag=TAG, body=FlavorInput, answer=FlavorOutput, status=201
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """A draft: price it, then sell it. What it requires of nodes, every node of the GPU type must have."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        asked = self.input(FlavorInput)
        made = flavor_create(actor=self.actor, pool=_pool(asked), **asked)
        fresh = flavor_get_for(actor=self.actor, slug=made.slug)
        return Response(FlavorOutput(fresh, context=priced()["context"]).data, status=201)


class PlatformFlavorView(ApiView):
    @operation(
        "platform_flavor_change",
        "Sell a flavor, or stop",
        tag=TAG,
        body=FlavorStateInput,
        answer=FlavorOutput,
    )
    def patch(self, request: Request, flavor: str) -> Response:
        """Who has it keeps it."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        found = flavor_get_for(actor=self.actor, slug=flavor)
        sell = self.input(FlavorStateInput)["state"] == OfferState.ACTIVE
        (flavor_publish if sell else flavor_retire)(actor=self.actor, flavor=found)
        fresh = flavor_get_for(actor=self.actor, slug=flavor)
        return Response(FlavorOutput(fresh, context=priced()["context"]).data)


class PlatformGpuTypeView(ApiView):
    @operation(
        "platform_gpu_type_change",
        "Sell a GPU type, or stop",
        tag=TAG,
        body=GpuTypeStateInput,
        answer=GpuTypeOutput,
    )
    def patch(self, request: Request, gpu_type: str) -> Response:
        """Its flavors can be sold from then on; who has one keeps it."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        found = gpu_types_for(actor=self.actor).filter(slug=gpu_type).first()
        if found is None:
            raise NotFound("there is no such GPU type")
        asked = self.input(GpuTypeStateInput)
        if asked["state"] == OfferState.ACTIVE:
            gpu_type_publish(actor=self.actor, gpu_type=found, name=asked.get("name", ""))
        else:
            gpu_type_retire(actor=self.actor, gpu_type=found)
        return Response(GpuTypeOutput(GpuType.objects.get(pk=found.pk)).data)


def _pool(asked: dict[str, Any]) -> GpuPool:
    """Takes the two words that name it out of what was asked."""
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
