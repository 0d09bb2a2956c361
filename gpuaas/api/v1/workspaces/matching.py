"""Items by attributes: "2 GPUs with at least 80 GiB" becomes a flavor on offer, and the answer names it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from rest_framework import serializers

from billing.selectors import gpu_price, prices_at
from gpuaas.api.fields import Input, Pick, Switch, Text, Whole
from gpuaas.api.v1.catalog.views import COMPUTE
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.selectors import flavors_for
from gpuaas.catalog.states import PriceClass
from gpuaas.core.errors import Invalid
from gpuaas.metering.models import Meter
from gpuaas.workspaces.amounts import amounts_of
from gpuaas.workspaces.services.validation import MAX_COUNT
from quotas.selectors import admission_preview
from tenants.actors import Actor
from tenants.models import Project

# so many of the cheapest are asked whether there is room for them
ASKED = 5

Offer = tuple[Flavor, int]


class MatchInput(Input):
    memory_gib_min = Whole(required=False, help_text="GPU memory, at least.")
    compute_capability_min = serializers.RegexField(
        COMPUTE, required=False, help_text="Minimum, such as 9.0."
    )
    ecc = Switch(required=False)
    mig_capable = Switch(required=False)
    interconnect = Text(required=False, max_length=32)
    arch = Text(required=False, max_length=16, help_text="Architecture of its nodes: amd64, arm64.")
    nvlink_domain = Switch(required=False)
    whole_node = Switch(required=False)
    same_numa = Switch(required=False)
    same_rack = Switch(required=False)
    site = Text(required=False, max_length=40)
    price_class = Pick(choices=PriceClass.choices, required=False)


class AskInput(Input):
    flavor = Text(required=False, max_length=64, help_text="Slug of a flavor; requires `count`.")
    count = Whole(required=False, min_value=1, max_value=MAX_COUNT)
    match = MatchInput(required=False, help_text="Required attributes, instead of a flavor; requires `gpus`.")
    gpus = Whole(required=False, min_value=1, max_value=MAX_COUNT, help_text="Number of GPUs in total.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if set(attrs) not in ({"flavor", "count"}, {"match", "gpus"}):
            raise serializers.ValidationError("give a flavor with count, or match with gpus")
        return attrs


def items_chosen(
    *, actor: Actor, project: Project, items: Sequence[Mapping[str, Any]], storage_gib: int
) -> list[tuple[str, int]]:
    """Slugs with counts. A named flavor is taken as it is; for a description, the cheapest flavor that fits now.

    All items are at one site: that of the first named flavor or, without one, that of the first match.
    """
    chosen: Counter[str] = Counter()
    for item in items:
        if "flavor" in item:
            if item["flavor"] in chosen:
                raise Invalid.field("items", "list each flavor only once")
            chosen[item["flavor"]] = item["count"]
    site = _site_of(actor, chosen)
    for item in items:
        if "match" in item:
            wanted = dict(item["match"])
            if site and wanted.setdefault("site", site) != site:
                raise Invalid.field("items", "all flavors of a workspace must be at one site")
            flavor, count = _best(actor, project, wanted, item["gpus"], storage_gib)
            site = flavor.pool.site.slug
            chosen[flavor.slug] += count
    return list(chosen.items())


def _site_of(actor: Actor, named: Mapping[str, int]) -> str:
    rows = flavors_for(actor=actor).filter(slug__in=[slug for slug in named if "\x00" not in slug])
    return next((flavor.pool.site.slug for flavor in rows), "")


def _best(actor: Actor, project: Project, wanted: Mapping[str, Any], gpus: int, storage_gib: int) -> Offer:
    """The cheapest flavor with room for the count. If none has room, the cheapest: its refusal names the limit that
    is in the way."""
    spot = wanted.get("price_class") == PriceClass.SPOT  # nobody borrows who has not asked to
    offers = [
        (flavor, gpus // flavor.gpus)
        for flavor in flavors_for(actor=actor, **wanted)
        if gpus % flavor.gpus == 0 and (spot or not flavor.is_lent)
    ]
    if not offers:
        raise Invalid.field(
            "items", f"no flavor on offer gives {gpus} GPUs with {_in_words(wanted)}: see /flavors"
        )
    prices = prices_at(organization=project.organization)

    def order(offer: Offer) -> tuple[bool, Decimal, int, str]:
        price, _ = (
            gpu_price(prices, offer[0].pk) if spot else (prices.get((offer[0].pk, Meter.GPU_HELD)), None)
        )
        return price is None, price.per_hour if price else Decimal(0), offer[1], offer[0].slug

    cheapest = sorted(offers, key=order)[:ASKED]
    return next((offer for offer in cheapest if _has_room(project, offer, storage_gib)), cheapest[0])


def _has_room(project: Project, offer: Offer, storage_gib: int) -> bool:
    amounts = amounts_of([offer], storage_gib=storage_gib)
    return admission_preview(project=project, site=offer[0].pool.site, amounts=amounts).fits


def _in_words(wanted: Mapping[str, Any]) -> str:
    parts = [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in wanted.items()
    ]
    return ", ".join(parts) or "anything"
