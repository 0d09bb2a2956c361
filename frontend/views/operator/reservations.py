"""Pools that are reserved for one organization: the list, a new one after a look at what it means, and the end of one."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from billing.selectors import prices_at
from billing.selectors.accounts import currencies_of
from billing.selectors.idle import idle_now
from frontend import formats
from frontend.forms.reservations import ChangeForm, EndForm, ReservationForm
from frontend.frame import checked, done, is_check, posted, refusals_on
from frontend.lists import Column, Listing, find, list_page, named
from frontend.presenters.operator.reservations import ReservationRow, guests_words, reservation_rows
from frontend.views.operator.common import (
    OperatorPlace,
    crumbs,
    operator_action,
    operator_page,
    projects_proposed,
)
from frontend.views.prices import POOLS, RESERVED
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.states import PriceClass
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.metering.models import Meter
from quotas.models import PoolReservation
from quotas.pools import (
    pool_guests,
    pool_reservation_change,
    pool_reservation_end,
    pool_reservation_get_for,
    pool_reservations_for,
    pool_reserve,
    pool_reserve_check,
)

LIST = Listing(
    "reservations",
    columns=(
        *POOLS.columns[:2],
        Column("organization", "For", "project__organization__name", "row.project.organization.slug"),
        Column("project", value="row.project.slug"),
        POOLS.columns[2],
        *POOLS.columns[5:],
        Column("others"),
        Column("end", "Change or end", value=None, quiet=True),
    ),
    filters=(find("Find a pool, site or organization", "Pool, site or organization"),),
)


@operator_page
@checked
def reservations(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    """A POST without `confirmed` shows what would happen, and one with `back` the form again, as it was filled in. While it is
    typed, it is tried as if it were confirmed."""
    flavors = _flavors()
    form = _form(posted(request), flavors)
    plan: dict[str, Any] = {}
    if form.is_valid() and "back" not in request.POST:
        asked = dict(form.cleaned_data)
        confirmed, note = asked.pop("confirmed"), asked.pop("note")
        asked["flavor"] = flavors[asked["flavor"]]
        with refusals_on(form, Invalid):
            if confirmed or is_check(request):
                made = pool_reserve(actor=here.actor, note=note, **asked)
                text = f"{made.pool} is reserved for {made.project.organization.name}."
                return done(request, text, "frontend:operator_reservations")
            plan = _plan(here, asked) | {"note": note}
    return _draw(request, here, form, plan=plan, may_reserve=bool(flavors) and here.may_manage)


def _form(data: Any, flavors: Mapping[str, Flavor]) -> ReservationForm:
    return ReservationForm(data, flavors=[(slug, _named(row)) for slug, row in flavors.items()])


def _draw(
    request: HttpRequest,
    here: OperatorPlace,
    form: ReservationForm,
    *,
    may_reserve: bool,
    plan: Mapping[str, Any] | None = None,
    refused: EndForm | ChangeForm | None = None,
) -> HttpResponseBase:
    context = {
        "form": form,
        "refused": refused,
        "plan": plan,
        "may_reserve": may_reserve,
        "projects": projects_proposed(here),
        "crumbs": crumbs("Supply", ("Reservations", "")),
        "again": reverse("frontend:operator_reservations"),
    }
    found = LIST.of(
        request,
        lambda query: named(
            pool_reservations_for(actor=here.actor), query["q"], *RESERVED, "project__organization__name"
        ),
        lambda rows: _rows(rows, here, refused),
        without=() if here.may_manage else {"end"},
    )
    return list_page(request, "operator/reservations.html", found, context)


def _rows(
    rows: list[PoolReservation], here: OperatorPlace, refused: EndForm | ChangeForm | None
) -> list[ReservationRow]:
    wanted = [(row.pool, row.project.organization_id) for row in rows]
    return reservation_rows(
        rows,
        now=here.now,
        idle={each.reservation_id: each for each in idle_now(actor=here.actor, now=here.now)},
        guests=pool_guests(actor=here.actor, wanted=wanted),
        currencies=currencies_of(organizations=[organization for _, organization in wanted]),
        refused=refused,
    )


def _plan(here: OperatorPlace, asked: dict[str, Any]) -> dict[str, Any]:
    """What is confirmed. Raises Invalid where it is refused."""
    guests = pool_reserve_check(actor=here.actor, **asked)
    flavor, organization = asked["flavor"], asked["project"].organization
    price = prices_at(organization=organization).get((flavor.pk, Meter.GPU_IDLE))
    return {
        "flavor": flavor,
        "project": asked["project"],
        "valid_from": asked["valid_from"],
        "valid_to": asked["valid_to"],
        "guests": guests_words(guests),
        "devices": flavor.pool.healthy,
        "price": price,
        "most": price.per_hour * flavor.pool.healthy if price else None,
    }


@operator_action
@checked
def reservation_end(request: HttpRequest, here: OperatorPlace, reservation: uuid.UUID) -> HttpResponseBase:
    row = pool_reservation_get_for(actor=here.actor, reservation_id=reservation)
    form = EndForm(request.POST, of=row)
    if form.is_valid():
        at, version = form.cleaned_data["at"], form.cleaned_data["version"]
        with refusals_on(form, Conflict, Invalid, StaleVersion):
            ended = pool_reservation_end(actor=here.actor, reservation=row, at=at, expected_version=version)
            return done(request, _ended(row, ended), "frontend:operator_reservations")
    return _draw_refused(request, here, form)


@operator_action
@checked
def reservation_change(request: HttpRequest, here: OperatorPlace, reservation: uuid.UUID) -> HttpResponseBase:
    row = pool_reservation_get_for(actor=here.actor, reservation_id=reservation)
    form = ChangeForm(request.POST, of=row)
    if form.is_valid():
        changes: Any = {name: form.cleaned_data[name] for name in form.changed_data if name != "version"}
        version = form.cleaned_data["version"]
        with refusals_on(form, Conflict, Invalid, StaleVersion):
            pool_reservation_change(
                actor=here.actor, reservation=row, changes=changes, expected_version=version
            )
            text = f"The reservation of {row.pool.gpu_type.name} at {row.pool.site.slug} is changed."
            return done(request, text, "frontend:operator_reservations")
    return _draw_refused(request, here, form)


def _draw_refused(
    request: HttpRequest, here: OperatorPlace, refused: EndForm | ChangeForm
) -> HttpResponseBase:
    ended = refused.non_field_errors() and not refused.stale
    if ended and not is_check(request):  # meanwhile, and so it has no dialogs
        messages.error(request, str(refused.non_field_errors()[0]))
        return redirect("frontend:operator_reservations")
    flavors = _flavors()
    return _draw(request, here, _form(None, flavors), may_reserve=bool(flavors), refused=refused)


def _ended(row: PoolReservation, ended: PoolReservation | None) -> str:
    if ended is None:
        return f"The reservation of {row.pool} is gone; it had not begun."
    end = formats.when(ended.valid_to)
    return f"The reservation of {row.pool} ends {end}; others may have GPUs of it again then."


def _flavors() -> dict[str, Flavor]:
    rows = Flavor.objects.filter(price_class=PriceClass.RESERVED)
    return {row.slug: row for row in rows.select_related("pool__gpu_type", "pool__site").order_by("slug")}


def _named(row: Flavor) -> str:
    return f"{row.pool.gpu_type.name} at {row.pool.site.slug}, price of {row.slug}"
