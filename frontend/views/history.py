"""All that the pages of a workspace and of a cluster show only the newest of: events, what runs, findings, evictions, objects."""

from collections.abc import Sequence
from typing import Any

from django.db.models import F
from django.http import HttpRequest, HttpResponseBase

from frontend.lists import Column, Filter, Listing, find, list_page, named, saying, state_choices
from frontend.nav import Crumb
from frontend.place import ProjectPlace
from frontend.presenters.drift import difference_words, drifts_shown, open_first
from frontend.presenters.events import Event, events_of
from frontend.presenters.pods import eviction_rows, gpu_names, pods_of
from frontend.presenters.rights import rights_of
from frontend.presenters.words import words_of
from frontend.rows import Cut
from frontend.views import clusters, workspaces
from gpuaas.clusters.models import Cluster, LedgerEntry
from gpuaas.clusters.selectors import ledger_of
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import drifts_of, evictions_of
from gpuaas.workspaces.states import DriftState
from tenants.roles import Permission


def _standing(row: LedgerEntry) -> str:
    return "confirmed gone" if row.gone_at else "present" if row.seen_at else "not seen yet"


EVENTS = Listing(
    "events",
    columns=(
        Column("at", "When", "at"),
        Column("actor", "Who"),
        Column("text", "Event"),
    ),
)
RUNNING = Listing(
    "pods",
    columns=(
        Column("name", "Pod", "name"),
        Column("owner"),
        Column("state", "State", "word", "word"),
        Column("gpus", "GPUs", "gpus"),
        Column("node", "Node", "node"),
        Column("age", "Age"),
        Column("waits_for", value="why"),
    ),
    filters=(find("Find a pod or node", "Pod or node"),),
    mark="pods-",
)
FOUND = Listing(
    "findings",
    columns=(
        Column("state", value="word"),
        Column("found_at", "Found", "found_at"),
        Column("resolved_at", "Resolved", "resolved_at"),
        Column("resolved_by"),
        Column("differences", value=lambda drift: "; ".join(map(difference_words, drift.rows))),
    ),
    filters=(Filter("state", "State", "every state", state_choices(DriftState)[:-1]),),
    size=25,
    mark="drift-",
)
REMOVED = Listing(
    "evictions",
    columns=(
        Column("name", "Name", "consumer_name"),
        Column("gpus"),
        Column("seen_at", "Seen", "seen_at", "at"),
        Column("text"),
    ),
    filters=(find(),),
    size=25,
    mark="evicted-",
)
OBJECTS = Listing(
    "objects",
    columns=(
        Column("name", "Object", "name"),
        Column("kind"),
        Column("site", value=lambda row: row.site.slug if row.site else ""),
        Column("state", "State", value=_standing),
        Column("step", "Step", "step"),
        Column("recorded_at", "Recorded", "written_at", "written_at"),
        Column("gone_at", "Gone", "gone_at"),
    ),
    filters=(find("Find an object", "Object"),),
)


def of_workspace(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponseBase:
    may = rights_of(row, here)

    def told(order: str, most: int | None, skipped: int) -> tuple[Sequence[Event], int]:
        given: dict[str, Any] = {"with_audit": may.audit, "zone": here.zone, "oldest_first": order == "at"}
        return events_of(row, **given, most=most, skipped=skipped)

    words = words_of(row.site)
    runs = () if words.machines else pods_of(row, list(evictions_of(workspace=row)[:100]), now=here.now)
    pods = RUNNING.of(request, lambda query: saying(runs, query["q"], lambda pod: f"{pod.name} {pod.node}"))

    found = FOUND.of(
        request,
        lambda query: open_first(drifts_of(workspace=row)).filter(
            state__in=[query["state"]] if query["state"] in DriftState.values else DriftState.values
        ),
        drifts_shown,
    )
    removed = REMOVED.of(
        request,
        lambda query: named(
            evictions_of(workspace=row).select_related("workspace__project", "workspace__site"),
            query["q"],
            "consumer_name",
        ),
        lambda rows: eviction_rows(rows, gpu_names(row)),
    )
    context = {
        "workspace": row,
        "words": words,
        "pods": pods,
        "found": found,
        "removed": removed,
        "crumbs": workspaces.trail(here, row, Crumb("History")),
    }
    shown = EVENTS.of(request, Cut(told))
    return list_page(request, "workspaces/history.html", shown, context, pods, found, removed)


def of_cluster(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponseBase:
    """Those that are still there first."""
    known = ledger_of(cluster=row).order_by(F("gone_at").desc(nulls_first=True), "pk")
    shown = OBJECTS.of(request, lambda query: named(known, query["q"], "name", "kind"))
    context = {"cluster": row, "crumbs": clusters.trail(here, row, Crumb("Objects"))}
    return list_page(request, "clusters/objects.html", shown, context)


workspace = workspaces.workspace_page(Permission.WORKSPACE_VIEW)(of_workspace)
cluster = clusters.cluster_page(Permission.WORKSPACE_VIEW)(of_cluster)
