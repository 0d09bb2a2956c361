"""Differences at a site from what the portal set: object, field, wanted and found value, and who changed it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet
from django.urls import reverse

from frontend.presenters.held import url_of
from gpuaas.core.looks import Tone
from gpuaas.workspaces.models import Drift, Workspace
from gpuaas.workspaces.states import DRIFT_LOOKS, DriftState


@dataclass(frozen=True)
class DifferenceRow:
    """`field` is empty if the whole object is missing or does not belong there."""

    object: str
    field: str
    wanted: str
    found: str
    changed_by: str


@dataclass(frozen=True)
class DriftShown:
    id: Any
    workspace: Workspace
    url: str
    tone: Tone
    word: str
    open: bool
    found_at: datetime
    resolved_at: datetime | None
    resolved_by: str
    title: str
    rows: tuple[DifferenceRow, ...]
    repair_url: str


def open_first(rows: QuerySet[Drift]) -> QuerySet[Drift]:
    return rows.order_by(F("resolved_at").desc(nulls_first=True), "-pk")


def drifts_shown(rows: Iterable[Drift]) -> tuple[DriftShown, ...]:
    return tuple(_shown(row) for row in rows)


def _shown(row: Drift) -> DriftShown:
    look = DRIFT_LOOKS[DriftState(row.state)]
    rows = tuple(_difference(item) for item in row.differences)
    return DriftShown(
        id=row.pk,
        workspace=row.workspace,
        url=url_of(row.workspace),
        tone=Tone(look.tone),
        word=look.label,
        open=row.state == DriftState.OPEN,
        found_at=row.found_at,
        resolved_at=row.resolved_at,
        resolved_by=row.resolved_by,
        title=_title(rows),
        rows=rows,
        repair_url=reverse("frontend:operator_drift_repair", args=[row.pk]),
    )


def _difference(item: Mapping[str, Any]) -> DifferenceRow:
    words = {name: str(item.get(name) or "") for name in ("object", "path", "wanted", "found", "changed_by")}
    return DifferenceRow(
        object=words["object"],
        field=words["path"],
        wanted=words["wanted"] or "nothing",
        found=words["found"] or ("nothing" if words["path"] else "missing"),
        changed_by=words["changed_by"],
    )


def difference_words(row: DifferenceRow) -> str:
    """In one line, for a file."""
    who = f" by {row.changed_by}" if row.changed_by else ""
    return f"{row.object} {row.field or 'the whole object'}: wanted {row.wanted}, found {row.found}{who}"


def _title(rows: Sequence[DifferenceRow]) -> str:
    """`ResourceQuota/gpuaas changed by kubectl-edit`, or the number of changes and who made them."""
    if not rows:
        return "Something differs"
    people = sorted({row.changed_by for row in rows if row.changed_by})
    who = f" by {' and '.join(people)}" if people else ""
    if len(rows) > 1:
        objects = len({row.object for row in rows})
        what = rows[0].object if objects == 1 else f"{objects} objects"
        return f"{what} changed in {len(rows)} places{who}"
    (row,) = rows
    return f"{row.object} {'changed' if row.field else 'deleted or replaced'}{who}"
