"""The door of the operators' pages: for everybody else they do not exist."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from zoneinfo import ZoneInfo

from django.contrib.auth.decorators import login_required
from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.urls import reverse

from billing.months import month_of, month_parse
from frontend.context import Console, attach
from frontend.nav import Crumb
from frontend.place import place_of
from gpuaas.core.errors import Invalid
from gpuaas.core.events import OPERATORS_GROUP
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.roles import Permission
from tenants.selectors import platform_require

P = ParamSpec("P")
M = TypeVar("M", bound=Model)
ROWS = 50
View = Callable[Concatenate[HttpRequest, "OperatorPlace", P], HttpResponseBase]


@dataclass(frozen=True)
class OperatorPlace:
    """`may_manage` is for showing buttons; services decide for themselves."""

    user: User
    actor: Actor
    may_manage: bool

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.user.time_zone)


def operator_page(view: View[P]) -> Callable[..., HttpResponseBase]:
    """Operators and auditors may look. What is not a GET needs platform:manage, before the view parses anything."""

    @login_required
    @wraps(view)
    def page(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        place = place_of(request)
        platform_require(actor=place.actor)
        if request.method not in {"GET", "HEAD", "OPTIONS"}:
            platform_require(actor=place.actor, permission=Permission.PLATFORM_MANAGE)
        may_manage = Permission.PLATFORM_MANAGE in place.actor.on_platform()
        here = getattr(request, "console", None)
        console = here if isinstance(here, Console) else Console()
        attach(request, replace(console, operator_view=True, counts={}, topics=(OPERATORS_GROUP,)))
        return view(request, OperatorPlace(place.user, place.actor, may_manage), *args, **kwargs)

    return page


def operator_action(view: View[P]) -> Callable[..., HttpResponseBase]:
    """A page that only changes something: whoever may not gets the same answer whatever the method."""

    def action(
        request: HttpRequest, here: OperatorPlace, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        platform_require(actor=here.actor, permission=Permission.PLATFORM_MANAGE)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        return view(request, here, *args, **kwargs)

    return wraps(view)(operator_page(action))


def crumbs(section: str, *rest: tuple[str, str]) -> tuple[Crumb, ...]:
    """`crumbs("Supply", ("Sites", "operator_sites"), ("ber-1", ""))`; the last one is where the reader is."""
    named = tuple(Crumb(label, reverse(f"frontend:{name}") if name else "") for label, name in rest)
    return (Crumb(section), *named)


def paged(request: HttpRequest, rows: QuerySet[M], size: int = ROWS) -> Page[M]:
    return Paginator(rows, size).get_page(request.GET.get("page"))


def projects_known() -> dict[str, Project]:
    """Of all organizations, by slug, for choosing one."""
    rows = Project.objects.select_related("organization").order_by("organization__name", "name")
    return {row.slug: row for row in rows}


def month_asked(request: HttpRequest, now: datetime) -> date:
    """The month of the query; the running one where it says nothing, nonsense or the future."""
    try:
        return min(month_parse(request.GET.get("month", "")), month_of(now))
    except Invalid:
        return month_of(now)
