"""Everybody who holds access to a workspace or a cluster; their own pages show the first ten."""

from django.http import HttpRequest, HttpResponseBase

from frontend.lists import Column, Filter, Listing, find, list_page, saying
from frontend.nav import Crumb
from frontend.place import ProjectPlace
from frontend.presenters import access
from frontend.presenters.cluster_access import grantees_of
from frontend.presenters.rights import rights_of
from frontend.views import clusters, workspaces
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.states import ClusterState
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import AccessRole, WorkspaceState
from tenants.roles import Permission

ROLES = [(role.label.lower(), role.label) for role in AccessRole] + [
    (access.FORMER, access.FORMER.capitalize())
]
MEMBERS = Listing(
    "members",
    columns=(
        Column("name", "Member", "name"),
        Column("role", "Role", "role"),
        Column("credentials", "Credentials", "live", "live", numeric=True),
        Column("until", "Valid until", "until"),
        Column("actions", "Actions", value=None, quiet=True),
    ),
    filters=(find(), Filter("role", "Role", "every role", ROLES)),
)
ROBOTS = Listing(
    "service accounts",
    columns=(
        Column("name", "Service account", "name"),
        Column("role", "Role", "role"),
        Column("credentials", "Credentials", "live", "live", numeric=True),
        Column("until", "Valid until", "until"),
    ),
    filters=(find(),),
    mark="robot-",
)
HOLDERS = Listing(
    "holders",
    columns=(
        Column("name", "Person", "name"),
        Column("credentials", "Credentials", "live", "live", numeric=True),
        Column("issued_at", "Issued", "taken", "taken"),
        Column("until", "Valid until", "until"),
        Column("note", "Note", "note"),
        Column("revoke", "Revoke", value=None, quiet=True),
    ),
    filters=(find(),),
)
LOGINS = Listing(
    "accounts",
    columns=(
        Column("name", "Account", "name"),
        Column("person", "Person", "person"),
        Column("state", "State", "state"),
    ),
    filters=(find("Find an account or person", "Account or person"),),
    mark="login-",
)


def of_workspace(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponseBase:
    card = access.card_of(row, here, manages=rights_of(row, here).members)
    members = MEMBERS.of(
        request,
        lambda query: [
            each
            for each in saying(card.members, query["q"], lambda each: each.name)
            if not query["role"] or each.role == query["role"]
        ],
    )
    accounts = () if row.state == WorkspaceState.DELETED else card.robots
    robots = ROBOTS.of(request, lambda query: saying(accounts, query["q"], lambda each: each.name))
    context = {
        "workspace": row,
        "topic": f"workspace:{row.pk}",
        "robots": robots,
        "crumbs": workspaces.trail(here, row, Crumb("Access")),
    }
    return list_page(request, "workspaces/access.html", members, context, robots)


def of_cluster(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponseBase:
    found = grantees_of(row, here)
    gone = row.state == ClusterState.DELETED
    people, accounts = ((), ()) if gone else (found.people, found.logins)
    holders = HOLDERS.of(request, lambda query: saying(people, query["q"], lambda each: each.name))
    logins = LOGINS.of(
        request, lambda query: saying(accounts, query["q"], lambda each: f"{each.name} {each.person}")
    )
    context = {
        "cluster": row,
        "topic": f"cluster:{row.pk}",
        "grantees": found,
        "logins": logins,
        "crumbs": clusters.trail(here, row, Crumb("Access")),
    }
    return list_page(request, "clusters/access.html", holders, context, logins)


workspace = workspaces.workspace_page(Permission.WORKSPACE_VIEW)(of_workspace)
cluster = clusters.cluster_page(Permission.WORKSPACE_VIEW)(of_cluster)
