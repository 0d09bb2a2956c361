"""The limits of all organizations and projects: look, try, save; never over what somebody else saved meanwhile."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import render

from frontend import toasts
from frontend.doors import UNDONE, is_piece
from frontend.forms import sentence_of
from frontend.forms.operator_limits import LimitForm
from frontend.frame import done, number_of, sent, undo_by
from frontend.lists import SORT, Column, Filter, Head, Listed, Listing, find, list_page, offered
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
from quotas.matrix import limits_owner, limits_owners
from quotas.models import Limit
from quotas.services import limit_set
from tenants.selectors import organizations_for

ROW = "operator/limits_rows.html"
PAGE = "operator/limit.html"


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


LIST = Listing(
    "organizations and projects",
    columns=(
        Column("organization"),
        Column("project"),
        Column("resource"),
        Column("limit"),
        Column("held"),
        Column("allocated"),
    ),
    filters=(
        find("Find by name", "Name of a project or organization"),
        Filter("organization", "Organization", "every organization"),
        Filter("over", "Only 90% held or more", kind="box"),
    ),
)


def _listed(request: HttpRequest, here: OperatorPlace) -> Listed:
    return LIST.of(
        request,
        lambda query: limits_owners(
            actor=here.actor,
            search=query["q"],
            organization=query["organization"],
            tight=bool(query["over"]),
            sort=query[SORT],
        ),
        lambda owners: _cells(matrix_shown(actor=here.actor, owners=owners).rows),
        organization=offered(organizations_for(actor=here.actor).values_list("slug", "name")),
    )


@operator_page
def limits(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    """Drawn as a matrix; the file has a row for each cell of it."""
    shown = _listed(request, here)
    matrix = matrix_shown(actor=here.actor, owners=shown.page.object_list)
    context = {
        "crumbs": crumbs("Tenants", ("Limits", "")),
        "matrix": matrix,
        "by_name": shown.head("name", "Project"),
        "heads": [(column, _heads(shown, column.resource)) for column in matrix.columns],
    }
    return list_page(request, "operator/limits.html", shown, context)


def _heads(shown: Listed, resource: str) -> tuple[Head, Head]:
    return (
        shown.head(f"held:{resource}", "Held", numeric=True),
        shown.head(f"limit:{resource}", "Limit", numeric=True),
    )


@operator_page
def limits_csv(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    """The same file by a name of its own."""
    return _listed(request, here).file()


def _cells(rows: Iterable[RowShown]) -> Iterator[dict[str, object]]:
    """A limit without a number has none: the column has numbers only."""
    for row in rows:
        for cell in row.cells:
            yield {
                "organization": row.organization.slug,
                "project": row.project.slug if row.project else "",
                "resource": cell.column.resource,
                "limit": cell.cell.limit,
                "held": cell.cell.used,
                "allocated": cell.allocated,
            }


@operator_page
def limit_edit(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """One row with one cell open; without `resource` the row as it is (that is what Cancel asks for)."""
    matrix, row = _matrix(here, request.GET)
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
    matrix, row = _matrix(here, request.GET)
    editing = _typed(matrix, row, LimitForm(request.GET))
    return render(request, "operator/limits_effect.html", {"editing": editing, "matrix": matrix})


@operator_action
def limit_save(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """Saved under the version that the cell was opened with; refused beside the cell, whose numbers are then fresh."""
    form = LimitForm(sent(request))
    valid = form.is_valid()
    matrix, row = _matrix(here, sent(request))
    if not valid:
        return _draw(request, here, matrix, row, editing=_typed(matrix, row, form), status=422)
    resource = form.cleaned_data["resource"]
    before = _cell(row, resource).cell.limit
    try:
        saved = _save(here, row, form)
    except StaleVersion:
        if UNDONE in request.GET:
            title = "Nothing was undone: this limit was changed by someone else."
            return toasts.answer(tone="bad", title=title, status=412)
        matrix, row = _matrix(here, request.POST)
        message = f"This limit was changed to {_cell(row, resource).top} by someone else. Save again to overwrite it."
        return _draw(request, here, matrix, row, editing=_typed(matrix, row, form, error=message), status=412)
    except Invalid as error:
        editing = _typed(matrix, row, form, error=sentence_of(error.message))
        return _draw(request, here, matrix, row, editing=editing, status=422)
    matrix, row = _matrix(here, sent(request))
    cell = _cell(row, resource)
    title = f"{row.name} may hold {cell.top} {cell.column.name}"
    asked: dict[str, Any] = {
        "kind": row.kind,
        "owner": row.slug,
        "resource": resource,
        "version": saved.version,
    }
    asked["hard"] = "unlimited" if before is None else before
    back = undo_by("frontend:operator_limit_save", **asked)
    if UNDONE in request.GET or not is_piece(request):
        return done(request, title, "frontend:operator_limits", undo=back)
    response = _draw(request, here, matrix, row, focus=resource, totals=True)
    response["HX-Trigger"] = toasts.header(tone="ok", title=title, undo=back)
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


def _matrix(here: OperatorPlace, query: QueryDict) -> tuple[MatrixShown, RowShown]:
    """The matrix with one row."""
    owner = limits_owner(actor=here.actor, kind=query.get("kind", ""), slug=query.get("owner", ""))
    matrix = matrix_shown(actor=here.actor, owners=[owner])
    if not matrix.rows:  # deleted meanwhile
        raise NotFound("there is no such organization or project")
    return matrix, matrix.rows[0]


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
    message = error or " ".join(str(text) for texts in form.errors.values() for text in texts)
    opened = number_of(str(form.data.get("version", "")))
    version = cell.cell.version if error or opened is None else opened
    return Editing(
        row=row,
        cell=cell,
        typed=str(form.data.get("hard", ""))[:40],
        unlimited=bool(form.data.get("unlimited")),
        version=version,
        effect=effect_of(matrix=matrix, row=row, resource=resource, new=new) if valid else None,
        error=message,
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
    """The row alone for a script, else a page around it."""
    context = {"matrix": matrix, "row": row, "editing": editing, "focus": focus, "totals": totals}
    context["crumbs"] = crumbs("Tenants", ("Limits", "operator_limits"), (row.name, ""))
    return render(request, ROW if is_piece(request) else PAGE, context, status=status)
