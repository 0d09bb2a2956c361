"""Usage and revenue of a month, and the prices they come from."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from billing.models import Rate
from billing.rating import Cell, LineStatus
from billing.selectors import rate_card_default, rates_for, revenue_by_project, statement
from billing.selectors.budgets import budget_states, budgets_for
from billing.services import rate_set
from frontend.forms import refuse
from frontend.forms.operator import RateForm
from frontend.presenters.budgets import rows_of
from frontend.presenters.money import SHARED, UNITS, hours_of, month_shown
from frontend.views.operator.common import OperatorPlace, crumbs, month_asked, operator_page, paged
from gpuaas.catalog.models import Flavor, GpuType
from gpuaas.catalog.selectors import flavors_for
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.metering.models import Meter

GPU_METERS = (Meter.GPU_HELD, Meter.GPU_ALLOCATED, Meter.GPU_STOPPED, Meter.GPU_SHELVED, Meter.GPU_IDLE)


@dataclass(frozen=True)
class TypeSum:
    """All projects' usage of one GPU type (or of what all share) in one meter."""

    name: str
    hours: Decimal
    unit: str
    amount: Decimal
    quarantined: bool
    included: bool


@operator_page
def usage(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    now = clock.now()
    first = month_asked(request, now)
    sheet = statement(actor=here.actor, month=first, now=now)
    revenue = revenue_by_project(actor=here.actor, month=first, now=now)
    context = {
        "place": here,
        "month": month_shown(first, now=now),
        "sheet": sheet,
        "projects": [(row, hours_of(row.gpu_seconds), hours_of(row.quarantined_seconds)) for row in revenue],
        "per_hour": sum((row.per_hour for row in revenue), Decimal(0)),
        "types": _by_type(sheet.lines),
        "gpu_hours": hours_of(sheet.gpu_seconds),
        "crumbs": crumbs("Money", ("Usage", "")),
    }
    return render(request, "operator/usage.html", context)


@operator_page
def budgets(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """All that are in force, each led to where its organization sees it."""
    page = paged(request, budgets_for(actor=here.actor).order_by("organization__slug", "name", "pk"))
    urls: dict[object, str] = {
        row.pk: reverse("frontend:organization_budget", args=[row.organization.slug, row.pk]) for row in page
    }
    context = {
        "place": here,
        "page": page,
        "rows": rows_of(budget_states(budgets=list(page)), urls),
        "organizations": True,
        "crumbs": crumbs("Money", ("Budgets", "")),
    }
    return render(request, "operator/budgets.html", context)


def _by_type(lines: Iterable[Cell]) -> list[TypeSum]:
    found: dict[tuple[str, str, bool], list[Cell]] = {}
    names = dict(GpuType.objects.values_list("slug", "name"))
    for line in lines:
        name = (
            names.get(line.gpu_type or "")
            or line.gpu_type
            or line.flavor_name
            or SHARED.get(line.meter, line.resource)
        )
        found.setdefault((name, UNITS[line.meter], line.status is LineStatus.QUARANTINED), []).append(line)
    rows = [
        TypeSum(
            name=name,
            hours=hours_of(sum(cell.unit_seconds for cell in cells)),
            unit=unit,
            amount=sum((cell.amount or Decimal(0) for cell in cells), Decimal(0)),
            quarantined=unpriced,
            included=all(cell.status is LineStatus.INCLUDED for cell in cells),
        )
        for (name, unit, unpriced), cells in found.items()
    ]
    return sorted(rows, key=lambda row: (row.included, -row.amount, row.name))


@dataclass(frozen=True)
class RateGroup:
    """The prices of one thing over time: in force, announced, and what they were."""

    name: str
    slug: str
    note: str
    meter: Meter
    current: Rate | None
    upcoming: tuple[Rate, ...]
    past: tuple[Rate, ...]


@operator_page
def rates(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    now = clock.now()
    flavors = list(flavors_for(actor=here.actor, drafts=True))
    form = RateForm(request.POST or None, initial={"what": request.GET.get("what", "")})
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid() and (made := _rate_made(here, form, flavors)):
            what = made.flavor.slug if made.flavor else SHARED[Meter(made.meter)]
            messages.success(request, f"The new price of {what} is {made.price} per hour.")
            return redirect("frontend:operator_prices")
    groups = rate_groups(rates_for(actor=here.actor), flavors, now)
    context = {
        "place": here,
        "card": rate_card_default(),
        "groups": groups,
        "unpriced": [group for group in groups if group.current is None and group.meter == Meter.GPU_HELD],
        "form": form,
        "flavors": flavors,
        "shared": [(meter.value, name) for meter, name in SHARED.items()],
        "chosen": form["what"].value() or "",
        "crumbs": crumbs("Money", ("Rate cards", "operator_rate_cards"), ("Single prices", "")),
    }
    return render(request, "operator/rates.html", context, status=status)


def _rate_made(here: OperatorPlace, form: RateForm, flavors: list[Flavor]) -> Rate | None:
    found = form.cleaned_data
    what = found["what"]
    flavor = next((row for row in flavors if row.slug == what), None)
    shared = {meter.value for meter in SHARED}
    if flavor is None and what not in shared:
        form.add_error("what", "There is no such flavor.")
        return None
    meter = found["meter"] or Meter.GPU_HELD if flavor else what
    try:
        return rate_set(
            actor=here.actor,
            flavor=flavor,
            meter=meter,
            price=found["price"].strip(),
            valid_from=form.start(),
        )
    except Invalid as error:
        refuse(form, error, fields={"flavor": "what"})
        return None


def rate_groups(rows: Iterable[Rate], flavors: Iterable[Flavor], now: datetime) -> list[RateGroup]:
    """Every flavor has a group, also without a price: that is what has to be seen."""
    found: dict[tuple[str, Meter], list[Rate]] = {(row.slug, Meter.GPU_HELD): [] for row in flavors}
    found |= {("", meter): [] for meter in SHARED}
    names: dict[str, Any] = {row.slug: row for row in flavors}
    for rate in rows:
        found.setdefault((rate.flavor.slug if rate.flavor else "", Meter(rate.meter)), []).append(rate)
    groups = []
    for (slug, meter), rates in found.items():
        flavor = names.get(slug)
        groups.append(
            RateGroup(
                name=slug or SHARED[meter],
                slug=slug or meter.value,
                note=f"{flavor.pool.gpu_type.name} at {flavor.pool.site.slug}" if flavor else "all flavors",
                meter=meter,
                current=next((rate for rate in rates if _in_force(rate, now)), None),
                upcoming=tuple(rate for rate in rates if rate.valid_from > now),
                past=tuple(rate for rate in reversed(rates) if rate.valid_to and rate.valid_to <= now),
            )
        )
    return groups


def _in_force(rate: Rate, now: datetime) -> bool:
    return rate.valid_from <= now and (rate.valid_to is None or rate.valid_to > now)
