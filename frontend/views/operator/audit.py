"""What everybody did: the log, filtered. Nobody can change it here or anywhere."""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from frontend.lists import OFFERED, narrowed, offered, paged, query_of
from frontend.presenters.events import audit_words
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from tenants.models import AuditEntry
from tenants.selectors import audit_choices, audit_for, projects_for


@operator_page
def audit(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    query = query_of(request, "q", "actor", "action", "project", "since", "until")
    projects = projects_for(actor=here.actor)
    rows = narrowed(audit_for(actor=here.actor), query, {"actor": "actor", "action": "action"})
    if query["project"]:
        named = projects.filter(slug=query["project"]).first()
        rows = rows.filter(project_id=named.pk) if named else rows.none()
    if query["q"]:
        rows = rows.filter(Q(target_name__icontains=query["q"]) | Q(request_id=query["q"]))
    since, until = day_asked(query["since"]), day_asked(query["until"])
    if since:
        rows = rows.filter(at__gte=_midnight(since, here))
    if until:
        rows = rows.filter(at__lt=_midnight(until + timedelta(days=1), here))
    page = paged(request, rows)
    here_named = projects.filter(pk__in={entry.project_id for entry in page.object_list})
    slugs = dict(here_named.values_list("pk", "slug"))
    context = {
        **query.shown,
        "page": page,
        "rows": [_shown(entry, slugs, here) for entry in page.object_list],
        "actors": offered(audit_choices(actor=here.actor, column="actor", most=OFFERED + 1)),
        "actions": offered(audit_choices(actor=here.actor, column="action", most=OFFERED + 1)),
        "projects": offered(projects.values_list("slug", flat=True)),
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
