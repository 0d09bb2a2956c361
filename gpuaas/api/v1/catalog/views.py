"""What is offered: flavors with price and free devices, GPU types, and sites as tenants see them."""

import uuid
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.selectors import Price, gpu_price, prices_at
from billing.wares import storage_ware
from gpuaas.api.fields import Money, Output, PageQuery, QuerySwitch, QueryWhole, Text
from gpuaas.api.schema import operation
from gpuaas.api.views import ApiView
from gpuaas.catalog.models import Flavor, Site, StorageClass
from gpuaas.catalog.offers import gives
from gpuaas.catalog.selectors import flavors_for, gpu_types_for, storage_classes_sold
from gpuaas.catalog.states import HugepagesSize, OfferState, PriceClass, Sharing
from gpuaas.core.conditions import Status, conditions_read
from gpuaas.metering.models import Meter
from quotas.gpus import Gpus, gpus_of_pools, organizations_of
from tenants.actors import Actor

COMPUTE = r"\A[0-9]{1,3}(?:\.[0-9]{1,3})?\Z"


class FlavorQuery(PageQuery):
    memory_gib_min = QueryWhole(required=False, min_value=0, help_text="GPU memory, at least.")
    compute_capability_min = serializers.RegexField(
        COMPUTE, required=False, help_text="Minimum, such as 9.0; compared as a version."
    )
    ecc = QuerySwitch(required=False, help_text="Memory with error correction.")
    mig_capable = QuerySwitch(required=False, help_text="true: the GPU can be split into MIG slices.")
    interconnect = Text(required=False, max_length=32, help_text="For example NVLink.")
    arch = Text(required=False, max_length=16, help_text="Architecture of its nodes: amd64, arm64.")
    nvlink_domain = QuerySwitch(required=False, help_text="true: its nodes are joined by NVLink.")
    whole_node = QuerySwitch(required=False, help_text="true: sold by the node.")
    same_numa = QuerySwitch(
        required=False, help_text="true: GPUs, cores and memory of a pod are on one NUMA node."
    )
    same_rack = QuerySwitch(required=False, help_text="true: the racks of its nodes are known.")
    memory_gib = QueryWhole(required=False, min_value=0, help_text="Old name of memory_gib_min.")
    compute_capability = serializers.RegexField(
        COMPUTE, required=False, help_text="Old name of compute_capability_min."
    )
    site = Text(required=False, max_length=40)
    price_class = serializers.ChoiceField(choices=PriceClass.choices, required=False)


class GpuTypeOutput(Output):
    slug = serializers.CharField()
    name = serializers.CharField()
    product = serializers.CharField()
    memory_gib = serializers.IntegerField()
    compute_capability = serializers.CharField(allow_blank=True)
    ecc = serializers.BooleanField(allow_null=True, help_text="null: the site does not report it.")
    mig_capable = serializers.BooleanField(allow_null=True)
    sharing = serializers.ChoiceField(choices=Sharing.choices)
    mig_profile = serializers.CharField(allow_blank=True)
    interconnect = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(choices=OfferState.choices)


class FlavorOutput(Output):
    slug = serializers.CharField()
    name = serializers.CharField()
    site = serializers.CharField(source="pool.site.slug")
    gpu_type = GpuTypeOutput(source="pool.gpu_type")
    gpus = serializers.IntegerField()
    vcpus = serializers.IntegerField()
    memory_gib = serializers.IntegerField()
    disk_gib = serializers.IntegerField()
    price_class = serializers.ChoiceField(choices=PriceClass.choices)
    notice_seconds = serializers.IntegerField(
        help_text="Of spot: for how long what runs may go on once a buyer needs its GPUs; else 0."
    )
    whole_node = serializers.BooleanField()
    hugepages_size = serializers.ChoiceField(choices=HugepagesSize.choices, allow_blank=True)
    hugepages_gib = serializers.IntegerField(help_text="Part of its memory.")
    exclusive_cpus = serializers.BooleanField(help_text="Full cores, by the kubelet's static policy.")
    sysctls = serializers.ListField(
        child=serializers.CharField(), help_text="Kernel parameters that its pods may set."
    )
    profile = serializers.CharField(allow_blank=True)
    arch = serializers.CharField(
        source="pool.arch",
        allow_blank=True,
        help_text="Architecture of its nodes: amd64, arm64; empty: not known.",
    )
    nvlink_domain = serializers.BooleanField()
    same_numa = serializers.BooleanField()
    same_rack = serializers.BooleanField()
    gives = serializers.SerializerMethodField(help_text="The same in words.")
    state = serializers.ChoiceField(choices=OfferState.choices)
    free_gpus = serializers.SerializerMethodField(
        help_text="What can still be held: sellable and held by nobody, without pools reserved for others; of spot, what can still "
        "be lent."
    )
    largest_block = serializers.IntegerField(
        source="pool.largest_block", help_text="Most unallocated devices on one node."
    )
    price_per_hour = serializers.SerializerMethodField(
        help_text=(
            "Per flavor, by the standard rate card, of hours held or, where only those have a price, of hours in "
            "use; null: no price is set. What an organization pays is in its price list and in a preview."
        )
    )
    currency = serializers.SerializerMethodField()

    def get_gives(self, flavor: Flavor) -> list[str]:
        return gives(flavor)

    def get_free_gpus(self, flavor: Flavor) -> int:
        gpus: Gpus = self.context["gpus"]
        return gpus[flavor.pool_id].free_as(flavor, self.context["organizations"])

    def get_price_per_hour(self, flavor: Flavor) -> str | None:
        price = self._price(flavor)
        return None if price is None else Money().to_representation(price.per_hour * flavor.gpus)

    def get_currency(self, flavor: Flavor) -> str | None:
        price = self._price(flavor)
        return price.currency if price else None

    def _price(self, flavor: Flavor) -> Price | None:
        prices: dict[tuple[uuid.UUID | None, Meter], Price] = self.context["prices"]
        return gpu_price(prices, flavor.pk)[0]


class SiteOutput(Output):
    slug = serializers.CharField()
    name = serializers.CharField()
    reachable = serializers.SerializerMethodField(
        help_text="false: requests wait and continue automatically; null: not checked yet."
    )

    def get_reachable(self, site: Site) -> bool | None:
        for condition in conditions_read(site.conditions):
            if condition.type == "Reachable":
                return condition.status == Status.TRUE
        return None


class FlavorsView(ApiView):
    @operation("flavor_list", "List flavors", rows=FlavorOutput, query=FlavorQuery)
    def get(self, request: Request) -> Response:
        """Lists what may be requested now, with the price, the number of free devices, and the largest number on one
        node."""
        return self.page(
            flavors_for(actor=self.actor, **filters(self.params)), FlavorOutput, **flavor_page(self.actor)
        )


class GpuTypesView(ApiView):
    @operation("gpu_type_list", "List GPU types", rows=GpuTypeOutput)
    def get(self, request: Request) -> Response:
        """Limits are set per GPU type, as `gpu:<slug>`."""
        return self.page(gpu_types_for(actor=self.actor), GpuTypeOutput, key="slug")


class SitesView(ApiView):
    @operation("site_list", "List sites", rows=SiteOutput)
    def get(self, request: Request) -> Response:
        """Lists sites at which something is sold."""
        selling = flavors_for(actor=self.actor).order_by().values("pool__site")
        return self.page(Site.objects.defer("credentials").filter(pk__in=selling), SiteOutput, key="slug")


OLD_NAMES = {"memory_gib": "memory_gib_min", "compute_capability": "compute_capability_min"}


def filters(params: dict[str, Any]) -> dict[str, Any]:
    wanted = {name: value for name, value in params.items() if name not in {"cursor", "page_size"}}
    old = {new: wanted.pop(name) for name, new in OLD_NAMES.items() if name in wanted}
    return {**old, **wanted}


def flavor_page(actor: Actor) -> dict[str, Any]:
    """Keyword arguments of `page(…)` for flavors."""
    gpus = gpus_of_pools(owners=True)
    known = {"gpus": gpus, "organizations": organizations_of(actor=actor, gpus=gpus), "prices": prices_at()}
    return {"key": "slug", "context": known}


class StorageClassOutput(Output):
    slug = serializers.CharField()
    site = serializers.CharField(source="site.slug")
    name = serializers.CharField(help_text="By which claims at the site use it.")
    price_per_hour = serializers.SerializerMethodField(
        help_text="Of a GiB, by the standard rate card: its own, else that of plain storage; null: no price is set."
    )
    currency = serializers.SerializerMethodField()

    def _price(self, row: StorageClass) -> Price | None:
        prices: dict[tuple[uuid.UUID | None, Meter], Price] = self.context["prices"]
        found = prices.get((storage_ware(row.resource), Meter.STORAGE_HELD))
        return found or prices.get((None, Meter.STORAGE_HELD))

    def get_price_per_hour(self, row: StorageClass) -> str | None:
        price = self._price(row)
        return None if price is None else Money().to_representation(price.per_hour)

    def get_currency(self, row: StorageClass) -> str | None:
        price = self._price(row)
        return price.currency if price else None


class StorageClassesView(ApiView):
    @operation("storage_class_list", "List storage classes", rows=StorageClassOutput)
    def get(self, request: Request) -> Response:
        """Lists the storage classes on offer, by site. An order names them in `storage_classes`."""
        prices = {"prices": prices_at()}
        return self.page(storage_classes_sold(), StorageClassOutput, key="slug", context=prices)
