"""The storage classes of a site: which one plain storage is taken from, and which are sold."""

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from frontend.forms.sites import StorageSellForm
from frontend.frame import checked, done, refusals_on, refusals_shown
from frontend.lists import Column, Listing, find, list_page, named
from frontend.views.operator.common import OperatorPlace, site_action, site_page
from frontend.views.operator.site_parts import tab
from gpuaas.catalog.models import Site, StorageClass
from gpuaas.catalog.selectors import storage_classes_at
from gpuaas.catalog.services import storage_class_retire, storage_class_sell, storage_plain_choose
from gpuaas.catalog.states import OfferState
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of

LIST = Listing(
    "storage classes",
    columns=(
        Column("name", "Class", "name"),
        Column("provisioner", "Provisioner", "provisioner"),
        Column("present", "At the site", "present"),
        Column("plain", "Plain storage", "plain"),
        Column("slug", "Sold as", "slug"),
        Column("state", value="state"),
    ),
    filters=(find(),),
)


@site_page
def index(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponseBase:
    return _draw(request, here, row)


def _draw(
    request: HttpRequest, here: OperatorPlace, row: Site, form: StorageSellForm | None = None
) -> HttpResponseBase:
    rows = storage_classes_at(actor=here.actor, site=row)
    shown = LIST.of(request, lambda query: named(rows, query["q"], "name", "slug"))
    names = _sellable(here, row)
    context = tab(
        row,
        "storage",
        form=form or StorageSellForm(names=names),
        may_sell=bool(names),
        has_plain=rows.filter(plain=True).exists(),
        live=f"site:{row.pk}",
    )
    return list_page(request, "operator/site_storage.html", shown, context)


def _sellable(here: OperatorPlace, row: Site) -> list[str]:
    rows = storage_classes_at(actor=here.actor, site=row).filter(present=True, plain=False)
    return list(rows.exclude(state=OfferState.ACTIVE).values_list("name", flat=True))


def _of(here: OperatorPlace, row: Site, **what: Any) -> StorageClass:
    return first_of(storage_classes_at(actor=here.actor, site=row).filter(**what), "storage class")


@site_action
def plain(request: HttpRequest, here: OperatorPlace, row: Site, key: uuid.UUID) -> HttpResponse:
    found = _of(here, row, pk=key)
    with refusals_shown(request, Conflict):
        storage_plain_choose(actor=here.actor, storage_class=found)
        text = f"Plain storage at {row.slug} is taken from {found.name}."
        return done(request, text, "frontend:operator_site_storage", row.slug)
    return redirect("frontend:operator_site_storage", row.slug)


@site_action
@checked
def sell(request: HttpRequest, here: OperatorPlace, row: Site) -> HttpResponseBase:
    form = StorageSellForm(request.POST, names=_sellable(here, row))
    if form.is_valid():
        found = _of(here, row, name=form.cleaned_data["name"])
        with refusals_on(form, Invalid, Conflict, default="name"):
            sold = storage_class_sell(actor=here.actor, storage_class=found, slug=form.cleaned_data["slug"])
            text = f"{found.name} is sold as {sold.slug}."
            return done(request, text, "frontend:operator_site_storage", row.slug)
    return _draw(request, here, row, form)


@site_action
def retire(request: HttpRequest, here: OperatorPlace, row: Site, key: uuid.UUID) -> HttpResponse:
    found = storage_class_retire(actor=here.actor, storage_class=_of(here, row, pk=key))
    text = f"{found.name} is not sold any more. Workspaces that have storage of it keep it."
    return done(request, text, "frontend:operator_site_storage", row.slug)
