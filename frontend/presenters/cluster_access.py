"""Who holds credentials of a cluster, and who may revoke them."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from frontend.place import ProjectPlace
from gpuaas.clusters.models import Cluster, ClusterGrant
from gpuaas.clusters.selectors import grants_lost, grants_open
from gpuaas.clusters.services import cluster_can_revoke
from tenants.models import User
from tenants.roles import Permission

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
class Grantees:
    """early: credentials can be revoked before they expire."""

    people: tuple[Grantee, ...]
    early: bool


def grantees_of(cluster: Cluster, here: ProjectPlace) -> Grantees:
    """Two queries."""
    early = cluster_can_revoke(cluster)
    found: dict[uuid.UUID, list[ClusterGrant]] = {}
    for grant in grants_open(cluster_id=cluster.pk).select_related("user").order_by("user__username", "pk"):
        found.setdefault(grant.user_id, []).append(grant)
    left = set() if early else set(grants_lost().filter(cluster=cluster).values_list("user", flat=True))
    people = tuple(
        _together(rows, revoke_url_of(cluster, rows[0].user, here) if early else "", left=pk in left)
        for pk, rows in found.items()
    )
    return Grantees(people, early)


def revoke_url_of(cluster: Cluster, holder: User, here: ProjectPlace) -> str:
    """People revoke their own credentials; those who manage the project revoke anybody's."""
    if not here.actor.owns(holder.pk) and not here.can(Permission.PROJECT_MANAGE):
        return ""
    return reverse("frontend:cluster_revoke", args=[cluster.project.slug, cluster.pk, holder.pk])


def _together(rows: Sequence[ClusterGrant], revoke_url: str, *, left: bool) -> Grantee:
    ending = all(row.revoke_asked_at is not None for row in rows)
    note = "being revoked" if ending else LEFT if left else ""
    return Grantee(
        name=rows[0].user.username,
        live=len(rows),
        taken=rows[-1].issued_at,
        until=max(row.expires_at for row in rows),
        note=note,
        revoke_url="" if ending else revoke_url,
    )
