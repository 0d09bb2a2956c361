"""Usage that was metered elsewhere: uploaded after a look at what it brings, listed, taken back."""

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from billing.files import files_import, import_take_back, take_back_obstacle, usage_file
from frontend.forms.usage_imports import UsageImportForm
from frontend.frame import done, draw_page, refusals_on, refusals_shown
from frontend.lists import paged
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page, row_doors
from frontend.views.operator.sure import is_sure
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of
from gpuaas.metering.imports import Imported
from gpuaas.metering.models import UsageImport
from gpuaas.metering.selectors import import_sums_of, imports_for

IMPORTS = ("Usage imports", "operator_usage_imports")
SUMS = 50  # of a preview


def _draw(
    request: HttpRequest, here: OperatorPlace, form: UsageImportForm, preview: Imported | None = None
) -> HttpResponse:
    context: dict[str, Any] = {
        "page": paged(request, imports_for(actor=here.actor)),
        "form": form,
        "preview": preview,
        "crumbs": crumbs("Money", (IMPORTS[0], "")),
    }
    if preview is not None:
        context |= {
            "again": form.again,
            "sums": preview.sums[:SUMS],
            "more": max(0, len(preview.sums) - SUMS),
            "same": preview.rows - preview.written,
        }
    return draw_page(request, "operator/usage_imports.html", context)


@operator_page
def index(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    return _draw(request, here, UsageImportForm())


@operator_action
def new(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """First the preview; imported when that was answered."""
    form = UsageImportForm(request.POST, request.FILES)
    if form.is_valid():
        sure = is_sure(request)
        with refusals_on(form, Invalid, Conflict, fields={"usage": "file"}, default="file"):
            with usage_file([form.cleaned_data["data"]]) as usage:
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
def show(request: HttpRequest, here: OperatorPlace, row: UsageImport) -> HttpResponse:
    context = {
        "batch": row,
        "page": paged(request, import_sums_of(actor=here.actor, batch=row)),
        "obstacle": take_back_obstacle(batch=row) if row.taken_back_at is None else "",
        "crumbs": crumbs("Money", IMPORTS, (row.name, "")),
    }
    return draw_page(request, "operator/usage_import.html", context)


@import_action
def take_back(request: HttpRequest, here: OperatorPlace, row: UsageImport) -> HttpResponse:
    with refusals_shown(request, Conflict):
        import_take_back(actor=here.actor, batch=row, online=True)
        messages.success(request, f"{row.name} was taken back. Its usage is deleted.")
    return redirect("frontend:operator_usage_import", row.pk)
