"""Changing the size of a workspace: the effect is shown before it is asked for."""

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from billing.quotes import QuoteItem, what_if
from frontend.components import Meter, Notice, Tone
from frontend.forms import refuse
from frontend.forms.workspaces import ResizeForm
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page
from frontend.presenters.cost import PriceChange, change_lines
from frontend.presenters.workspaces import url_of
from frontend.views.usage import crumbs
from frontend.views.workspaces import workspace_at
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.workspaces.amounts import amounts_of
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import resize_waits
from gpuaas.workspaces.services import workspace_resize
from quotas.resources import resource_unit
from quotas.selectors import Preview, admission_preview
from tenants.roles import Permission

MOST = 1000


@project_page(Permission.WORKSPACE_CREATE)
def resize(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    if request.method != "POST":
        return draw(request, here, row, ResizeForm(workspace=row, back=resize_waits(workspace=row)))
    form = ResizeForm(request.POST, workspace=row)
    if form.is_valid():
        try:
            workspace_resize(
                actor=here.actor,
                workspace=row,
                items=form.wanted(),
                storage_gib=form.cleaned_data["storage_gib"],
                expected_version=form.cleaned_data["version"],
            )
        except (Invalid, Conflict, StaleVersion) as error:
            refuse(form, error)
        else:
            return redirect(url_of(row))
    return draw(request, here, row, form, status=422)


@project_page(Permission.WORKSPACE_CREATE)
def effect(request: HttpRequest, here: ProjectPlace, workspace: uuid.UUID) -> HttpResponse:
    row = workspace_at(here, workspace, Permission.WORKSPACE_CREATE)
    form = ResizeForm(request.POST, workspace=row)
    return render(request, "workspaces/_effect.html", effect_of(here, row, form))


def draw(
    request: HttpRequest, here: ProjectPlace, row: Workspace, form: ResizeForm, *, status: int = 200
) -> HttpResponse:
    slug = here.project.slug
    context = {
        "place": here,
        "workspace": row,
        "form": form,
        "effect_url": reverse("frontend:workspace_effect", args=[slug, row.pk]),
        "page_url": url_of(row),
        "crumbs": (
            *crumbs(here, "Workspaces", reverse("frontend:workspaces", args=[slug])),
            Crumb(row.name, url_of(row)),
            Crumb("Resize"),
        ),
        **effect_of(here, row, form),
    }
    return render(request, "workspaces/resize.html", context, status=status)


def effect_of(here: ProjectPlace, row: Workspace, form: ResizeForm) -> dict[str, Any]:
    """What the new size asks of limits and capacity on top of what is held, and what it costs."""
    items = [(item, _count(form, item.flavor.slug)) for item in form.items]
    storage = _value(form, "storage_gib", row.storage_gib)
    if storage is None or any(count is None for _, count in items):
        return {
            "notice": Notice(
                Tone.WARN, "Something cannot be read", "Counts are whole numbers from 0 to 1,000."
            )
        }
    wanted = [(item.flavor, count) for item, count in items if count]
    asked = amounts_of([(item.flavor, item.count) for item in form.items], storage_gib=row.storage_gib)
    # a shrink that waits still holds what was confirmed: taking it back asks for nothing more
    most = [(item.flavor, max(item.count, item.confirmed)) for item in form.items]
    now_held = amounts_of(most, storage_gib=row.storage_gib)
    then_held = amounts_of(wanted, storage_gib=storage)
    if not wanted:
        return {
            "notice": Notice(
                Tone.WARN, "Nothing would be left", "To give everything back, delete the workspace."
            )
        }
    if then_held == asked:
        return {"notice": Notice(Tone.WAIT, "No change yet", "Change a number to see what it does.")}
    more = {name: amount - now_held.get(name, 0) for name, amount in then_held.items()}
    preview = admission_preview(project=here.project, site=row.site, amounts=more, holder_id=row.pk)
    meters = tuple(
        Meter(0, check.used, check.asked, check.limit, f"{check.scope_name}, {resource_unit(check.resource)}")
        for check in preview.checks
        if check.resource.startswith("gpu:") or not check.fits
    )
    notice = _verdict(preview)
    change = _money(row, wanted, storage) if here.can(Permission.BILLING_VIEW) else None
    return {"notice": notice, "meters": meters, "change": change, "fits": preview.fits}


def _verdict(preview: Preview) -> Notice:
    if preview.fits:
        text = "What shrinks is given back once the site has confirmed it."
        return Notice(Tone.OK, "You can have this now", text)
    if preview.hold:
        return Notice(Tone.BAD, "More is blocked here", preview.hold)
    check = preview.refusals[0]
    words = resource_unit(check.resource)
    if check.kept:
        return Notice(Tone.BAD, f"{check.scope_name} keeps them for others", check.kept)
    text = (
        f"{check.used:,} of {check.limit or 0:,} {words} are held; "
        f"this asks for {check.asked:,} more, {check.left:,} are left."
    )
    return Notice(Tone.BAD, f"Not within the limit of {check.scope_name}", text)


def _money(row: Workspace, wanted: list[tuple[Any, Any]], storage: int) -> PriceChange:
    items = [QuoteItem(flavor, count) for flavor, count in wanted]
    found = what_if(workspace=row, items=items, storage_gib=storage)
    return PriceChange(found, change_lines(found))


def _count(form: ResizeForm, slug: str) -> int | None:
    name = form.key(slug)
    return _value(form, name, form.fields[name].initial, most=MOST)


def _value(form: ResizeForm, name: str, held: int, most: int = 1_000_000) -> int | None:
    """As typed so far; None where it cannot be read."""
    if not form.is_bound:
        return held
    text = str(form.data.get(name, "")).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= most else None
