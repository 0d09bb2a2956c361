"""What the palette finds: by name, number, or address, by the start of an id, and only what the reader may see."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.decorators import login_required
from django.db.models import Q, QuerySet
from django.http import HttpRequest, JsonResponse
from django.urls import reverse

from billing.selectors.documents import invoices_numbered
from frontend.context import Console
from frontend.lists import query_of
from frontend.nav import menu
from frontend.place import Place, place_of
from frontend.presenters import held
from gpuaas.catalog.selectors import nodes_named
from gpuaas.clusters.selectors import clusters_for
from gpuaas.clusters.states import LIVE as LIVE_CLUSTERS
from gpuaas.core.rows import id_begins
from gpuaas.environments.selectors import environments_for
from gpuaas.jobs.selectors import jobs_for
from gpuaas.workspaces.machines.selectors import machines_seen
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE
from tenants.selectors import organizations_for, people_seen, projects_for, users_for

FOUND = 8
ACCOUNT = (
    ("Account and time zone", "user", "frontend:account"),
    ("Keys", "key", "frontend:keys"),
    ("Sign-in security", "shield-lock", "mfa_index"),
    ("Password", "lock", "account_change_password"),
)
OF_ROW = re.compile(r"/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:/|$)")
Entry = dict[str, str]


@login_required
def search(request: HttpRequest) -> JsonResponse:
    """Pages, and what has the text in its name, or as its address, number or start of its id; at most 8 of each kind. The
    address of a page finds it, and what it is of."""
    place = place_of(request)
    text = query_of(request, "q")["q"]
    if len(text) < 2:
        return JsonResponse([], safe=False)
    pages = _pages(request, place, text)
    if at := OF_ROW.search(text):
        text = at[1]
    found = [
        *_workspaces(place, text),
        *_clusters(place, text),
        *_machines(place, text),
        *_inside(environments_for(actor=place.actor, search=text), "Environments", "terminal-2"),
        *_inside(jobs_for(actor=place.actor, search=text), "Jobs", "list-details"),
        *_projects(place, text),
        *_organizations(place, text),
        *_people(place, text),
        *_invoices(place, text),
        *_nodes(place, text),
        *pages,
    ]
    return JsonResponse(found, safe=False)


def _entry(label: str, note: str, group: str, icon: str, url: str) -> Entry:
    return {"label": label, "note": note, "group": group, "icon": icon, "url": url}


def _workspaces(place: Place, text: str) -> Iterator[Entry]:
    for row in workspaces_for(actor=place.actor, states=LIVE, search=text)[:FOUND]:
        note = f"{row.project.slug}, {held.look_of(row)[1].lower()}"
        yield _entry(row.name, note, "Workspaces", "stack-2", held.url_of(row))


def _clusters(place: Place, text: str) -> Iterator[Entry]:
    for row in clusters_for(actor=place.actor, states=LIVE_CLUSTERS, search=text)[:FOUND]:
        note = f"{row.project.slug}, {held.look_of(row)[1].lower()}"
        yield _entry(row.name, note, "Clusters", "topology-star-3", held.url_of(row))


def _machines(place: Place, text: str) -> Iterator[Entry]:
    for row in machines_seen(actor=place.actor, search=text)[:FOUND]:
        room = row.workspace
        url = reverse("frontend:machine", args=[room.project.slug, room.pk, row.pk])
        note = f"machine of {room.name}, {row.get_state_display().lower()}"
        yield _entry(row.name, note, "Machines", "server", url)


def _inside(rows: QuerySet[Any], group: str, icon: str) -> Iterator[Entry]:
    """Environments or jobs, with the workspace that they are in."""
    for row in rows[:FOUND]:
        note = f"{row.project.slug}, in {row.workspace.name}, {held.look_of(row)[1].lower()}"
        yield _entry(row.name, note, group, icon, held.url_of(row))


def _projects(place: Place, text: str) -> Iterator[Entry]:
    for row in projects_for(actor=place.actor).filter(_named(text))[:FOUND]:
        yield _entry(row.slug, row.name, "Projects", "folder", reverse("frontend:home", args=[row.slug]))


def _organizations(place: Place, text: str) -> Iterator[Entry]:
    """Operators and auditors find the page of operators."""
    page = "operator_organization" if place.actor.sees_all else "projects"
    for row in organizations_for(actor=place.actor).filter(_named(text))[:FOUND]:
        if not place.actor.on_organization(row.pk):
            continue  # whoever belongs to a project of it alone knows its name, and has no page
        url = reverse(f"frontend:{page}", args=[row.slug])
        yield _entry(row.slug, row.name, "Organizations", "building", url)


def _named(text: str) -> Q:
    return Q(slug__icontains=text) | Q(name__icontains=text) | id_begins(text)


def _invoices(place: Place, text: str) -> Iterator[Entry]:
    for row in invoices_numbered(actor=place.actor, search=text)[:FOUND]:
        url = reverse("frontend:invoice", args=[row.organization.slug, row.number])
        yield _entry(row.number, f"invoice of {row.organization.slug}", "Invoices", "file-invoice", url)


def _pages(request: HttpRequest, place: Place, text: str) -> Iterator[Entry]:
    """Of both menus, whichever is shown, and of the account; those that the reader's roles do not open are left out."""
    console = getattr(request, "console", None) or Console()
    known: dict[str, Any] = {"path": "", "scope": console.scope, "counts": {}, "hidden": console.hidden}
    menus = [menu(**known, operator=False), menu(**known, operator=True) if place.actor.sees_all else ()]
    items = [
        (section.title, item.label, item.icon, item.url)
        for found in menus
        for section in found
        for item in section.items
    ]
    own = [("Account", label, icon, reverse(name)) for label, icon, name in ACCOUNT]
    words, path = text.lower().split(), _path_of(text)
    for title, label, icon, url in dict.fromkeys([*items, *own]):
        if url.startswith(path) if path else all(word in f"{label} {title}".lower() for word in words):
            yield _entry(label, title, "Places", icon, url)


def _path_of(text: str) -> str:
    """Of a page's address, with or without the portal's; "" of anything else."""
    try:
        return urlsplit(text).path if "/" in text else ""
    except ValueError:
        return ""


def _nodes(place: Place, text: str) -> Iterator[Entry]:
    """For operators and auditors; nobody else knows of nodes."""
    if not place.actor.sees_all:
        return
    rows = nodes_named(actor=place.actor, search=text).order_by("name", "site__slug")
    for name, site in rows.values_list("name", "site__slug").distinct()[:FOUND]:
        url = reverse("frontend:operator_node", args=[site, name])
        yield _entry(name, f"node at {site}", "Nodes", "cpu", url)


def _people(place: Place, text: str) -> Iterator[Entry]:
    """Operators and auditors look everybody up where accounts are kept; others find who shares a project with them."""
    if place.actor.sees_all:
        known = Q(username__icontains=text) | Q(email__icontains=text) | id_begins(text)
        for user in users_for(actor=place.actor).filter(known)[:FOUND]:
            note = user.get_platform_role_display().lower() if user.platform_role else user.email or "account"
            url = reverse("frontend:operator_person", args=[user.pk])
            yield _entry(user.username, note, "People", "user", url)
        return
    for user, project in people_seen(actor=place.actor, search=text, most=FOUND):
        url = reverse("frontend:members", args=[project])
        yield _entry(user.username, f"member of {project}", "People", "user", url)
