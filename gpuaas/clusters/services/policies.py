"""Policies of a cluster's pools: added, changed, enabled and removed by those who may scale it."""

from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction

from gpuaas.clusters.definition import COUNT_MAX
from gpuaas.clusters.models import Cluster, ClusterPool, ScalingPolicy
from gpuaas.clusters.policies.registry import kind_get, settings_check
from gpuaas.clusters.selectors import cluster_require, definition_of
from gpuaas.clusters.services.rows import CLUSTER, cluster_announce, signals_driver_of
from gpuaas.clusters.spec import burst_site, pools_of
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.queue import poke
from gpuaas.core.rows import first_of, one_or_none, version_require
from gpuaas.lifecycle.allowed import Verb
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission

DELAY_MAX = 86_400
HOURS_MAX = 10_000_000
MONEY_MAX = Decimal(10**11)


@dataclass(frozen=True)
class PolicyTerms:
    """All terms of a policy; delays in seconds. None: no cap. after: for a pool at a burst site, the pool at the
    cluster's own site that is filled first."""

    kind: str
    minimum: int
    maximum: int
    settings: Any = field(default_factory=dict)
    step: int = 1
    up_delay: int = 60
    down_delay: int = 600
    cool_down: int = 300
    gpu_hours_month: int | None = None
    money_month: Decimal | None = None
    after: str = ""
    enabled: bool = False


def policy_create(*, actor: Actor, cluster: Cluster, pool: str, terms: PolicyTerms) -> ScalingPolicy:
    """For a pool that has none. Raises Invalid on its fields, Conflict if the pool has one."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_CREATE)
    CLUSTER.require(cluster, Verb.MANAGE)
    found = one_or_none(ClusterPool.objects.filter(cluster=cluster, name=pool))
    if found is None:
        raise Invalid.field("pool", f"the cluster has no pool {pool[:40]!r}")
    row = ScalingPolicy(pool=found, created_by=actor.name, created_at=clock.now(), due_at=clock.now())
    _set(row, cluster, terms)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            _told(actor, cluster, row, "cluster_policy.create", after=shown(row))
    except IntegrityError as error:
        raise Conflict(f"the pool {pool} already has a policy", detail={"field": "pool"}) from error
    return row


@transaction.atomic
def policy_update(
    *, actor: Actor, policy: ScalingPolicy, terms: PolicyTerms, expected_version: int | None = None
) -> ScalingPolicy:
    """Replaces all terms and clears the policy's memory: its delays start again."""
    row, cluster = _locked(actor, policy, expected_version)
    before = shown(row)
    _set(row, cluster, terms)
    return _changed(actor, cluster, row, before)


@transaction.atomic
def policy_switch(
    *, actor: Actor, policy: ScalingPolicy, enabled: bool, expected_version: int | None = None
) -> ScalingPolicy:
    """An enabled policy scales, a disabled one only records. Repeating it changes nothing."""
    row, cluster = _locked(actor, policy, expected_version)
    if row.enabled == enabled:
        return row
    before = shown(row)
    row.enabled = enabled
    return _changed(actor, cluster, row, before)


@transaction.atomic
def policy_delete(*, actor: Actor, policy: ScalingPolicy, expected_version: int | None = None) -> None:
    """The pool keeps its workers and, for a new policy, the recorded samples; the log stays."""
    row, cluster = _locked(actor, policy, expected_version)
    _told(actor, cluster, row, "cluster_policy.delete", before=shown(row))
    row.delete()


def terms_check(*, cluster: Cluster, pool: str, terms: PolicyTerms) -> dict[str, Any]:
    """The settings with their defaults. Raises Invalid on each wrong field."""
    bounds = definition_of(cluster.template_version).pool(pool)
    wrong: dict[str, list[str]] = {}
    _whole(wrong, "minimum", terms.minimum, bounds.minimum, bounds.maximum)
    _whole(wrong, "maximum", terms.maximum, bounds.minimum, bounds.maximum)
    _whole(wrong, "step", terms.step, 1, COUNT_MAX)
    for name in ("up_delay", "down_delay", "cool_down"):
        _whole(wrong, name, getattr(terms, name), 0, DELAY_MAX)
    if terms.gpu_hours_month is not None:
        _whole(wrong, "gpu_hours_month", terms.gpu_hours_month, 1, HOURS_MAX)
    if terms.money_month is not None and not _is_money(terms.money_month):
        wrong["money_month"] = ["an amount above 0 with at most two decimal places"]
    if not wrong and terms.minimum > terms.maximum:
        wrong["maximum"] = ["the maximum must not be below the minimum"]
    if terms.after and (reason := _wrong_order(cluster, pool, terms.after)):
        wrong["after"] = [reason]
    settings: dict[str, Any] = {}
    try:
        kind = kind_get(terms.kind)
        if kind.needs_signals and signals_driver_of(cluster) is None:
            words = "clusters of this template do not report demand; choose a policy by hours of the week"
            raise Invalid.field("kind", words)
        settings = settings_check(kind, terms.settings)
    except Invalid as error:
        wrong |= error.fields
    if wrong:
        raise Invalid(next(iter(wrong.values()))[0], fields=wrong)
    return settings


def _wrong_order(cluster: Cluster, pool: str, after: str) -> str:
    """Why the pool cannot follow that one; prevents two from waiting for each other."""
    rows = {row.name: row for row in pools_of(cluster)}
    if burst_site(cluster, rows[pool].flavor) is None:
        return "only a pool at another site can follow a pool at the cluster's own site"
    if after not in rows or burst_site(cluster, rows[after].flavor) is not None:
        return "name a pool at the cluster's own site"
    return ""


def shown(row: ScalingPolicy) -> dict[str, Any]:
    """For the audit log."""
    names = [name for name in asdict(PolicyTerms("", 0, 0)) if name != "money_month"]
    money = None if row.money_month is None else str(row.money_month)
    return {name: getattr(row, name) for name in names} | {"pool": row.pool.name, "money_month": money}


def _set(row: ScalingPolicy, cluster: Cluster, terms: PolicyTerms) -> None:
    settings = terms_check(cluster=cluster, pool=row.pool.name, terms=terms)
    for name in asdict(terms):
        setattr(row, name, getattr(terms, name))
    row.settings = settings


def _changed(actor: Actor, cluster: Cluster, row: ScalingPolicy, before: dict[str, Any]) -> ScalingPolicy:
    row.version += 1
    row.memory, row.due_at = {}, clock.now()
    row.save()
    _told(actor, cluster, row, "cluster_policy.update", before=before, after=shown(row))
    return row


def _told(actor: Actor, cluster: Cluster, row: ScalingPolicy, action: str, **what: Any) -> None:
    audit_record(actor=actor, action=action, target=cluster, project=cluster.project, **what)
    cluster_announce(cluster)
    poke("billing.scaling_policy", str(row.pk))


def _locked(
    actor: Actor, policy: ScalingPolicy, expected_version: int | None
) -> tuple[ScalingPolicy, Cluster]:
    rows = ScalingPolicy.objects.select_for_update(of=("self",), no_key=True).select_related(
        "pool__cluster__project__organization",
        "pool__cluster__site",
        "pool__cluster__template_version__template",
    )
    row = first_of(rows.filter(pk=policy.pk), "policy")
    cluster = row.pool.cluster
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_CREATE)
    version_require(row.version, expected_version, "policy")
    return row, cluster


def _whole(wrong: dict[str, list[str]], name: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        wrong[name] = [f"a whole number from {least} to {most}"]


def _is_money(value: Any) -> bool:
    if type(value) is not Decimal or not value.is_finite() or not 0 < value <= MONEY_MAX:
        return False
    return value == round(value, 2)
