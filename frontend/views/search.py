"""What the palette finds: by name, and only what the reader may see."""

from collections.abc import Iterator

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, JsonResponse
from django.urls import reverse

from frontend.lists import query_of
from frontend.place import Place, place_of
from frontend.presenters import held
from gpuaas.catalog.selectors import nodes_named
from gpuaas.clusters.selectors import clusters_for
from gpuaas.clusters.states import LIVE as LIVE_CLUSTERS
from gpuaas.workspaces.selectors import workspaces_for
from gpuaas.workspaces.states import LIVE
from tenants.roles import Permission
from tenants.selectors import people_seen, projects_for, users_for

FOUND = 8
Entry = dict[str, str]


@login_required
def search(request: HttpRequest) -> JsonResponse:
    """Workspaces, clusters, projects, people and nodes; at most 8 of each."""
    place = place_of(request)
    text = query_of(request, "q")["q"]
    if len(text) < 2:
        return JsonResponse([], safe=False)
    found = [
        *_workspaces(place, text),
        *_clusters(place, text),
        *_projects(place, text),
        *_people(place, text),
        *_nodes(place, text),
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


def _projects(place: Place, text: str) -> Iterator[Entry]:
    named = Q(slug__icontains=text) | Q(name__icontains=text)
    for row in projects_for(actor=place.actor).filter(named)[:FOUND]:
        yield _entry(row.slug, row.name, "Projects", "folder", reverse("frontend:home", args=[row.slug]))


def _nodes(place: Place, text: str) -> Iterator[Entry]:
    """For operators and auditors; nobody else knows of nodes."""
    if Permission.PLATFORM_VIEW not in place.actor.on_platform():
        return
    rows = nodes_named(actor=place.actor, search=text).order_by("name", "site__slug")
    for name, site in rows.values_list("name", "site__slug").distinct()[:FOUND]:
        url = reverse("frontend:operator_node", args=[site, name])
        yield _entry(name, f"node at {site}", "Nodes", "cpu", url)


def _people(place: Place, text: str) -> Iterator[Entry]:
    """Operators and auditors look everybody up where accounts are kept; others find who shares a project with them."""
    if Permission.PLATFORM_VIEW in place.actor.on_platform():
        page = reverse("frontend:operator_people")
        for user in users_for(actor=place.actor).filter(username__icontains=text)[:FOUND]:
            note = user.get_platform_role_display().lower() if user.platform_role else "account"
            yield _entry(user.username, note, "People", "user", f"{page}?q={user.username}")
        return
    for user, project in people_seen(actor=place.actor, search=text, most=FOUND):
        url = reverse("frontend:members", args=[project])
        yield _entry(user.username, f"member of {project}", "People", "user", url)
