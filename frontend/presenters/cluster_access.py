"""Who holds credentials of a cluster, and who may revoke them."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from frontend.place import ProjectPlace
from gpuaas.clusters.models import Cluster, ClusterGrant
from gpuaas.clusters.selectors import grants_lost, grants_open, logins_admitted, logins_of
from gpuaas.clusters.services import cluster_can_revoke
from tenants.models import User
from tenants.roles import Permission

LEAVING = "has no access any more; the cluster is shutting them out"
LEFT = "has no access any more, but the credential cannot be revoked early"


@dataclass(frozen=True)
class Grantee:
    """The credentials of one person. taken: when the newest was issued; until: when the last expires; note: "" if all are
    simply valid; revoke_url: "" if this reader may not revoke them or nothing is left to revoke."""

    name: str
    live: int
    taken: datetime
    until: datetime
    note: str
    revoke_url: str


@dataclass(frozen=True)
class Login:
    """The account of a person on the cluster's machines. state: "" while it can be used."""

    name: str
    person: str
    state: str


@dataclass(frozen=True)
class Grantees:
    """early: credentials can be revoked before they expire. own: people have accounts of their own, so access ends with
    the right to it."""

    people: tuple[Grantee, ...]
    logins: tuple[Login, ...]
    early: bool
    own: bool


def grantees_of(cluster: Cluster, here: ProjectPlace) -> Grantees:
    """Those with a note come first. Two queries; where people have accounts of their own, two more."""
    early = cluster_can_revoke(cluster)
    found: dict[uuid.UUID, list[ClusterGrant]] = {}
    for grant in grants_open(cluster_id=cluster.pk).select_related("user").order_by("user__username", "pk"):
        found.setdefault(grant.user_id, []).append(grant)
    own = cluster.logins is not None
    left = set() if early else set(grants_lost().filter(cluster=cluster).values_list("user", flat=True))
    people = [
        _together(
            rows,
            revoke_url_of(cluster, rows[0].user, here) if early else "",
            left=(LEAVING if own else LEFT) if pk in left else "",
        )
        for pk, rows in found.items()
    ]
    people.sort(key=lambda one: not one.note)
    return Grantees(tuple(people), _logins(cluster), early, own)


def _logins(cluster: Cluster) -> tuple[Login, ...]:
    inside = cluster.logins
    if inside is None:
        return ()
    admitted = logins_admitted(project_id=cluster.project_id)
    rows = logins_of(project_id=cluster.project_id)
    return tuple(
        Login(row.name, row.user.username, _standing(inside=row.name in inside, admitted=row.pk in admitted))
        for row in rows
    )


def _standing(*, inside: bool, admitted: bool) -> str:
    if admitted:
        return "" if inside else "being made"
    return "being locked" if inside else "locked"


def revoke_url_of(cluster: Cluster, holder: User, here: ProjectPlace) -> str:
    """People revoke their own credentials; those who manage the project revoke anybody's."""
    if not here.actor.owns(holder.pk) and not here.can(Permission.PROJECT_MANAGE):
        return ""
    return reverse("frontend:cluster_revoke", args=[cluster.project.slug, cluster.pk, holder.pk])


def _together(rows: Sequence[ClusterGrant], revoke_url: str, *, left: str) -> Grantee:
    ending = all(row.revoke_asked_at is not None for row in rows)
    note = "being revoked" if ending else left
    return Grantee(
        name=rows[0].user.username,
        live=len(rows),
        taken=rows[-1].issued_at,
        until=max(row.expires_at for row in rows),
        note=note,
        revoke_url="" if ending else revoke_url,
    )
