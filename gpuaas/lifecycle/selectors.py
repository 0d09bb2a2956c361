"""Reads that are the same for every kind."""

from collections.abc import Iterable
from typing import TypeVar

from django.db.models import Q, QuerySet

from gpuaas.core.rows import searched
from gpuaas.lifecycle.models import Provisioned
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import projects_for

RowT = TypeVar("RowT", bound=Provisioned)


def seen_by(
    actor: Actor,
    rows: QuerySet[RowT],
    *,
    project: Project | None,
    states: Iterable[str] | None,
    search: str,
    also: Q | None = None,
) -> QuerySet[RowT]:
    """Those of `rows` that the actor may see. states: None = any. search: in the name, or what is `also` meant."""
    rows = rows.filter(project__in=projects_for(actor=actor, permission=Permission.WORKSPACE_VIEW).order_by())
    if project is not None:
        rows = rows.filter(project=project)
    if states is not None:
        rows = rows.filter(state__in=list(states))
    return searched(rows, search, also=also) if search else rows
