"""The list of clusters and the page of one."""

import uuid
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse

from frontend.forms.clusters import UpgradeForm
from frontend.forms.workspaces import ExtendForm, LifetimeForm, ReasonForm
from frontend.frame import draw_page
from frontend.lists import Column, Filter, Listing, Query, find, list_page, state_choices, states_of
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page, row_doors
from frontend.presenters import clusters, held
from frontend.views.usage import crumbs
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import cluster_get_for, clusters_for, templates_for
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.core.errors import NotFound
from tenants.roles import Permission

TEMPLATE, TEMPLATE_NAME = "template_version__template__slug", "template_version__template__name"
COLUMNS = (
    Column("name", "Name", "name"),
    Column("state", "State", "state", "word"),
    Column("holds", "Workers"),
    Column("template", "Template", TEMPLATE_NAME),
    Column("release", "Release", "release"),
    Column("site", "Site", "site__slug"),
    Column("lease", "Lease ends", "lease_ends_at", "lease_ends_at"),
    Column("created", "Requested", "created_at", "created_at"),
    Column("created_by"),
)
FILTERS = (
    find(),
    Filter("state", "State", "every state", state_choices(ClusterState)),
    Filter("template", "Template", "every template"),
    Filter("site", "Site", "every site"),
)
LIST = Listing("clusters", COLUMNS, FILTERS, size=25)


def clusters_found(query: Query, **scope: Any) -> QuerySet[Cluster]:
    return clusters_for(
        **scope,
        states=states_of(query, ClusterState, LIVE),
        template=query["template"],
        site=query["site"],
        search=query["q"],
    )


@project_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    mine = Cluster.objects.filter(project=here.project)
    shown = LIST.of(
        request,
        lambda query: clusters_found(query, **here.given),
        lambda rows: [clusters.row_of(row, now=here.now) for row in rows],
        site=sorted(set(mine.values_list("site__slug", flat=True))),
        template=sorted(set(mine.values_list(TEMPLATE, TEMPLATE_NAME))),
    )
    context = {
        "new_url": reverse("frontend:cluster_new", args=[here.project.slug]),
        "may_order": here.can(Permission.WORKSPACE_CREATE),
        "offered": templates_for(**here.given).exists(),
        "crumbs": crumbs(here, "Clusters"),
    }
    return list_page(request, "clusters/list.html", shown, context)


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
