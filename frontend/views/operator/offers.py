"""What is sold: GPU types that sites have told of, and flavors made from their pools."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.contrib import messages
from django.db import transaction
from django.db.models import Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from billing.selectors import gpu_price, prices_at, rate_card_default
from billing.services import rate_set
from billing.services.offers import flavor_offer
from frontend.forms.operator import FlavorForm, SellForm
from frontend.frame import checked, done, draw_page, posted, refusals_on, refusals_shown
from frontend.lists import OFFERED, Column, Listing, Query, find, list_page, paged, saying
from frontend.presenters.tuning import nodes_give, tuning_words
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page
from gpuaas.catalog import services
from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.catalog.selectors import flavor_get_for, flavors_for, gpu_types_for, pools_for
from gpuaas.catalog.states import OfferState
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.looks import Tone
from gpuaas.core.rows import first_of
from gpuaas.metering.models import Meter
from quotas.gpus import gpus_of_pools

TONES = {OfferState.DRAFT: Tone.WAIT, OfferState.ACTIVE: Tone.OK, OfferState.RETIRED: Tone.OFF}


@dataclass(frozen=True)
class FlavorShown:
    """`price` is of one flavor-hour held: GPUs times the price of one."""

    flavor: Flavor
    tone: Tone
    free: int
    unit_price: Decimal | None
    by_use: bool
    currency: str
    blocked: str
    tuned: str
    priced: bool


@dataclass(frozen=True)
class Unsold:
    """A pool without a flavor: `new` where tenants have never seen its GPU type, `trouble` where it cannot be sold."""

    pool: GpuPool
    form: SellForm
    new: bool
    trouble: str

    @property
    def why(self) -> str:
        return f"why-sell-{self.pool.pk}"


LIST = Listing(
    "flavors",
    columns=(
        Column("slug", "Flavor", "slug", "flavor.slug"),
        Column("gpu_type", value="flavor.pool.gpu_type.name"),
        Column("state", "State", "state", "flavor.state"),
        Column("site", "Site", "pool__site__slug", "flavor.pool.site.slug"),
        Column("gpus", "GPUs", "gpus", "flavor.gpus", numeric=True),
        Column("vcpus", "vCPU", "vcpus", "flavor.vcpus", numeric=True),
        Column("memory_gib", "Memory", "memory_gib", "flavor.memory_gib", numeric=True),
        Column("price_class", "Price class", "price_class", "flavor.price_class"),
        Column("gpu_hour", "GPU hour", value="unit_price", numeric=True),
        Column("currency"),
        Column("free", "Free", numeric=True),
        Column("change", "Change", value=None, quiet=True),
    ),
    filters=(find("Find by name or site", "Name or site"),),
)


def _of_type(name: str, label: str = "", *, numeric: bool = False) -> Column:
    return Column(name, label, name if label else "", f"0.{name}", numeric=numeric)


GPU_TYPES = Listing(
    "GPU types",
    columns=(
        _of_type("name", "GPU type"),
        _of_type("slug"),
        _of_type("state", "State"),
        _of_type("product", "Product"),
        _of_type("memory_gib", "Memory", numeric=True),
        _of_type("compute_capability", "Capability"),
        _of_type("sharing", "Sharing"),
        _of_type("interconnect", "Link"),
        _of_type("devices", "Devices", numeric=True),
        Column("change", "Change", value=None, quiet=True),
    ),
    filters=(find(),),
)


def _draw(
    request: HttpRequest, here: OperatorPlace, refused: Mapping[uuid.UUID, SellForm] | None = None
) -> HttpResponseBase:
    pools, unsold = pools_for(actor=here.actor), pools_for(actor=here.actor).filter(flavors=None)
    if refused:
        unsold = unsold.filter(pk__in=list(refused))

    def found(query: Query) -> QuerySet[Flavor]:
        known, text = flavors_for(actor=here.actor, drafts=True), query["q"]
        return known.filter(_named(text, "pool__") | Q(slug__icontains=text)) if text else known

    shown = LIST.of(request, found, _shown, without=() if here.may_manage else {"change"})
    text = shown.query["q"]
    waiting = paged(request, unsold, parameter="unsold")
    context = {
        "form": next(iter((refused or {}).values()), None),
        "pools": (pools.filter(_named(text)) if text else pools)[:OFFERED],
        "unsold": [_unsold(pool, refused or {}) for pool in waiting],
        "waiting": waiting,
        "currency": rate_card_default().currency,
        "crumbs": crumbs("Supply", ("Flavors", "")),
    }
    return list_page(request, "operator/flavors.html", shown, context, refused=bool(refused))


def _shown(flavors: Sequence[Flavor]) -> list[FlavorShown]:
    prices, gpus = prices_at(), gpus_of_pools(flavor.pool for flavor in flavors)
    rows = []
    for flavor in flavors:
        price, meter = gpu_price(prices, flavor.pk)
        type_state = flavor.pool.gpu_type.state
        rows.append(
            FlavorShown(
                flavor=flavor,
                tone=TONES[OfferState(flavor.state)],
                free=gpus[flavor.pool_id].free_as(flavor),
                unit_price=price.per_hour if price else None,
                by_use=meter == Meter.GPU_ALLOCATED,
                currency=price.currency if price else "",
                blocked="" if type_state == OfferState.ACTIVE else "its GPU type is not published",
                tuned=" · ".join(tuning_words(flavor)),
                priced=price is not None,
            )
        )
    return rows


flavors = operator_page(_draw)


def _named(text: str, pool: str = "") -> Q:
    return Q(**{f"{pool}site__slug__icontains": text}) | Q(**{f"{pool}gpu_type__name__icontains": text})


def _unsold(pool: GpuPool, refused: Mapping[uuid.UUID, SellForm]) -> Unsold:
    return Unsold(
        pool=pool,
        form=refused.get(pool.pk) or SellForm(auto_id=f"sell-{pool.pk}-%s"),
        new=pool.gpu_type.state == OfferState.DRAFT,
        trouble=pool.trouble,
    )


@operator_page
@checked
def flavor_new(request: HttpRequest, here: OperatorPlace, pool: uuid.UUID) -> HttpResponse:
    """The proposal is one device with its share of the pool's smallest node."""
    if not here.may_manage:
        return redirect("frontend:operator_flavors")
    row = _pool(pool)
    form = FlavorForm(posted(request), initial={**services.flavor_defaults(row)})
    if form.is_valid():
        with refusals_on(form, Invalid):
            made = services.flavor_create(actor=here.actor, pool=row, **form.cleaned_data)
            text = f"Draft {made.slug} created. Set its price, then publish it."
            return done(request, text, "frontend:operator_flavors")
    context = {
        "pool": row,
        "form": form,
        "nodes": nodes_give(row),
        "crumbs": crumbs("Supply", ("Flavors", "operator_flavors"), ("New flavor", "")),
    }
    return draw_page(request, "operator/flavor_new.html", context)


def _pool(pk: uuid.UUID) -> GpuPool:
    return first_of(GpuPool.objects.select_related("site", "gpu_type").filter(pk=pk), "pool")


@operator_action
@checked
def pool_sell(request: HttpRequest, here: OperatorPlace, pool: uuid.UUID) -> HttpResponseBase:
    """The usual case in one step: the GPU type is published with the proposed flavor and its price, or nothing is."""
    row = _pool(pool)
    form = SellForm(request.POST, auto_id=f"sell-{pool}-%s")
    if form.is_valid():
        with refusals_on(form, Conflict, Invalid, default="price"):
            made = _sell(here, row, form.cleaned_data["price"].strip())
            return done(request, f"{made.slug} is on offer.", "frontend:operator_flavors")
    return _draw(request, here, {row.pk: form})


@transaction.atomic
def _sell(here: OperatorPlace, row: GpuPool, price: str) -> Flavor:
    made = services.pool_publish(actor=here.actor, pool=row)
    rate_set(actor=here.actor, flavor=made, meter=Meter.GPU_HELD, price=price)
    return made


@operator_action
def flavor_state(request: HttpRequest, here: OperatorPlace, slug: str, verb: str) -> HttpResponse:
    row = flavor_get_for(actor=here.actor, slug=slug)
    with refusals_shown(request, Conflict, Invalid):
        if verb == "publish":
            meant = request.POST.get("without_price") == "1"
            flavor_offer(actor=here.actor, flavor=row, without_price=meant)
        else:
            services.flavor_retire(actor=here.actor, flavor=row)
        outcome = "is on offer now" if verb == "publish" else "is retired; current holders keep it"
        messages.success(request, f"{slug} {outcome}.")
    return redirect("frontend:operator_flavors")


def _gpu_types(request: HttpRequest, here: OperatorPlace, *, refused: bool = False) -> HttpResponseBase:
    rows = gpu_types_for(actor=here.actor).annotate(devices=Sum("pools__capacity"))
    order = [OfferState.DRAFT, OfferState.ACTIVE, OfferState.RETIRED]
    found = sorted(rows, key=lambda row: (order.index(OfferState(row.state)), row.slug))
    shown = GPU_TYPES.of(
        request,
        lambda query: saying(found, query["q"], lambda row: f"{row.slug} {row.name}"),
        lambda rows: [(row, TONES[OfferState(row.state)]) for row in rows],
        without=() if here.may_manage else {"change"},
    )
    context = {
        "drafts": sum(1 for row in found if row.state == OfferState.DRAFT),
        "crumbs": crumbs("Supply", ("GPU types", "")),
    }
    return list_page(request, "operator/gpu_types.html", shown, context, refused=refused)


gpu_types = operator_page(_gpu_types)


@operator_action
def gpu_type_state(request: HttpRequest, here: OperatorPlace, slug: str, verb: str) -> HttpResponseBase:
    row = first_of(gpu_types_for(actor=here.actor).filter(slug=slug), "GPU type")
    if verb == "retire":
        services.gpu_type_retire(actor=here.actor, gpu_type=row)
        text = f"{row.name} is retired; current holders keep it."
        return done(request, text, "frontend:operator_gpu_types")
    name = request.POST.get("name", "").strip()
    with refusals_shown(request, Invalid):
        services.gpu_type_publish(actor=here.actor, gpu_type=row, name="" if name == row.name else name)
        text = f"{row.name} is published. You can now publish its flavors."
        return done(request, text, "frontend:operator_gpu_types")
    return _gpu_types(request, here, refused=True)
