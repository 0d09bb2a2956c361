"""What everybody did: the log, filtered. Nobody can change it here or anywhere."""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseBase

from frontend.lists import OFFERED, Column, Filter, Listing, Query, find, list_page, narrowed, offered
from frontend.presenters.events import audit_words
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from tenants.models import AuditEntry
from tenants.selectors import audit_choices, audit_for, projects_for

LIST = Listing(
    "entries",
    columns=(
        Column("at", "When", "at", "entry.at"),
        Column("actor", "Who", "actor", "entry.actor"),
        Column("action", "Action", "action", "entry.action"),
        Column("target", "Target", "target_name", "entry.target_name"),
        Column("project"),
        Column("changes", "Changes", value=lambda row: "; ".join(map(_change, row["changes"]))),
        Column("ip", "From", "ip", "entry.ip"),
        Column("token", value="entry.token_prefix"),
        Column("request_id", value="entry.request_id"),
    ),
    filters=(
        find("Name or request", "Name of what was changed, or a request's id"),
        Filter("actor", "Who", "everyone"),
        Filter("action", "Action", "every action"),
        Filter("project", "Project", "every project"),
        Filter("since", "From", kind="date"),
        Filter("until", "To", kind="date"),
    ),
)


@operator_page
def audit(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    projects = projects_for(actor=here.actor)

    def shown(entries: list[AuditEntry]) -> list[dict[str, Any]]:
        named = projects.filter(pk__in={entry.project_id for entry in entries})
        slugs = dict(named.values_list("pk", "slug"))
        return [_shown(entry, slugs, here) for entry in entries]

    found = LIST.of(
        request,
        lambda query: _found(query, here),
        shown,
        actor=offered(audit_choices(actor=here.actor, column="actor", most=OFFERED + 1)),
        action=offered(audit_choices(actor=here.actor, column="action", most=OFFERED + 1)),
        project=offered(projects.values_list("slug", flat=True)),
    )
    return list_page(request, "operator/audit.html", found, {"crumbs": crumbs("Record", ("Audit log", ""))})


def _found(query: Query, here: OperatorPlace) -> QuerySet[AuditEntry]:
    rows = narrowed(audit_for(actor=here.actor), query, {"actor": "actor", "action": "action"})
    if query["project"]:
        named = projects_for(actor=here.actor).filter(slug=query["project"]).first()
        rows = rows.filter(project_id=named.pk) if named else rows.none()
    if query["q"]:
        rows = rows.filter(Q(target_name__icontains=query["q"]) | Q(request_id=query["q"]))
    since, until = day_asked(query["since"]), day_asked(query["until"])
    if since:
        rows = rows.filter(at__gte=_midnight(since, here))
    if until and until < date.max:  # no day comes after that
        rows = rows.filter(at__lt=_midnight(until + timedelta(days=1), here))
    return rows


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


def _change(told: tuple[str, str, str]) -> str:
    name, before, after = told
    return f"{name} {before} → {after or 'none'}" if before else f"{name} {after or 'none'}"


def _word(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return ""
    value = values[name]
    if value is None:
        return "unlimited" if name == "hard" else "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())[:200]
    return str(value)[:200]
