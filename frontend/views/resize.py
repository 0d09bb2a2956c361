"""Changing the size of a workspace: the effect is shown before it is asked for."""

from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from billing.held import what_if
from billing.quotes import QuoteItem
from frontend.components import Meter, Notice
from frontend.forms import first_wrong
from frontend.forms.workspaces import ResizeForm
from frontend.frame import draw_page, posted, refusals_on
from frontend.nav import Crumb
from frontend.place import ProjectPlace
from frontend.presenters.cost import PriceChange, change_lines, classes_of
from frontend.presenters.effect import blocked_by, changed_meanwhile, tell_beside, verdict
from frontend.presenters.held import url_of
from frontend.presenters.rights import why_no_resize
from frontend.presenters.words import units_of
from frontend.views.workspaces import trail, workspace_page
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.core.looks import Tone
from gpuaas.workspaces.amounts import amounts_of
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import resize_waits
from gpuaas.workspaces.services import workspace_resize
from quotas.resources import gpu_type_slug
from quotas.selectors import admission_preview
from tenants.roles import Permission


@workspace_page(Permission.WORKSPACE_CREATE)
def resize(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponse:
    data = posted(request)
    form = ResizeForm(data, workspace=row, back=data is None and resize_waits(workspace=row))
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, StaleVersion, fields=form.fields_of()):
            workspace_resize(
                actor=here.actor,
                workspace=row,
                items=form.wanted(),
                storage_gib=form.cleaned_data["storage_gib"],
                storage_classes=form.classes(),
                expected_version=form.cleaned_data["version"],
            )
            return redirect(url_of(row))
    context = {
        "workspace": row,
        "form": form,
        "effect_url": reverse("frontend:workspace_effect", args=[here.project.slug, row.pk]),
        "page_url": url_of(row),
        "crumbs": trail(here, row, Crumb("Resize")),
        **effect_of(here, row, form),
    }
    return draw_page(request, "workspaces/resize.html", context)


@workspace_page(Permission.WORKSPACE_CREATE)
def effect(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponse:
    form = ResizeForm(request.POST, workspace=row)
    return render(
        request, "workspaces/_effect.html", {"typed": True, "form": form, **effect_of(here, row, form)}
    )


def effect_of(here: ProjectPlace, row: Workspace, form: ResizeForm) -> dict[str, Any]:
    """What the new size asks of limits and capacity on top of what is held, and what it costs."""
    if changed := changed_meanwhile(
        row, form, reverse("frontend:workspace_resize", args=[here.project.slug, row.pk])
    ):
        return {"notice": changed, "blocked": changed.text}
    if why := why_no_resize(row):
        return {"notice": Notice(Tone.WARN, "It cannot be resized now", why), "blocked": why}
    items = [(item, _value(form, form.key(item.flavor.slug))) for item in form.items]
    storage = _value(form, "storage_gib")
    classes = {slug: _value(form, form.class_key(slug)) for slug in form.slugs}
    if storage is None or None in classes.values() or any(count is None for _, count in items):
        notice = Notice(Tone.WARN, "Check your input", "What is wrong stands beside its field.")
        return {"notice": notice, "blocked": first_wrong(form)}
    by_class = {slug: gib for slug, gib in classes.items() if gib}
    wanted = [(item.flavor, count) for item, count in items if count]
    asked, now_held = _held(row, form)
    then_held = amounts_of(wanted, storage_gib=storage + sum(by_class.values()))
    if not wanted:
        notice = Notice(Tone.WARN, "Nothing would be left", "To release everything, delete the workspace.")
        return {"notice": notice, "blocked": "Then nothing would be left."}
    if then_held == asked and (storage, by_class) == (row.storage_gib, classes_of(row)):
        notice = Notice(Tone.WAIT, "No change yet", "Change a number to see its effect.")
        return {"notice": notice, "blocked": "Nothing has changed yet."}
    more = {name: amount - now_held.get(name, 0) for name, amount in then_held.items()}
    preview = admission_preview(project=here.project, site=row.site, amounts=more, holder_id=row.pk)
    units = units_of(check.resource for check in preview.checks)
    meters = tuple(
        Meter(0, check.used, check.asked, check.limit, f"{check.scope_name}, {units[check.resource]}")
        for check in preview.checks
        if gpu_type_slug(check.resource) or not check.fits
    )
    tell_beside(form, preview, form.fields_of())
    notice = verdict(preview, "Decreases are released when the site confirms them.")
    change = _money(row, wanted, storage, by_class) if here.can(Permission.BILLING_VIEW) else None
    return {"notice": notice, "meters": meters, "change": change, "blocked": blocked_by(preview)}


def _held(row: Workspace, form: ResizeForm) -> tuple[dict[str, int], dict[str, int]]:
    """As asked before, and at most: a shrink that waits still holds what was confirmed, and taking it back asks for nothing more."""
    classes = row.storage.all()
    asked = amounts_of(
        [(item.flavor, item.count) for item in form.items],
        storage_gib=row.storage_gib + sum(each.gib for each in classes),
    )
    most = amounts_of(
        [(item.flavor, max(item.count, item.confirmed)) for item in form.items],
        storage_gib=row.storage_gib + sum(max(each.gib, each.confirmed) for each in classes),
    )
    return asked, most


def _money(
    row: Workspace, wanted: list[tuple[Any, Any]], storage: int, classes: dict[str, int]
) -> PriceChange:
    items = [QuoteItem(flavor, count) for flavor, count in wanted]
    found = what_if(workspace=row, items=items, storage_gib=storage, classes=classes)
    return PriceChange(found, change_lines(found))


def _value(form: ResizeForm, name: str) -> int | None:
    """As typed so far; None where it cannot be read or is out of bounds. A service's refusal does not change what was typed."""
    field = form.fields[name]
    if not form.is_bound:
        return int(field.initial)
    try:
        found: int | None = field.clean(form.data.get(name))
    except ValidationError:
        return None
    return found or 0
