"""What people do to a cluster: every one a POST that ends on its page; scaling has a page with the effect."""

import base64
import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from billing.clusters import cluster_quote
from frontend import formats
from frontend.components import Fact, Notice, Tone
from frontend.forms import refuse, sentence_of
from frontend.forms.clusters import ScaleForm, UpgradeForm
from frontend.forms.workspaces import ExtendForm, ReasonForm
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page
from frontend.presenters.cluster_access import revoke_url_of
from frontend.presenters.cluster_answer import meters_of, refusal_text, refusal_title
from frontend.presenters.clusters import url_of
from frontend.views.clusters import cluster_at, draw, trail
from frontend.views.workspace_access import lifetime_of
from gpuaas.clusters import services
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import definition_of, grantee_get, releases_offered
from gpuaas.clusters.services import scale_preview
from gpuaas.core.errors import Conflict, Forbidden, Invalid, StaleVersion
from gpuaas.providers.base import Access, AccessKind
from tenants.roles import Permission

CREATE = Permission.WORKSPACE_CREATE


def done(request: HttpRequest, row: Cluster, text: str) -> HttpResponse:
    messages.success(request, text)
    return redirect(url_of(row))


def scale_form(row: Cluster, data: Any = None) -> ScaleForm:
    return ScaleForm(data, cluster=row, definition=definition_of(row.template_version))


@project_page(CREATE)
def scale(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, CREATE)
    form = scale_form(row, request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            services.cluster_scale(
                actor=here.actor,
                cluster=row,
                counts=form.wanted(),
                expected_version=form.cleaned_data["version"],
            )
        except (Invalid, Conflict, StaleVersion) as error:
            refuse(form, error)
        else:
            return redirect(url_of(row))
    context = {
        "place": here,
        "cluster": row,
        "form": form,
        "effect_url": reverse("frontend:cluster_scale_effect", args=[here.project.slug, row.pk]),
        "page_url": url_of(row),
        "crumbs": trail(here, row, Crumb("Scale")),
        **_effect(here, row, form),
    }
    return render(request, "clusters/scale.html", context, status=422 if form.is_bound else 200)


@require_POST
@project_page(CREATE)
def scale_effect(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, CREATE)
    return render(request, "clusters/_effect.html", _effect(here, row, scale_form(row, request.POST)))


def _effect(here: ProjectPlace, row: Cluster, form: ScaleForm) -> dict[str, Any]:
    """What the new counts ask of limits and capacity on top of what is held, and what they cost per hour."""
    if form.is_bound and not form.is_valid():
        return {"notice": Notice(Tone.WARN, "Something cannot be read", "Counts are whole numbers.")}
    counts = form.wanted() if form.is_bound else {}
    if all(counts.get(pool.name, pool.count) == pool.count for pool in form.pools):
        return {"notice": Notice(Tone.WAIT, "No change yet", "Change a number to see what it does.")}
    try:
        preview = scale_preview(cluster=row, counts=counts)
    except Invalid as error:
        return {"notice": Notice(Tone.WARN, "This cannot be had", error.message)}
    facts = []
    if here.can(Permission.BILLING_VIEW):
        now, then = cluster_quote(cluster=row), cluster_quote(cluster=row, counts=counts)
        facts = [
            Fact("Per hour now", formats.money(now.per_hour, now.currency)),
            Fact("Per hour then", formats.money(then.per_hour, then.currency)),
            Fact("Difference", formats.signed(then.per_hour - now.per_hour, now.currency)),
        ]
    if preview.hold:
        notice = Notice(Tone.BAD, "More is blocked here", preview.hold)
    elif preview.fits:
        said = "What shrinks is given back once the site has confirmed it."
        notice = Notice(Tone.OK, "You can have this now", said)
    else:
        check = preview.refusals[0]
        notice = Notice(Tone.BAD, refusal_title(check), refusal_text(check))
    return {"notice": notice, "meters": meters_of(preview.checks), "facts": facts}


@require_POST
@project_page(CREATE)
def upgrade(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, CREATE)
    pools = [pool.name for pool in row.pools.all()]
    form = UpgradeForm(
        request.POST, releases=list(releases_offered(cluster=row)), pools=pools, auto_id="upgrade_%s"
    )
    if form.is_valid():
        release, first = form.cleaned_data["release"], form.cleaned_data["first_pool"] or None
        try:
            services.cluster_upgrade(actor=here.actor, cluster=row, release=release, first_pool=first)
        except Invalid as error:
            refuse(form, error, default="release")
        else:
            return done(request, row, f"Upgrading {row.name} to {release}, one machine at a time.")
    return draw(request, here, row, status=422, upgrade_form=form, opened="upgrade")


@require_POST
@project_page(CREATE)
def extend(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, CREATE)
    form = ExtendForm(request.POST)
    if form.is_valid():
        until = form.cleaned_data["until"]
        try:
            services.cluster_extend(actor=here.actor, cluster=row, lease_ends_at=until)
        except Invalid as error:
            refuse(form, error, fields={"lease_ends_at": "until"})
        else:
            return done(request, row, f"Lease extended to {formats.when(until, here.zone)}.")
    return draw(request, here, row, status=422, extend_form=form, opened="extend")


@require_POST
@project_page(CREATE)
def delete(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, CREATE)
    if request.POST.get("confirm_name") != row.name:
        raise Conflict(f"Nothing was deleted: type {row.name} exactly to delete it.")
    services.cluster_delete(actor=here.actor, cluster=row)
    return done(request, row, f"Deleting {row.name}. Its ledger shows what is left, until nothing is.")


@require_POST
@project_page(CREATE)
def retry(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, CREATE)
    services.cluster_retry(actor=here.actor, cluster=row)
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Refresh": "true"})
    return done(request, row, "Trying again, from the step that failed.")


@require_POST
@project_page(CREATE)
def suspend(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, CREATE)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return draw(request, here, row, status=422, reason_form=form, opened="suspend")
    services.cluster_suspend(actor=here.actor, cluster=row, reason=form.cleaned_data["reason"])
    return done(request, row, f"Suspending {row.name}. Its workers go, its control plane stays.")


@require_POST
@project_page(CREATE)
def resume(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    """Refused with the limit or the capacity that has no room; it then stays asleep."""
    row = cluster_at(here, cluster, CREATE)
    services.cluster_resume(actor=here.actor, cluster=row)
    return done(request, row, f"Resuming {row.name}. Its GPUs are yours again.")


def _how_to_use(row: Cluster, access: Access) -> dict[str, str]:
    """Under which name it is saved, and what is done with it then."""
    if access.kind is AccessKind.SSH:
        return {"file": f"{row.name}.sh", "command": f"sh {row.name}.sh"}
    return {"file": f"{row.name}.yaml", "command": f"kubectl --kubeconfig {row.name}.yaml get nodes"}


@require_http_methods(["GET", "POST"])
@project_page(Permission.WORKSPACE_VIEW)
def revoke(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID, user: uuid.UUID) -> HttpResponse:
    """GET asks whether it is meant."""
    row = cluster_at(here, cluster, Permission.WORKSPACE_VIEW)
    holder = grantee_get(cluster=row, user_id=user)
    if request.method == "GET":
        page = "_revoke" if request.headers.get("HX-Request") else "revoke"
        url = revoke_url_of(row, holder, here)
        if not url:
            raise Forbidden("somebody else's credentials are ended by who manages the project")
        context = {"place": here, "cluster": row, "holder": holder, "url": url, "cluster_url": url_of(row)}
        return render(request, f"clusters/{page}.html", context | {"crumbs": trail(here, row, Crumb("End"))})
    try:
        count = services.credentials_revoke(actor=here.actor, cluster=row, user=holder)
    except Conflict as error:
        messages.error(request, sentence_of(error.message))
        return redirect(url_of(row))
    said = f"{count} credential{'' if count == 1 else 's'} of {holder.username} will be ended."
    return done(request, row, said if count else f"{holder.username} has no credential any more.")


@require_POST
@never_cache
@sensitive_variables("access", "context", "encoded")
@project_page(Permission.WORKSPACE_ACCESS)
def credential(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    """Asked of the site in the request (docs/decisions/0004). Shown once: no cache keeps it, no row holds it."""
    row = cluster_at(here, cluster, Permission.WORKSPACE_ACCESS)
    access = services.cluster_credential(actor=here.actor, cluster=row, lifetime=lifetime_of(request))
    encoded = base64.b64encode(access.document.encode()).decode()
    until = formats.when(access.expires_at, here.zone)
    context: dict[str, Any] = {
        "place": here,
        "name": row.name,
        "document": access.document,
        "said": f"Valid until {until}. The portal keeps no copy; take another any time.",
        "download": f"data:application/octet-stream;base64,{encoded}",
        **_how_to_use(row, access),
    }
    page = "_credential" if request.headers.get("HX-Request") else "credential"
    response = render(request, f"workspaces/{page}.html", context)
    response["Cache-Control"] = "no-store"
    return response
