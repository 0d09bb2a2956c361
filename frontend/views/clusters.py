"""The list of clusters and the page of one."""

import uuid
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from frontend.forms.clusters import UpgradeForm
from frontend.forms.workspaces import ExtendForm, LifetimeForm, ReasonForm
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page
from frontend.presenters import clusters
from frontend.views.usage import crumbs
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import cluster_get_for, clusters_for, templates_for
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from tenants.roles import Permission

ROWS = 25
SORTS = {"name": "name", "lease": "lease_ends_at", "created": "created_at"}
FILTERS = ("q", "state", "template", "site")
STATES = [(state.value, state.label) for state in ClusterState] + [("all", "with deleted ones")]


def states_of(asked: str) -> list[str]:
    """What is not deleted, unless the filter says otherwise."""
    if asked in ClusterState.values:
        return [asked]
    return list(ClusterState.values) if asked == "all" else [state.value for state in LIVE]


@project_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    query = {name: request.GET.get(name, "").strip()[:80] for name in (*FILTERS, "sort")}
    found = clusters_for(
        actor=here.actor,
        project=here.project,
        states=states_of(query["state"]),
        template=query["template"],
        site=query["site"],
        search=query["q"],
    )
    column = SORTS.get(query["sort"].lstrip("-"))
    if column:
        found = found.order_by(f"-{column}" if query["sort"].startswith("-") else column, "-pk")
    page = Paginator(found, ROWS).get_page(request.GET.get("page"))
    now = clock.now()
    mine = Cluster.objects.filter(project=here.project)
    context = {
        "place": here,
        "query": query,
        "filtered": any(query[name] for name in FILTERS),
        "states": STATES,
        "sites": sorted(set(mine.values_list("site__slug", flat=True))),
        "templates": sorted(
            set(mine.values_list("template_version__template__slug", "template_version__template__name"))
        ),
        "page": page,
        "rows": [clusters.row_of(row, now=now) for row in page.object_list],
        "list_url": reverse("frontend:clusters", args=[here.project.slug]),
        "new_url": reverse("frontend:cluster_new", args=[here.project.slug]),
        "may_order": here.can(Permission.WORKSPACE_CREATE),
        "offered": templates_for(actor=here.actor, project=here.project).exists(),
        "crumbs": crumbs(here, "Clusters"),
    }
    return render(request, "clusters/list.html", context)


def cluster_at(here: ProjectPlace, cluster: uuid.UUID, permission: Permission) -> Cluster:
    """A cluster of the URL's project; another project's is not found here even by people who may see it there."""
    row = cluster_get_for(actor=here.actor, cluster_id=cluster, permission=permission)
    if row.project_id != here.project.pk:
        raise NotFound("there is no such cluster")
    return row


def trail(here: ProjectPlace, row: Cluster, *rest: Crumb) -> tuple[Crumb, ...]:
    above = crumbs(here, "Clusters", reverse("frontend:clusters", args=[here.project.slug]))
    return (*above, Crumb(row.name, clusters.url_of(row) if rest else ""), *rest)


@project_page(Permission.WORKSPACE_VIEW)
def show(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    return draw(request, here, cluster_at(here, cluster, Permission.WORKSPACE_VIEW))


def draw(
    request: HttpRequest, here: ProjectPlace, row: Cluster, *, status: int = 200, **forms: Any
) -> HttpResponse:
    """The page, also with a form that was refused: its dialog opens again with the sentence beside the field."""
    page = clusters.page_of(row, here, now=clock.now())
    context = {
        "place": here,
        "cluster": row,
        "page": page,
        "urls": clusters.urls_of(row),
        "extend_form": ExtendForm(initial={"until": row.lease_ends_at}),
        "reason_form": ReasonForm(),
        "lifetime_form": LifetimeForm(),
        "upgrade_form": UpgradeForm(
            releases=list(page.releases), pools=[pool.name for pool in page.pools], auto_id="upgrade_%s"
        ),
        "delete_title": f"Delete {row.name}",
        "crumbs": trail(here, row),
        **forms,
    }
    return render(request, "clusters/detail.html", context, status=status)
