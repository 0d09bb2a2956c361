"""What everybody did: the log, filtered. Nobody can change it here or anywhere."""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from frontend.presenters.events import audit_words
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page, paged
from tenants.models import AuditEntry
from tenants.selectors import audit_for, projects_for

FILTERS = ("q", "actor", "action", "project", "since", "until")


@operator_page
def audit(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    query = {name: request.GET.get(name, "").replace("\x00", "").strip()[:80] for name in FILTERS}
    projects = dict(projects_for(actor=here.actor).values_list("slug", "pk"))
    rows = audit_for(actor=here.actor)
    if query["actor"]:
        rows = rows.filter(actor=query["actor"])
    if query["action"]:
        rows = rows.filter(action=query["action"])
    if query["project"]:
        rows = rows.filter(project_id=projects.get(query["project"]))
    if query["q"]:
        rows = rows.filter(Q(target_name__icontains=query["q"]) | Q(request_id=query["q"]))
    since, until = day_asked(query["since"]), day_asked(query["until"])
    if since:
        rows = rows.filter(at__gte=_midnight(since, here))
    if until:
        rows = rows.filter(at__lt=_midnight(until + timedelta(days=1), here))
    page = paged(request, rows)
    slugs = {pk: slug for slug, pk in projects.items()}
    context = {
        "place": here,
        "query": query,
        "filtered": any(query.values()),
        "page": page,
        "rows": [_shown(entry, slugs, here) for entry in page.object_list],
        "actors": list(AuditEntry.objects.order_by("actor").values_list("actor", flat=True).distinct()),
        "actions": list(AuditEntry.objects.order_by("action").values_list("action", flat=True).distinct()),
        "projects": sorted(projects),
        "crumbs": crumbs("Record", ("Audit log", "")),
    }
    return render(request, "operator/audit.html", context)


def day_asked(text: str) -> date | None:
    """A day of the query; nonsense filters nothing (a page is not an API)."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        return None


def _midnight(day: date, here: OperatorPlace) -> datetime:
    return datetime.combine(day, time(), tzinfo=here.zone)


def _shown(entry: AuditEntry, slugs: Mapping[Any, str], here: OperatorPlace) -> dict[str, Any]:
    return {
        "entry": entry,
        "project": slugs.get(entry.project_id, ""),
        "words": audit_words(entry, here.zone),
        "changes": _changes(entry.before or {}, entry.after or {}),
    }


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(what, before, after) for every value that was told; an empty before is something new."""
    names = list(dict.fromkeys([*before, *after]))
    return [(name, _word(before, name), _word(after, name)) for name in names]


def _word(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return ""
    value = values[name]
    if value is None:
        return "unlimited" if name == "hard" else "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())[:200]
    return str(value)[:200]
