"""What people do to a workspace and to a cluster alike: every one a POST that ends on the page of the row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path

from frontend import formats
from frontend.forms.workspaces import ExtendForm, ReasonForm
from frontend.frame import done, name_typed, refusals_on
from frontend.place import ProjectPlace, ProjectRowDoor
from frontend.presenters import effect as effects
from frontend.presenters import extension, held
from frontend.views.clusters import cluster_action
from frontend.views.clusters import draw as draw_cluster
from frontend.views.workspaces import draw as draw_workspace
from frontend.views.workspaces import workspace_action
from gpuaas.clusters import services as cluster_services
from gpuaas.clusters.models import Cluster
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.workspaces import services as workspace_services
from gpuaas.workspaces.models import Workspace
from tenants.roles import Permission

R = TypeVar("R", Workspace, Cluster)


@dataclass(frozen=True)
class Pages(Generic[R]):
    """Of one kind. `services` by what is asked of them; they take the row by its `noun`. `answers`: to each button."""

    noun: str
    action: ProjectRowDoor[R]
    draw: Callable[..., HttpResponse]
    extension: Callable[[R, ExtendForm, ProjectPlace], extension.Extension]
    services: Mapping[str, Callable[..., object]]
    answers: Mapping[str, str]

    def ask(self, verb: str, here: ProjectPlace, row: R, **given: object) -> None:
        self.services[verb](actor=here.actor, **{self.noun: row}, **given)

    def done(self, request: HttpRequest, row: R, verb: str) -> HttpResponse:
        return done(request, self.answers[verb].format(name=row.name), held.url_of(row))


WORKSPACE: Pages[Workspace] = Pages(
    "workspace",
    workspace_action,
    draw_workspace,
    extension.workspace_extension,
    {
        "extend": workspace_services.workspace_extend,
        "delete": workspace_services.workspace_delete,
        "retry": workspace_services.workspace_retry,
        "suspend": workspace_services.workspace_suspend,
        "resume": workspace_services.workspace_resume,
    },
    {
        "delete": "Deleting {name}. Access ends first, then everything in it.",
        "retry": "Trying again.",
        "suspend": "Suspending {name}. Running workloads end; its data stays.",
        "resume": "Resuming {name}. Its GPUs are reserved again.",
    },
)
CLUSTER: Pages[Cluster] = Pages(
    "cluster",
    cluster_action,
    draw_cluster,
    extension.cluster_extension,
    {
        "extend": cluster_services.cluster_extend,
        "delete": cluster_services.cluster_delete,
        "retry": cluster_services.cluster_retry,
        "suspend": cluster_services.cluster_suspend,
        "resume": cluster_services.cluster_resume,
    },
    {
        "delete": "Deleting {name}. Its ledger shows the objects that remain.",
        "retry": "Trying again, from the step that failed.",
        "suspend": "Suspending {name}. Its workers are removed; its control plane stays.",
        "resume": "Resuming {name}. Its GPUs are reserved again.",
    },
)


def delete(kind: Pages[R], request: HttpRequest, here: ProjectPlace, row: R) -> HttpResponse:
    if not name_typed(request, row.name):
        return kind.draw(request, here, row)
    kind.ask("delete", here, row)
    return kind.done(request, row, "delete")


def extend(kind: Pages[R], request: HttpRequest, here: ProjectPlace, row: R) -> HttpResponse:
    form = ExtendForm(request.POST, ends_at=row.lease_ends_at)
    if form.is_valid():
        until = form.cleaned_data["until"]
        with refusals_on(form, Invalid, fields={"lease_ends_at": "until"}):
            kind.ask("extend", here, row, lease_ends_at=until)
            return done(request, f"Lease extended to {formats.when(until, here.zone)}.", held.url_of(row))
    return kind.draw(request, here, row, extend_form=form, opened="extend")


def extend_effect(kind: Pages[R], request: HttpRequest, here: ProjectPlace, row: R) -> HttpResponse:
    """What the end that is typed would cost; nothing is changed."""
    form = ExtendForm(request.POST, ends_at=row.lease_ends_at)
    context = {"extension": kind.extension(row, form, here), "form": form}
    return render(request, "components/extend_effect.html", context)


def effect(verb: str, kind: Pages[R], request: HttpRequest, here: ProjectPlace, row: R) -> HttpResponse:
    """What the button of that dialog would change of limits and price; nothing is changed."""
    labels = {effects.RESUME: f"Resume {kind.noun}", effects.RETRY: "Try again"}
    button = {"label": labels[verb], "button": f"{verb}-button"} if verb in labels else {}
    context = {"effect": effects.effect_of(row, verb, here), **button}
    return render(request, "components/effect.html", context)


def retry(kind: Pages[R], request: HttpRequest, here: ProjectPlace, row: R) -> HttpResponse:
    kind.ask("retry", here, row)
    return kind.done(request, row, "retry")


def suspend(kind: Pages[R], request: HttpRequest, here: ProjectPlace, row: R) -> HttpResponse:
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return kind.draw(request, here, row, reason_form=form, opened="suspend")
    with refusals_on(form, Invalid, Conflict):
        kind.ask("suspend", here, row, reason=form.cleaned_data["reason"])
        return kind.done(request, row, "suspend")
    return kind.draw(request, here, row, reason_form=form, opened="suspend")


def resume(kind: Pages[R], request: HttpRequest, here: ProjectPlace, row: R) -> HttpResponse:
    """Refused with the limit or the capacity that has no room; it then stays asleep."""
    form = ReasonForm(request.POST)
    form.is_valid()
    with refusals_on(form, Invalid, Conflict):
        kind.ask("resume", here, row)
        return kind.done(request, row, "resume")
    return kind.draw(request, here, row, resume_form=form, opened="resume")


def patterns(kind: Pages[R]) -> list[URLPattern]:
    """The addresses of all of it, below the page of a row."""
    views: dict[str, Callable[..., HttpResponse]] = {
        "delete": delete,
        "extend": extend,
        "extend_effect": extend_effect,
        "retry": retry,
        "suspend": suspend,
        "resume": resume,
        **{
            f"{verb}_effect": partial(effect, verb)
            for verb in (effects.SUSPEND, effects.RESUME, effects.DELETE, effects.RETRY)
        },
    }
    door = kind.action(Permission.WORKSPACE_CREATE)
    return [
        path(f"{name.replace('_', '/')}/", door(partial(view, kind)), name=f"{kind.noun}_{name}")
        for name, view in views.items()
    ]
