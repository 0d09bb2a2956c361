"""What is sold: GPU types that sites have told of, and flavors made from their pools."""

import uuid
from dataclasses import dataclass
from decimal import Decimal

from django.contrib import messages
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from billing.selectors import prices_at
from frontend.components import Tone
from frontend.forms import refuse
from frontend.forms.operator import FlavorForm
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page
from gpuaas.catalog.models import Flavor, GpuPool, GpuType
from gpuaas.catalog.selectors import capacity_map, flavor_get_for, flavors_for, gpu_types_for
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


@operator_page
def flavors(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
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
            )
        )
    sold = {row.flavor.pool_id for row in rows}
    pools = capacity_map(actor=here.actor)
    context = {
        "place": here,
        "rows": rows,
        "pools": pools,
        "unsold": [item for item in pools if item.pool.pk not in sold],
        "crumbs": crumbs("Supply", ("Flavors", "")),
    }
    return render(request, "operator/flavors.html", context)


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
    """One step for the usual case: publish the GPU type with the proposed flavor."""
    try:
        made = pool_publish(actor=here.actor, pool=_pool(pool))
    except (Conflict, Invalid) as error:
        messages.error(request, error.message)
    else:
        messages.success(request, f"{made.slug} is on offer. Without a price its usage waits in quarantine.")
    return redirect("frontend:operator_flavors")


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
