"""Asking for a workspace: the form, and the answer that comes while it is typed."""

import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from frontend.forms import refuse
from frontend.forms.workspaces import COUNT_MAX, STORAGE_MAX, RequestForm
from frontend.frame import draw_page, number_of
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_action, project_page
from frontend.presenters import answer, offers
from frontend.presenters.held import url_of
from frontend.presenters.limits import gpus_allocated
from frontend.presenters.sleep import after_lease
from frontend.views import request_check
from frontend.views.usage import crumbs
from gpuaas.core.errors import Conflict, GpuaasError, Invalid
from gpuaas.providers.base import Placement
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from gpuaas.workspaces.states import LIVE, AccessRole
from quotas.resources import STORAGE
from tenants.roles import Permission

ASKED = "requests_made"
KEPT = 20
AGAIN = timedelta(seconds=60)


@project_page(Permission.WORKSPACE_CREATE)
def new(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    if request.method == "POST":
        return create(request, here)
    return draw(request, here, RequestForm(initial=start(request)))


def start(request: HttpRequest) -> dict[str, Any]:
    """Links may name a flavor and a count, as the catalog and other pages do."""
    count = request.GET.get("count", "1")
    return {
        "flavor": request.GET.get("flavor", "")[:64],
        "count": count if count.isdigit() else "1",
        "storage_gib": 100,
        "lease": "28",
        "token": secrets.token_urlsafe(16),
    }


def create(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    """Refusals land beside their field with everything else kept; a second press of the button is the first one, but with
    another name it is another request: somebody went back for a second workspace."""
    form = RequestForm(request.POST)
    token = str(request.POST.get("token", ""))[:64]
    made = _made_before(request, here, token)
    if made is not None:
        return redirect(url_of(made))
    if form.is_valid() and (row := _request_or_refuse(here, form)):
        _remember(request, token, row)
        return redirect(url_of(row))
    return draw(request, here, form)


def _request_or_refuse(here: ProjectPlace, form: RequestForm) -> Workspace | None:
    data = form.cleaned_data
    people = [(here.user.username, AccessRole.ADMIN.value)]
    people += [(name, AccessRole.EDIT.value) for name in form.member_names() if name != here.user.username]
    try:
        return workspace_request(**here.given, **form.wanted(now=here.now), members=people)
    except (Invalid, Conflict) as error:
        duplicate = _pressed_twice(here, data, error)
        if duplicate is None:
            refuse(form, error, fields=_fields(error), default="count")
        return duplicate


def _fields(error: GpuaasError) -> dict[str, str]:
    """The service speaks of items; on the form that is the count where it is about the number, else the flavor."""
    about_count = "count of" in error.message
    return {
        "items": "count" if about_count else "flavor",
        STORAGE: "storage_gib",
        "storage_classes": "storage_class",
    }


def _pressed_twice(here: ProjectPlace, data: Mapping[str, Any], error: GpuaasError) -> Workspace | None:
    """The name is taken by what this person asked for a moment ago: two presses met before the first had answered."""
    if error.detail.get("field") != "name":
        return None
    rows = Workspace.objects.select_related("project").filter(
        project=here.project,
        name=data["name"],
        created_by=here.user,
        created_at__gte=here.now - AGAIN,
        state__in=LIVE,
        flavors__flavor__slug=data["flavor"],
        flavors__count=data["count"],
    )
    return rows.first()


def _made_before(request: HttpRequest, here: ProjectPlace, token: str) -> Workspace | None:
    made = request.session.get(ASKED, {}).get(token) if token else None
    if made is None:
        return None
    rows = Workspace.objects.select_related("project").filter(pk=made, project=here.project)
    return rows.filter(name=request.POST.get("name", "").strip()).first()


def _remember(request: HttpRequest, token: str, row: Workspace) -> None:
    if token:
        recent = list(request.session.get(ASKED, {}).items())[-KEPT:]
        request.session[ASKED] = dict([*recent, (token, str(row.pk))])


def draw(request: HttpRequest, here: ProjectPlace, form: RequestForm) -> HttpResponse:
    source: Mapping[str, Any] = request.POST if form.is_bound else form.initial
    tried = request_check.checked(here, source)
    found = answer_for(here, source, tried)
    if "count" not in form.errors:
        _count_told(tried, found)
    context = {
        "form": form,
        "offers": offers_at(request, here),
        "after_lease": after_lease(),
        "chosen": str(source.get("flavor", "")),
        "answer": found,
        "count_field": form["count"] if form.errors.get("count") else tried["count"],
        "urls": urls_of(here),
        "crumbs": (
            *crumbs(here, "Workspaces", reverse("frontend:workspaces", args=[here.project.slug])),
            Crumb("New"),
        ),
    }
    return draw_page(request, "catalog/request.html", context)


def urls_of(here: ProjectPlace) -> dict[str, str]:
    slug = here.project.slug
    return {
        "new": reverse("frontend:workspace_new", args=[slug]),
        "answer": reverse("frontend:workspace_answer", args=[slug]),
        "flavors": reverse("frontend:workspace_flavors", args=[slug]),
        "workspaces": reverse("frontend:workspaces", args=[slug]),
    }


@project_page(Permission.WORKSPACE_CREATE)
def flavors(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    """The rows that fit the filters; the chosen one stays chosen."""
    context = {"offers": offers_at(request, here), "chosen": request.GET.get("flavor", "")}
    return render(request, "catalog/_flavors.html", context)


def offers_at(request: HttpRequest, here: ProjectPlace) -> offers.Offers:
    """A refused form comes back with the filters that it was sent with."""
    sent = request.POST if request.method == "POST" else request.GET
    wanted = {name: sent.get(name, "") for name in offers.FILTERS}
    return offers.offers_of(**here.given, wanted=wanted, chosen=sent.get("flavor", ""))


@project_action(Permission.WORKSPACE_CREATE)
def answer_now(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    """`take` is the answer's own button: it sets the count to what fits."""
    source: dict[str, Any] = request.POST.dict()
    take = request.GET.get("take", "")
    if take.isdigit():
        source["count"] = take
    form = request_check.checked(here, source)
    found = answer_for(here, source, form)
    _count_told(form, found)
    if found.storage_problem and "storage_gib" not in form.errors:
        form.add_error("storage_gib", found.storage_problem)
    context: dict[str, Any] = {
        "answer": found,
        "checked": form,
        "after_lease": after_lease(),
        "urls": urls_of(here),
    }
    if take.isdigit():
        context["count_field"] = form["count"]
    return render(request, "catalog/_answer.html", context)


def _count_told(form: RequestForm, found: answer.Answer) -> None:
    if found.count_problem:
        form.errors.pop("count", None)
        form.add_error("count", found.count_problem)


def answer_for(here: ProjectPlace, source: Mapping[str, Any], form: RequestForm) -> answer.Answer:
    """`form` is `source` as checked: what is wrong in it is part of the answer."""
    count, storage = (number_of(str(source.get(name) or 0).strip()) for name in ("count", "storage_gib"))
    name = str(source.get("name", "")).strip()
    asked = answer.Asked(
        project=here.project,
        flavor=request_check.flavor_of(here, str(source.get("flavor", ""))),
        count=count if count is not None and 0 < count <= COUNT_MAX else None,
        storage_gib=storage or 0,
        classes=dict(form.classes()),
        lease_ends_at=None if form.lease_errors else form.lease_end(now=here.now),
        name=name[:40],
        people=people_of(here, form.member_names()),
        allocated=gpus_allocated(**here.given)[0],
        problem=problem_of(count, storage),
        count_problem=count_problem(count),
        amiss=request_check.amiss(form),
        placement=str(source.get("placement", "")) if source.get("placement") in tuple(Placement) else "",
    )
    return answer.answer_of(asked, now=here.now, take_url=urls_of(here)["answer"])


def count_problem(count: int | None) -> str:
    fits = count is not None and 1 <= count <= COUNT_MAX
    return "" if fits else f"Enter a whole number from 1 to {COUNT_MAX:,}."


def problem_of(count: int | None, storage: int | None) -> str:
    if problem := count_problem(count):
        return problem
    if storage is None or not 0 <= storage <= STORAGE_MAX:
        return f"Enter storage as a whole number of GiB from 0 to {STORAGE_MAX:,}."
    return ""


def people_of(here: ProjectPlace, names: list[str]) -> list[str]:
    others = [name for name in names if name != here.user.username]
    return [f"{here.user.username} (admin)", *(f"{name[:40]} (edit)" for name in others[:5])]
