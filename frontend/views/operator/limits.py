"""The limits of all organizations and projects: look, try, save; never over what somebody else saved meanwhile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import render

from billing.exports import rows_csv
from frontend import toasts
from frontend.forms.operator_limits import LimitForm
from frontend.presenters.operator.limits import (
    CellShown,
    Effect,
    MatrixShown,
    RowShown,
    effect_of,
    matrix_shown,
)
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page
from gpuaas.core.errors import Invalid, NotFound, StaleVersion
from gpuaas.core.streams import csv_streamed
from quotas.models import Limit
from quotas.services import limit_set

TABLE = "operator/limits_rows.html"


@dataclass(frozen=True)
class Editing:
    """The open cell: what was typed, what it would do, why it was refused."""

    row: RowShown
    cell: CellShown
    typed: str
    unlimited: bool
    version: int
    effect: Effect | None
    error: str = ""

    @property
    def resource(self) -> str:
        return self.cell.column.resource


@operator_page
def limits(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    matrix = matrix_shown(actor=here.actor)
    query = {name: request.GET.get(name, "") for name in ("organization", "over")}
    rows = [
        row
        for row in matrix.rows
        if not query["organization"] or row.organization.slug == query["organization"]
    ]
    if query["over"]:
        rows = [row for row in rows if row.kind == "project" and any(cell.nearly for cell in row.cells)]
    context = {
        "place": here,
        "crumbs": crumbs("Tenants", ("Limits", "")),
        "matrix": matrix,
        "rows": rows,
        "query": query,
        "filtered": any(query.values()),
        "organizations": [row.organization for row in matrix.rows if row.kind == "organization"],
    }
    return render(request, "operator/limits.html", context)


@operator_page
def limits_csv(request: HttpRequest, here: OperatorPlace) -> StreamingHttpResponse:
    return csv_streamed(request, rows_csv(_cells(matrix_shown(actor=here.actor))), name="limits")


def _cells(matrix: MatrixShown) -> Iterator[Sequence[object]]:
    yield "organization", "project", "resource", "limit", "held", "in_use"
    for row in matrix.rows:
        project = row.project.slug if row.project else ""
        for cell in row.cells:
            top = "unlimited" if cell.cell.limit is None else cell.cell.limit
            yield row.organization.slug, project, cell.column.resource, top, cell.cell.used, cell.in_use


@operator_page
def limit_edit(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """One row with one cell open; without `resource` the row as it is (that is what Cancel asks for)."""
    matrix = matrix_shown(actor=here.actor)
    row = _row(matrix, request.GET)
    resource = request.GET.get("resource", "")
    back = request.GET.get("back", "")
    if not resource or not here.may_manage:
        return _draw(request, here, matrix, row, focus=back)
    cell = _cell(row, resource)
    limit = cell.cell.limit
    editing = Editing(
        row=row,
        cell=cell,
        typed="" if limit is None else str(limit),
        unlimited=limit is None,
        version=cell.cell.version,
        effect=effect_of(matrix=matrix, row=row, resource=resource, new=limit),
    )
    return _draw(request, here, matrix, row, editing=editing)


@operator_page
def limit_effect(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """While typing: only the row beneath. Nothing is saved and nothing is held back for it."""
    matrix = matrix_shown(actor=here.actor)
    row = _row(matrix, request.GET)
    editing = _typed(matrix, row, LimitForm(request.GET))
    return render(
        request, "operator/limits_effect.html", {"place": here, "editing": editing, "matrix": matrix}
    )


@operator_action
def limit_save(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """Saved under the version that the cell was opened with; refused beside the cell, whose numbers are then fresh."""
    form = LimitForm(request.POST)
    valid = form.is_valid()
    matrix = matrix_shown(actor=here.actor)
    row = _row(matrix, request.POST)
    if not valid:
        return _draw(request, here, matrix, row, editing=_typed(matrix, row, form), status=422)
    resource = form.cleaned_data["resource"]
    try:
        _save(here, row, form)
    except StaleVersion:
        matrix = matrix_shown(actor=here.actor)
        row = _row(matrix, request.POST)
        said = f"Somebody changed it meanwhile: it is {_cell(row, resource).top} now. Save again to put yours instead."
        return _draw(request, here, matrix, row, editing=_typed(matrix, row, form, error=said), status=412)
    except Invalid as error:
        editing = _typed(matrix, row, form, error=f"{error.message[:1].upper()}{error.message[1:]}.")
        return _draw(request, here, matrix, row, editing=editing, status=422)
    matrix = matrix_shown(actor=here.actor)
    row = _row(matrix, request.POST)
    cell = _cell(row, resource)
    response = _draw(request, here, matrix, row, focus=resource, totals=True)
    title = f"{row.name} may hold {cell.top} {cell.column.name}"
    response["HX-Trigger"] = toasts.header(tone="ok", title=title)
    return response


def _save(here: OperatorPlace, row: RowShown, form: LimitForm) -> Limit:
    owner: dict[str, Any] = {"project": row.project} if row.project else {"organization": row.organization}
    found = form.cleaned_data
    return limit_set(
        actor=here.actor,
        resource=found["resource"],
        hard=found["hard"],
        expected_version=found["version"] or 0,
        **owner,
    )


def _row(matrix: MatrixShown, query: QueryDict) -> RowShown:
    row = matrix.row(query.get("kind", ""), query.get("owner", ""))
    if row is None:
        raise NotFound("there is no such organization or project")
    return row


def _cell(row: RowShown, resource: str) -> CellShown:
    cell = row.cell(resource)
    if cell is None:
        raise NotFound("there is no such resource")
    return cell


def _typed(matrix: MatrixShown, row: RowShown, form: LimitForm, error: str = "") -> Editing:
    valid = form.is_valid()
    resource = form.data.get("resource", "")
    cell = _cell(row, resource)
    new = form.cleaned_data.get("hard") if valid else None
    said = error or " ".join(str(text) for texts in form.errors.values() for text in texts)
    opened = str(form.data.get("version", ""))
    version = int(opened) if opened.isascii() and opened.isdigit() and len(opened) < 16 else cell.cell.version
    return Editing(
        row=row,
        cell=cell,
        typed=str(form.data.get("hard", ""))[:40],
        unlimited=bool(form.data.get("unlimited")),
        version=cell.cell.version if error else version,
        effect=effect_of(matrix=matrix, row=row, resource=resource, new=new) if valid else None,
        error=said,
    )


def _draw(
    request: HttpRequest,
    here: OperatorPlace,
    matrix: MatrixShown,
    row: RowShown,
    *,
    editing: Editing | None = None,
    focus: str = "",
    totals: bool = False,
    status: int = 200,
) -> HttpResponse:
    context = {
        "place": here,
        "matrix": matrix,
        "row": row,
        "editing": editing,
        "focus": focus,
        "totals": totals,
    }
    return render(request, TABLE, context, status=status)
