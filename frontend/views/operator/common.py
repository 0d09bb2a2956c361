"""The door of the operators' pages: for everybody else they do not exist."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, TypeVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.urls import reverse

from frontend.context import Console, attach
from frontend.nav import Crumb
from frontend.place import Door, Reader, RowDoor, Shown, place_of
from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import site_get_for
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.clusters.selectors import template_get
from gpuaas.core.events import OPERATORS_GROUP
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import organization_get_for, platform_require, projects_for

R = TypeVar("R")
PROPOSED = 200


@dataclass(frozen=True)
class OperatorPlace(Reader):
    """`may_manage` is for showing buttons; services decide for themselves."""

    may_manage: bool


def _operator(request: HttpRequest, address: dict[str, Any]) -> OperatorPlace:
    place = place_of(request)
    platform_require(actor=place.actor)
    if request.method not in {"GET", "HEAD", "OPTIONS"}:
        platform_require(actor=place.actor, permission=Permission.PLATFORM_MANAGE)
    found = getattr(request, "console", None)
    console = found if isinstance(found, Console) else Console()
    attach(request, replace(console, operator_view=True, counts={}, topics=(OPERATORS_GROUP,)))
    may_manage = Permission.PLATFORM_MANAGE in place.actor.on_platform()
    return OperatorPlace(place.user, place.actor, place.now, may_manage)


# Operators and auditors may look. What is not a GET needs platform:manage, before the view parses anything.
operator_page = Door(_operator)


def operator_action(view: Callable[Concatenate[HttpRequest, OperatorPlace, ...], HttpResponseBase]) -> Shown:
    """A page that only changes something: whoever may not gets the same answer whatever the method."""
    shown: Shown = view

    @wraps(view)
    def action(request: HttpRequest, here: OperatorPlace, **kwargs: Any) -> HttpResponseBase:
        platform_require(actor=here.actor, permission=Permission.PLATFORM_MANAGE)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        return shown(request, here, **kwargs)

    door: Callable[[Shown], Shown] = operator_page
    return door(action)


def row_doors(
    find: Callable[..., R], *names: str
) -> tuple[RowDoor[OperatorPlace, R], RowDoor[OperatorPlace, R]]:
    """To the pages and to the actions of one row."""
    return RowDoor(operator_page, find, names), RowDoor(operator_action, find, names)


def _site(here: OperatorPlace, slug: str) -> Site:
    return site_get_for(actor=here.actor, slug=slug)


def _organization(here: OperatorPlace, slug: str) -> Organization:
    return organization_get_for(actor=here.actor, slug=slug)


def _template(here: OperatorPlace, slug: str) -> ClusterTemplate:
    return template_get(actor=here.actor, slug=slug)


site_page, site_action = row_doors(_site, "slug")
organization_page, organization_action = row_doors(_organization, "slug")
template_page, template_action = row_doors(_template, "slug")


def crumbs(section: str, *rest: tuple[str, str]) -> tuple[Crumb, ...]:
    """`crumbs("Supply", ("Sites", "operator_sites"), ("ber-1", ""))`; the last one is where the reader is."""
    named = tuple(Crumb(label, reverse(f"frontend:{name}") if name else "") for label, name in rest)
    return (Crumb(section), *named)


def projects_proposed(here: OperatorPlace) -> QuerySet[Project]:
    """What a page with a ProjectField proposes."""
    return projects_for(actor=here.actor)[:PROPOSED]
