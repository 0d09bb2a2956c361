"""The list of clusters and the page of one."""

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from frontend.forms.clusters import UpgradeForm
from frontend.forms.workspaces import ExtendForm, LifetimeForm, ReasonForm
from frontend.frame import draw_page
from frontend.lists import paged, query_of, sorted_by, state_choices, states_of
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page, row_doors
from frontend.presenters import clusters, held
from frontend.views.usage import crumbs
from frontend.views.workspaces import SORTS
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import cluster_get_for, clusters_for, templates_for
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.core.errors import NotFound
from tenants.roles import Permission

ROWS = 25


@project_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    query = query_of(request, "q", "state", "template", "site", "sort")
    found = clusters_for(
        **here.given,
        states=states_of(query, ClusterState, LIVE),
        template=query["template"],
        site=query["site"],
        search=query["q"],
    )
    page = paged(request, sorted_by(found, query, SORTS), ROWS)
    mine = Cluster.objects.filter(project=here.project)
    context = {
        **query.shown,
        "states": state_choices(ClusterState),
        "sites": sorted(set(mine.values_list("site__slug", flat=True))),
        "templates": sorted(
            set(mine.values_list("template_version__template__slug", "template_version__template__name"))
        ),
        "page": page,
        "rows": [clusters.row_of(row, now=here.now) for row in page.object_list],
        "list_url": reverse("frontend:clusters", args=[here.project.slug]),
        "new_url": reverse("frontend:cluster_new", args=[here.project.slug]),
        "may_order": here.can(Permission.WORKSPACE_CREATE),
        "offered": templates_for(**here.given).exists(),
        "crumbs": crumbs(here, "Clusters"),
    }
    return render(request, "clusters/list.html", context)


def cluster_at(here: ProjectPlace, cluster: uuid.UUID, permission: Permission) -> Cluster:
    """A cluster of the URL's project; another project's is not found here even by people who may see it there."""
    row = cluster_get_for(actor=here.actor, cluster_id=cluster, permission=permission)
    if row.project_id != here.project.pk:
        raise NotFound("there is no such cluster")
    return row


cluster_page, cluster_action = row_doors(cluster_at, "cluster")


def trail(here: ProjectPlace, row: Cluster, *rest: Crumb) -> tuple[Crumb, ...]:
    above = crumbs(here, "Clusters", reverse("frontend:clusters", args=[here.project.slug]))
    return (*above, Crumb(row.name, held.url_of(row) if rest else ""), *rest)


def draw(request: HttpRequest, here: ProjectPlace, row: Cluster, **forms: Any) -> HttpResponse:
    """The page, also with a form that was refused: its dialog opens again with the sentence beside the field."""
    page = clusters.page_of(row, here, now=here.now)
    context = {
        "cluster": row,
        "page": page,
        "urls": clusters.urls_of(row),
        "extend_form": ExtendForm(ends_at=row.lease_ends_at),
        "reason_form": ReasonForm(),
        "lifetime_form": LifetimeForm(),
        "upgrade_form": UpgradeForm(
            releases=list(page.releases), pools=[pool.name for pool in page.pools], auto_id="upgrade_%s"
        ),
        "delete_title": f"Delete {row.name}",
        "crumbs": trail(here, row),
        **forms,
    }
    return draw_page(request, "clusters/detail.html", context)


show = cluster_page(Permission.WORKSPACE_VIEW)(draw)
