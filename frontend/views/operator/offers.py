"""What is sold: GPU types that sites have told of, and flavors made from their pools."""

import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from billing.selectors import prices_at, rate_card_default
from billing.services import rate_set
from frontend.components import Tone
from frontend.forms import refuse
from frontend.forms.operator import FlavorForm, SellForm
from frontend.presenters.tuning import nodes_give, tuning_words
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page
from gpuaas.catalog.models import Flavor, GpuPool, GpuType
from gpuaas.catalog.selectors import PoolMap, capacity_map, flavor_get_for, flavors_for, gpu_types_for
from gpuaas.catalog.services import (
    flavor_create,
    flavor_defaults,
    flavor_publish,
    flavor_retire,
    gpu_type_publish,
    gpu_type_retire,
    pool_publish,
)
from gpuaas.catalog.states import OfferState
from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.metering.models import Meter

TONES = {OfferState.DRAFT: Tone.WAIT, OfferState.ACTIVE: Tone.OK, OfferState.RETIRED: Tone.OFF}


@dataclass(frozen=True)
class FlavorShown:
    """`price` is of one flavor-hour held: GPUs times the price of one."""

    flavor: Flavor
    tone: Tone
    free: int
    unit_price: Decimal | None
    currency: str
    blocked: str
    tuned: str


@dataclass(frozen=True)
class Unsold:
    """A pool without a flavor: `new` where tenants have never seen its GPU type, `trouble` where it cannot be sold."""

    item: PoolMap
    form: SellForm
    new: bool
    trouble: str


@operator_page
def flavors(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    return _draw(request, here)


def _draw(
    request: HttpRequest,
    here: OperatorPlace,
    *,
    status: int = 200,
    refused: dict[Any, SellForm] | None = None,
) -> HttpResponse:
    prices = prices_at()
    rows = []
    for flavor in flavors_for(actor=here.actor, drafts=True):
        price = prices.get((flavor.pk, Meter.GPU_HELD))
        type_state = flavor.pool.gpu_type.state
        rows.append(
            FlavorShown(
                flavor=flavor,
                tone=TONES[OfferState(flavor.state)],
                free=getattr(flavor, "free", 0),
                unit_price=price.per_hour if price else None,
                currency=price.currency if price else "",
                blocked="" if type_state == OfferState.ACTIVE else "its GPU type is not published",
                tuned=" · ".join(tuning_words(flavor)),
            )
        )
    sold = {row.flavor.pool_id for row in rows}
    pools = capacity_map(actor=here.actor)
    context = {
        "place": here,
        "rows": rows,
        "pools": pools,
        "unsold": [_unsold(item, refused or {}) for item in pools if item.pool.pk not in sold],
        "currency": rate_card_default().currency,
        "crumbs": crumbs("Supply", ("Flavors", "")),
    }
    return render(request, "operator/flavors.html", context, status=status)


def _unsold(item: PoolMap, refused: dict[Any, SellForm]) -> Unsold:
    pk = item.pool.pk
    return Unsold(
        item=item,
        form=refused.get(pk) or SellForm(auto_id=f"sell-{pk}-%s"),
        new=item.gpu_type.state == OfferState.DRAFT,
        trouble=item.pool.trouble,
    )


@operator_page
def flavor_new(request: HttpRequest, here: OperatorPlace, pool: uuid.UUID) -> HttpResponse:
    """The proposal is one device with its share of the pool's smallest node."""
    if not here.may_manage:
        return redirect("frontend:operator_flavors")
    row = _pool(pool)
    proposal = flavor_defaults(row)
    initial = {
        "slug": proposal.slug,
        "name": proposal.name,
        "vcpus": proposal.vcpus,
        "memory_gib": proposal.memory_gib,
        "disk_gib": proposal.disk_gib,
    }
    form = FlavorForm(request.POST or None, initial=initial)
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                made = flavor_create(actor=here.actor, pool=row, **form.cleaned_data)
            except Invalid as error:
                refuse(form, error)
            else:
                messages.success(request, f"{made.slug} is a draft: set its price, then publish it.")
                return redirect("frontend:operator_flavors")
    context = {
        "place": here,
        "pool": row,
        "form": form,
        "nodes": nodes_give(row),
        "crumbs": crumbs("Supply", ("Flavors", "operator_flavors"), ("New flavor", "")),
    }
    return render(request, "operator/flavor_new.html", context, status=status)


def _pool(pk: uuid.UUID) -> GpuPool:
    row = GpuPool.objects.select_related("site", "gpu_type").filter(pk=pk).first()
    if row is None:
        raise NotFound("there is no such pool")
    return row


@operator_action
def pool_sell(request: HttpRequest, here: OperatorPlace, pool: uuid.UUID) -> HttpResponse:
    """The usual case in one step: the GPU type is published with the proposed flavor and its price, or nothing is."""
    row = _pool(pool)
    form = SellForm(request.POST, auto_id=f"sell-{pool}-%s")
    if form.is_valid():
        try:
            made = _sell(here, row, form.cleaned_data["price"].strip())
        except (Conflict, Invalid) as error:
            refuse(form, error, default="price")
        else:
            messages.success(request, f"{made.slug} is on offer.")
            return redirect("frontend:operator_flavors")
    return _draw(request, here, status=422, refused={row.pk: form})


@transaction.atomic
def _sell(here: OperatorPlace, row: GpuPool, price: str) -> Flavor:
    made = pool_publish(actor=here.actor, pool=row)
    rate_set(actor=here.actor, flavor=made, meter=Meter.GPU_HELD, price=price)
    return made


@operator_action
def flavor_state(request: HttpRequest, here: OperatorPlace, slug: str, verb: str) -> HttpResponse:
    row = flavor_get_for(actor=here.actor, slug=slug)
    try:
        if verb == "publish":
            flavor_publish(actor=here.actor, flavor=row)
        else:
            flavor_retire(actor=here.actor, flavor=row)
    except Conflict as error:
        messages.error(request, f"{error.message[:1].upper()}{error.message[1:]}.")
    else:
        said = "is on offer now" if verb == "publish" else "is sold no more; who has it keeps it"
        messages.success(request, f"{slug} {said}.")
    return redirect("frontend:operator_flavors")


@operator_page
def gpu_types(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    rows = gpu_types_for(actor=here.actor).annotate(devices=Sum("pools__capacity"))
    order = [OfferState.DRAFT, OfferState.ACTIVE, OfferState.RETIRED]
    found = sorted(rows, key=lambda row: (order.index(OfferState(row.state)), row.slug))
    context = {
        "place": here,
        "rows": [(row, TONES[OfferState(row.state)]) for row in found],
        "drafts": sum(1 for row in found if row.state == OfferState.DRAFT),
        "crumbs": crumbs("Supply", ("GPU types", "")),
    }
    return render(request, "operator/gpu_types.html", context)


@operator_action
def gpu_type_state(request: HttpRequest, here: OperatorPlace, slug: str, verb: str) -> HttpResponse:
    row = gpu_types_for(actor=here.actor).filter(slug=slug).first()
    if row is None:
        raise NotFound("there is no such GPU type")
    if verb == "publish":
        return _type_publish(request, here, row)
    gpu_type_retire(actor=here.actor, gpu_type=row)
    messages.success(request, f"{row.name} is sold no more; who has it keeps it.")
    return redirect("frontend:operator_gpu_types")


def _type_publish(request: HttpRequest, here: OperatorPlace, row: GpuType) -> HttpResponse:
    name = request.POST.get("name", "").strip()
    try:
        gpu_type_publish(actor=here.actor, gpu_type=row, name="" if name == row.name else name)
    except Invalid as error:
        messages.error(request, error.message)
    else:
        messages.success(request, f"{row.name} is published. Now its flavors can be.")
    return redirect("frontend:operator_gpu_types")
