"""Scaling by policy: what each pool follows, what was decided, and a form that can be tried before it is saved."""

import uuid
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from billing.policies import policy_dry_run
from billing.selectors.costs import currency_of
from frontend.components import Notice
from frontend.forms.cluster_policies import PolicyForm, initial_of
from frontend.frame import checked, done, draw_page, posted, refusals_on
from frontend.lists import Column, Filter, Listing, Query, list_page
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page
from frontend.presenters.cluster_policies import Trial, decision_of, rows_of, trial_of, url_of
from frontend.presenters.effect import Effect, scaled_by
from frontend.views.clusters import cluster_action, cluster_at, cluster_page, trail
from gpuaas.clusters import services
from gpuaas.clusters.models import Cluster, ScalingDecision, ScalingOutcome, ScalingPolicy
from gpuaas.clusters.policies.registry import Kind, kinds
from gpuaas.clusters.selectors import decisions_of, definition_of, policies_of, policy_get_of
from gpuaas.clusters.spec import burst_site
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.core.looks import Tone
from tenants.roles import Permission

VIEW, CREATE = Permission.WORKSPACE_VIEW, Permission.WORKSPACE_CREATE


def crumbs(here: ProjectPlace, row: Cluster, *rest: str) -> tuple[Crumb, ...]:
    above = Crumb("Policies", url_of(row) if rest else "")
    return trail(here, row, above, *(Crumb(word) for word in rest))


LIST = Listing(
    "decisions",
    columns=(
        Column("at", "When", "at"),
        Column("outcome", "Outcome", "outcome", "word"),
        Column("pool", "Pool", "pool"),
        Column("kind"),
        Column("workers", "Workers", value="change"),
        Column("seen"),
        Column("reason", "Reason"),
        Column("refused"),
        Column("cost", "Cost", value="price", numeric=True),
    ),
    filters=(
        Filter("pool", "Worker pool", "every worker pool"),
        Filter("outcome", "Outcome", "every outcome", ScalingOutcome.choices),
    ),
    size=25,
)


@cluster_page(VIEW)
def index(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponseBase:
    def found(query: Query) -> QuerySet[ScalingDecision]:
        outcome = query.one_of("outcome", ScalingOutcome.values)
        return decisions_of(cluster=row, pool=query["pool"], outcome=outcome)

    prices = here.can(Permission.BILLING_VIEW)
    rows = rows_of(row, policies_of(cluster=row), currency=currency_of(here.project.organization_id))
    shown = LIST.of(
        request,
        found,
        lambda some: [decision_of(one, prices=prices) for one in some],
        pool=[each.pool for each in rows],
    )
    context = {
        "cluster": row,
        "live": f"cluster:{row.pk}",
        "rows": rows,
        "new_url": url_of(row, "policy_new")
        if _may_add(here, row) and any(not one.url for one in rows)
        else "",
        "crumbs": crumbs(here, row),
    }
    return list_page(request, "clusters/policies.html", shown, context)


@cluster_page(CREATE)
@checked
def new(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponse:
    kind = _kind(request, "")
    pools = _pools(row, request.GET.get("pool", ""))
    first = _first(here, row, pools, kind)
    form = PolicyForm(posted(request), kind=kind, pools=pools, first=_awaited(row), initial=first)
    trial = None
    if form.is_valid():
        trial = _tried(request, here, row, form)
        if trial is None and form.is_valid():
            pool = form.cleaned_data["pool"]
            with refusals_on(form, Invalid, Conflict):
                services.policy_create(actor=here.actor, cluster=row, pool=pool, terms=form.terms())
                return done(request, f"Policy added to pool {pool}.", url_of(row))
    return _form(request, here, row, form, trial, policy=None)


@project_page(VIEW)
@checked
def show(request: HttpRequest, here: ProjectPlace, cluster: uuid.UUID, policy: uuid.UUID) -> HttpResponse:
    """The form for who may change it; everybody else of the project reads it there."""
    row = cluster_at(here, cluster, CREATE if request.method == "POST" else VIEW)
    held = policy_get_of(cluster=row, policy_id=policy)
    kind = _kind(request, held.kind)
    choices: dict[str, Any] = {"pools": [(held.pool.name, held.pool.name)], "first": _awaited(row)}
    form = PolicyForm(posted(request), kind=kind, stays=True, initial=initial_of(held, kind), **choices)
    trial = None
    if form.is_valid():
        trial = _tried(request, here, row, form)
        if trial is None and form.is_valid():
            version = form.cleaned_data["version"]
            with refusals_on(form, Invalid, Conflict, StaleVersion):
                services.policy_update(
                    actor=here.actor, policy=held, terms=form.terms(), expected_version=version
                )
                return done(request, f"Policy of {held.pool.name} saved.", url_of(row))
    return _form(request, here, row, form, trial, policy=held)


@cluster_action(CREATE)
def effect(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponse:
    """What the bounds that are being typed let the pool come to."""
    pools = {pool.name: pool for pool in row.pools.all()}
    form = PolicyForm(request.POST, kind=_kind(request, ""), pools=[(name, name) for name in pools])
    form.is_valid()
    pool, minimum, maximum = (form.cleaned_data.get(name) for name in ("pool", "minimum", "maximum"))
    if minimum is None or maximum is None or pool is None or minimum > maximum:
        found = Effect(
            Notice(Tone.WARN, "Check your input", "The effect follows from the pool and its bounds.")
        )
    else:
        found = scaled_by(pools[pool], minimum, maximum, here)
    return render(request, "components/effect.html", {"effect": found})


@cluster_action(CREATE)
def switch(request: HttpRequest, here: ProjectPlace, row: Cluster, policy: uuid.UUID) -> HttpResponse:
    held = policy_get_of(cluster=row, policy_id=policy)
    enabled = request.POST.get("enabled") == "yes"
    services.policy_switch(actor=here.actor, policy=held, enabled=enabled)
    does = "scales" if enabled else "only watches"
    return done(request, f"The policy of {held.pool.name} {does} from now on.", url_of(row))


@cluster_action(CREATE)
def delete(request: HttpRequest, here: ProjectPlace, row: Cluster, policy: uuid.UUID) -> HttpResponse:
    held = policy_get_of(cluster=row, policy_id=policy)
    services.policy_delete(actor=here.actor, policy=held)
    return done(request, f"Policy removed. Pool {held.pool.name} is now scaled manually.", url_of(row))


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
        "cluster": row,
        "policy": policy,
        "form": form,
        "trial": trial,
        "kinds": list(kinds().values()),
        "currency": currency_of(here.project.organization_id),
        "may_change": here.can(CREATE),
        "effect": scaled_by(policy.pool, policy.minimum, policy.maximum, here)
        if policy and not policy.enabled and here.can(CREATE)
        else None,
        "effect_url": url_of(row, "policy_effect"),
        "back_url": url_of(row),
        "switch_url": url_of(row, "policy_switch", policy.pk) if policy else "",
        "remove_url": url_of(row, "policy_delete", policy.pk) if policy else "",
        "crumbs": crumbs(here, row, policy.pool.name if policy else "New"),
    }
    return draw_page(request, "clusters/policy.html", context)


def _tried(request: HttpRequest, here: ProjectPlace, row: Cluster, form: PolicyForm) -> Trial | None:
    """The dry run, where that button was pressed; a refusal lands in the form."""
    if request.POST.get("do") != "try":
        return None
    pool = form.cleaned_data["pool"]
    with refusals_on(form, Invalid):
        run = policy_dry_run(actor=here.actor, cluster=row, pool=pool, terms=form.terms())
        return trial_of(run, zone=here.zone)
    return None


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
        raise Conflict("every pool of this cluster already has a policy")
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
