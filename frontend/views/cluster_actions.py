"""What people do to a cluster and to no workspace: scaling has a page with its effect; the rest are POSTs."""

import base64
import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from billing.clusters import cluster_wanted_quote
from billing.held import held_quote
from frontend import formats
from frontend.components import Fact, Notice
from frontend.forms import first_wrong, refuse
from frontend.forms.clusters import ScaleForm, UpgradeForm
from frontend.frame import checked, done, draw_page, draw_piece, posted, refusals_on, refusals_shown
from frontend.nav import Crumb
from frontend.place import ProjectPlace
from frontend.presenters.cluster_access import revoke_url_of
from frontend.presenters.cluster_answer import meters_of
from frontend.presenters.effect import blocked_by, changed_meanwhile, tell_beside, verdict
from frontend.presenters.held import url_of, why_not
from frontend.views.clusters import cluster_action, cluster_page, draw, trail
from frontend.views.workspace_access import lifetime_of
from gpuaas.clusters import services
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import definition_of, grantee_get, releases_offered
from gpuaas.clusters.services import scale_preview, scale_warnings
from gpuaas.core.errors import Conflict, Forbidden, Invalid, StaleVersion
from gpuaas.core.looks import Tone
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import Access, AccessKind
from tenants.roles import Permission

CREATE = Permission.WORKSPACE_CREATE


def scale_form(row: Cluster, data: Any) -> ScaleForm:
    return ScaleForm(data, cluster=row, definition=definition_of(row.template_version))


@cluster_page(CREATE)
def scale(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponse:
    form = scale_form(row, posted(request))
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, StaleVersion, fields=form.fields_of()):
            services.cluster_scale(
                actor=here.actor,
                cluster=row,
                counts=form.wanted(),
                expected_version=form.cleaned_data["version"],
            )
            return redirect(url_of(row))
    context = {
        "cluster": row,
        "form": form,
        "effect_url": reverse("frontend:cluster_scale_effect", args=[here.project.slug, row.pk]),
        "page_url": url_of(row),
        "crumbs": trail(here, row, Crumb("Scale")),
        **_effect(here, row, form),
    }
    return draw_page(request, "clusters/scale.html", context)


@cluster_action(CREATE)
def scale_effect(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponse:
    form = scale_form(row, request.POST)
    found = _effect(here, row, form)
    return render(request, "clusters/_effect.html", {"typed": True, "form": form, **found})


def _effect(here: ProjectPlace, row: Cluster, form: ScaleForm) -> dict[str, Any]:
    """What the new counts ask of limits and capacity on top of what is held, what they end and what they cost per hour."""
    if changed := changed_meanwhile(
        row, form, reverse("frontend:cluster_scale", args=[here.project.slug, row.pk])
    ):
        return {"notice": changed, "blocked": changed.text}
    if why := why_not(row, Verb.RESIZE):
        return {"notice": Notice(Tone.WARN, "It cannot be scaled now", why), "blocked": why}
    beside, counts = "What is wrong stands beside its field.", form.wanted()
    if form.is_bound and len(counts) < len(form.pools):
        notice = Notice(Tone.WARN, "Check your input", beside)
        return {"notice": notice, "blocked": first_wrong(form)}
    if all(counts.get(pool.name, pool.count) == pool.count for pool in form.pools):
        notice = Notice(Tone.WAIT, "No change yet", "Change a number to see its effect.")
        return {"notice": notice, "blocked": "Nothing has changed yet."}
    try:
        preview = scale_preview(cluster=row, counts=counts)
    except Invalid as error:
        if not form.errors:
            refuse(form, error)
        notice = Notice(Tone.WARN, "Not possible", beside)
        return {"notice": notice, "blocked": "It is outside the bounds of its pools."}
    facts = []
    if here.can(Permission.BILLING_VIEW):
        now, then = held_quote(holder=row), cluster_wanted_quote(cluster=row, counts=counts)
        facts = [
            Fact("Per hour now", formats.price(now.per_hour, now.currency)),
            Fact("Per hour then", formats.price(then.per_hour, then.currency)),
            Fact("Difference", formats.signed_price(then.per_hour - now.per_hour, now.currency)),
        ]
    tell_beside(form, preview, form.fields_of())
    notice = verdict(preview, "Decreases are released when the site confirms them.")
    blocked = blocked_by(preview)
    return {
        "notice": notice,
        "ending": scale_warnings(cluster=row, counts=counts),
        "meters": meters_of(preview.checks),
        "facts": facts,
        "blocked": blocked,
    }


@cluster_action(CREATE)
@checked
def upgrade(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponse:
    pools = [pool.name for pool in row.pools.all()]
    form = UpgradeForm(
        request.POST, releases=list(releases_offered(cluster=row)), pools=pools, auto_id="upgrade_%s"
    )
    if form.is_valid():
        release, first = form.cleaned_data["release"], form.cleaned_data["first_pool"] or None
        with refusals_on(form, Invalid, default="release"):
            services.cluster_upgrade(actor=here.actor, cluster=row, release=release, first_pool=first)
            return done(request, f"Upgrading {row.name} to {release}, one machine at a time.", url_of(row))
    return draw(request, here, row, upgrade_form=form, opened="upgrade")


def _how_to_use(row: Cluster, access: Access) -> dict[str, str]:
    """Under which name it is saved, and what is done with it then."""
    if access.kind is AccessKind.SSH:
        return {"file": f"{row.name}.sh", "command": f"sh {row.name}.sh"}
    return {"file": f"{row.name}.yaml", "command": f"kubectl --kubeconfig {row.name}.yaml get nodes"}


@require_http_methods(["GET", "POST"])
@cluster_page(Permission.WORKSPACE_VIEW)
def revoke(request: HttpRequest, here: ProjectPlace, row: Cluster, user: uuid.UUID) -> HttpResponse:
    """GET asks whether it is meant."""
    holder = grantee_get(cluster=row, user_id=user)
    if request.method == "GET":
        url = revoke_url_of(row, holder, here)
        if not url:
            raise Forbidden("only project admins can revoke other people's credentials")
        context = {"cluster": row, "holder": holder, "url": url, "cluster_url": url_of(row)}
        return draw_piece(
            request, "clusters/revoke.html", context | {"crumbs": trail(here, row, Crumb("Revoke"))}
        )
    with refusals_shown(request, Conflict):
        count = services.credentials_revoke(actor=here.actor, cluster=row, user=holder)
        message = f"{count} credential{'' if count == 1 else 's'} of {holder.username} will be revoked."
        messages.success(request, message if count else f"{holder.username} has no valid credentials.")
    return redirect(url_of(row))


@never_cache
@sensitive_variables("access", "context", "encoded")
@cluster_action(Permission.WORKSPACE_ACCESS)
def credential(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponse:
    """Asked of the site in the request (docs/decisions/0004). Shown once: no cache keeps it, no row holds it."""
    access = services.cluster_credential(actor=here.actor, cluster=row, lifetime=lifetime_of(request))
    encoded = base64.b64encode(access.document.encode()).decode()
    until = formats.when(access.expires_at, here.zone)
    context: dict[str, Any] = {
        "name": row.name,
        "document": access.document,
        "said": f"Valid until {until}. The portal keeps no copy; you can get a new one at any time.",
        "download": f"data:application/octet-stream;base64,{encoded}",
        **_how_to_use(row, access),
    }
    return draw_piece(request, "workspaces/credential.html", context)
