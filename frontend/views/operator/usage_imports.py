"""Usage that was metered elsewhere: uploaded after a look at what it brings, listed, taken back."""

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from billing.files import files_import, import_take_back, take_back_obstacle, usage_file
from frontend.forms.usage_imports import UsageImportForm
from frontend.frame import checked, done, refusals_on, refusals_shown
from frontend.lists import Column, Listing, find, list_page, named
from frontend.presenters.work import import_work
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page, row_doors
from frontend.views.operator.sure import is_sure
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of
from gpuaas.metering.imports import Imported
from gpuaas.metering.models import UsageImport
from gpuaas.metering.selectors import import_sums_of, imports_for, imports_under_way

IMPORTS = ("Usage imports", "operator_usage_imports")
SUMS = 50  # of a preview
LIST = Listing(
    "imports",
    columns=(
        Column("name", "Name", "name"),
        Column("file"),
        Column("by", value="imported_by"),
        Column("state", "State", value=lambda row: "taken back" if row.taken_back_at else "imported"),
        Column("imported_at", "Imported", "imported_at"),
        Column("starts_at", "From", "starts_at"),
        Column("ends_at", "Until", "ends_at"),
        Column("intervals", "Intervals", "intervals", numeric=True),
    ),
    filters=(find("Find a name or file", "Name or file"),),
)
BROUGHT = Listing(
    "sums",
    columns=(
        Column("month", "Month", "month", lambda row: f"{row.month:%Y-%m}"),
        Column("project", "Project", "project__slug", "project.slug"),
        Column("meter", "Meter", "meter"),
        Column("intervals", "Intervals", "intervals", numeric=True),
        Column("unit_seconds", "Brings, unit-hours", "unit_seconds", numeric=True),
        Column(
            "before_unit_seconds",
            "Was there, unit-hours",
            "besides_unit_seconds",
            "besides_unit_seconds",
            numeric=True,
        ),
    ),
    filters=(find("Find a project", "Project"),),
)


def _draw(
    request: HttpRequest, here: OperatorPlace, form: UsageImportForm, preview: Imported | None = None
) -> HttpResponseBase:
    known = imports_for(actor=here.actor)
    shown = LIST.of(request, lambda query: named(known, query["q"], "name", "file"))
    now = clock.now()
    context: dict[str, Any] = {
        "form": form,
        "preview": preview,
        "under_way": [(row, import_work(row, now)) for row in imports_under_way(actor=here.actor, now=now)],
        "crumbs": crumbs("Money", (IMPORTS[0], "")),
    }
    if preview is not None:
        context |= {
            "again": form.again,
            "sums": preview.sums[:SUMS],
            "more": max(0, len(preview.sums) - SUMS),
            "same": preview.rows - preview.written,
        }
    return list_page(request, "operator/usage_imports.html", shown, context)


@operator_page
def index(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    return _draw(request, here, UsageImportForm())


@operator_action
@checked
def new(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    """First the preview; imported when that was answered. `back`: the form again, as it was filled in."""
    if "back" in request.POST:
        return _draw(request, here, UsageImportForm(initial=request.POST.dict()))
    form = UsageImportForm(request.POST, request.FILES)
    if form.is_valid():
        sure = is_sure(request)
        with refusals_on(form, Invalid, Conflict, fields={"usage": "file"}, default="file"):
            with usage_file([form.cleaned_data["data"]], form.cleaned_data["called"]) as usage:
                made = files_import(actor=here.actor, usage=usage, check=not sure, **form.asked)
            if made.batch is None:
                text = f"All {made.rows} rows are already known or empty. Nothing was imported."
                return done(request, text, "frontend:operator_usage_imports")
            if not sure:
                return _draw(request, here, form, made)
            text = f"{made.written} rows imported as {made.batch.name}."
            return done(request, text, "frontend:operator_usage_import", made.batch.pk)
    return _draw(request, here, form)


def _batch(here: OperatorPlace, batch: uuid.UUID) -> UsageImport:
    return first_of(imports_for(actor=here.actor).filter(pk=batch), "import of usage")


import_page, import_action = row_doors(_batch, "batch")


@import_page
def show(request: HttpRequest, here: OperatorPlace, row: UsageImport) -> HttpResponseBase:
    known = import_sums_of(actor=here.actor, batch=row)
    shown = BROUGHT.of(request, lambda query: named(known, query["q"], "project__slug"))
    context = {
        "batch": row,
        "obstacle": take_back_obstacle(batch=row) if row.taken_back_at is None else "",
        "crumbs": crumbs("Money", IMPORTS, (row.name, "")),
    }
    return list_page(request, "operator/usage_import.html", shown, context)


@import_action
def take_back(request: HttpRequest, here: OperatorPlace, row: UsageImport) -> HttpResponse:
    with refusals_shown(request, Conflict):
        import_take_back(actor=here.actor, batch=row, online=True)
        messages.success(request, f"{row.name} was taken back. Its usage is deleted.")
    return redirect("frontend:operator_usage_import", row.pk)
