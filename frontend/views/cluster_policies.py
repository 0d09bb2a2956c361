"""Scaling by policy: what each pool follows, what was decided, and a form that can be tried before it is saved."""

import uuid
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from billing.policies import policy_dry_run
from billing.selectors.costs import currency_of
from frontend.forms import refuse
from frontend.forms.cluster_policies import PolicyForm, initial_of
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page
from frontend.presenters.cluster_policies import Trial, decision_of, rows_of, trial_of, url_of
from frontend.views.clusters import cluster_at, trail
from gpuaas.clusters import services
from gpuaas.clusters.models import Cluster, ScalingOutcome, ScalingPolicy
from gpuaas.clusters.policies.registry import Kind, kinds
from gpuaas.clusters.selectors import decisions_of, definition_of, policies_of, policy_get_of
from gpuaas.clusters.spec import burst_site
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from tenants.roles import Permission

VIEW, CREATE = Permission.WORKSPACE_VIEW, Permission.WORKSPACE_CREATE
ROWS = 25


def crumbs(here: ProjectPlace, row: Cluster, *rest: str) -> tuple[Crumb, ...]:
    above = Crumb("Policies", url_of(row) if rest else "")
    return trail(here, row, above, *(Crumb(word) for word in rest))


@project_page(VIEW)
def index(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, VIEW)
    query = {name: request.GET.get(name, "").strip()[:40] for name in ("pool", "outcome")}
    found = decisions_of(
        cluster=row,
        pool=query["pool"],
        outcome=query["outcome"] if query["outcome"] in ScalingOutcome.values else "",
    )
    page = Paginator(found, ROWS).get_page(request.GET.get("page"))
    prices = here.can(Permission.BILLING_VIEW)
    rows = rows_of(row, policies_of(cluster=row), currency=currency_of(here.project.organization_id))
    context = {
        "place": here,
        "cluster": row,
        "rows": rows,
        "page": page,
        "decisions": [decision_of(one, prices=prices) for one in page.object_list],
        "query": query,
        "filtered": any(query.values()),
        "outcomes": ScalingOutcome.choices,
        "list_url": url_of(row),
        "new_url": url_of(row, "policy_new")
        if _may_add(here, row) and any(not one.url for one in rows)
        else "",
        "crumbs": crumbs(here, row),
    }
    return render(request, "clusters/policies.html", context)


@project_page(CREATE)
def new(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, CREATE)
    kind = _kind(request, "")
    pools = _pools(row, request.GET.get("pool", ""))
    first = _first(here, row, pools, kind)
    form = PolicyForm(request.POST or None, kind=kind, pools=pools, first=_awaited(row), initial=first)
    trial = None
    if form.is_bound and form.is_valid():
        trial = _tried(request, here, row, form)
        if trial is None and form.is_valid():
            pool = form.cleaned_data["pool"]
            try:
                services.policy_create(actor=here.actor, cluster=row, pool=pool, terms=form.terms())
            except (Invalid, Conflict) as error:
                refuse(form, error)
            else:
                messages.success(request, f"The pool {pool} has a policy.")
                return redirect(url_of(row))
    return _form(request, here, row, form, trial, policy=None)


@project_page(VIEW)
def show(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID, policy: uuid.UUID) -> HttpResponse:
    """The form for who may change it; everybody else of the project reads it there."""
    row = cluster_at(here, cluster, CREATE if request.method == "POST" else VIEW)
    held = policy_get_of(cluster=row, policy_id=policy)
    kind = _kind(request, held.kind)
    pools = [(held.pool.name, held.pool.name)]
    form = PolicyForm(
        request.POST or None, kind=kind, pools=pools, first=_awaited(row), initial=initial_of(held, kind)
    )
    trial = None
    if form.is_bound and form.is_valid():
        trial = _tried(request, here, row, form)
        if trial is None and form.is_valid():
            version = form.cleaned_data["version"]
            try:
                services.policy_update(
                    actor=here.actor, policy=held, terms=form.terms(), expected_version=version
                )
            except (Invalid, Conflict, StaleVersion) as error:
                refuse(form, error)
            else:
                messages.success(request, f"The policy of {held.pool.name} is changed.")
                return redirect(url_of(row))
    return _form(request, here, row, form, trial, policy=held)


@require_POST
@project_page(CREATE)
def switch(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID, policy: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, CREATE)
    held = policy_get_of(cluster=row, policy_id=policy)
    enabled = request.POST.get("enabled") == "yes"
    services.policy_switch(actor=here.actor, policy=held, enabled=enabled)
    does = "scales" if enabled else "only watches"
    messages.success(request, f"The policy of {held.pool.name} {does} from now on.")
    return redirect(url_of(row))


@require_POST
@project_page(CREATE)
def delete(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID, policy: uuid.UUID) -> HttpResponse:
    row = cluster_at(here, cluster, CREATE)
    held = policy_get_of(cluster=row, policy_id=policy)
    services.policy_delete(actor=here.actor, policy=held)
    messages.success(request, f"The pool {held.pool.name} is scaled by hand.")
    return redirect(url_of(row))


def _form(
    request: HttpRequest,
    here: ProjectPlace,
    row: Cluster,
    form: PolicyForm,
    trial: Trial | None,
    *,
    policy: ScalingPolicy | None,
) -> HttpResponse:
    for field in form.fields.values():
        field.disabled = not here.can(CREATE)
    context = {
        "place": here,
        "cluster": row,
        "policy": policy,
        "form": form,
        "trial": trial,
        "kinds": list(kinds().values()),
        "currency": currency_of(here.project.organization_id),
        "may_change": here.can(CREATE),
        "back_url": url_of(row),
        "switch_url": url_of(row, "policy_switch", policy.pk) if policy else "",
        "remove_url": url_of(row, "policy_delete", policy.pk) if policy else "",
        "crumbs": crumbs(here, row, policy.pool.name if policy else "New"),
    }
    refused = form.is_bound and not form.is_valid()
    return render(request, "clusters/policy.html", context, status=422 if refused else 200)


def _tried(request: HttpRequest, here: ProjectPlace, row: Cluster, form: PolicyForm) -> Trial | None:
    """The dry run, where that button was pressed; a refusal lands in the form."""
    if request.POST.get("do") != "try":
        return None
    pool = form.cleaned_data["pool"]
    try:
        run = policy_dry_run(actor=here.actor, cluster=row, pool=pool, terms=form.terms())
    except Invalid as error:
        refuse(form, error)
        return None
    return trial_of(run, zone=here.zone)


def _kind(request: HttpRequest, held: str) -> Kind:
    """The one that was chosen, else the policy's, else the first there is."""
    known = kinds()
    wanted = request.POST.get("kind") or request.GET.get("kind") or held
    return known.get(wanted) or next(iter(known.values()))


def _may_add(here: ProjectPlace, row: Cluster) -> bool:
    return here.can(CREATE) and row.state not in {"deleting", "deleted"}


def _pools(row: Cluster, asked: str) -> list[tuple[str, str]]:
    """Those without a policy, the one that was asked for first."""
    taken = set(policies_of(cluster=row).values_list("pool__name", flat=True))
    free = [pool.name for pool in row.pools.all() if pool.name not in taken]
    if not free:
        raise Conflict("every pool of this cluster has a policy already")
    return [(name, name) for name in sorted(free, key=lambda name: name != asked)]


def _awaited(row: Cluster) -> list[tuple[str, str]]:
    """The pools at the cluster's own site, where others are elsewhere."""
    pools = list(row.pools.all())
    own = [pool.name for pool in pools if burst_site(row, pool.flavor) is None]
    return [(name, name) for name in own] if len(own) < len(pools) else []


def _first(here: ProjectPlace, row: Cluster, pools: list[tuple[str, str]], kind: Kind) -> dict[str, Any]:
    bounds = definition_of(row.template_version).pool(pools[0][0])
    zone = {"settings.time_zone": here.user.time_zone} if kind.name == "schedule" else {}
    return {"minimum": bounds.minimum, "maximum": bounds.maximum, **zone}
