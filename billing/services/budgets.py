"""Setting budgets. Each write is evaluated at once: after raising an amount, people can work again immediately."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction

from billing.models import Budget, BudgetAction, BudgetThreshold, Level, Measure, Period
from billing.money import HOUR, decimal_read, minor_places
from billing.months import billing_zone
from billing.readings import reading_of
from billing.selectors.accounts import currencies_of
from billing.selectors.budgets import amount_shown, budget_require, units_of
from billing.services.budget_alerts import alerts_apply, alerts_lift
from gpuaas.clusters.models import Cluster
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, Mistakes
from gpuaas.core.queue import poke
from gpuaas.core.rows import version_require
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization, Project
from tenants.roles import Permission

AMOUNT_MAX = 10**15
THRESHOLDS_MOST = 10
DAYS_MOST = 3 * 366


@dataclass(frozen=True)
class BudgetTerms:
    """`amount` in the organization's currency or in GPU-hours; `thresholds` = (percent, action), ascending."""

    name: str
    measure: str
    amount: Decimal | str | int
    period: str
    thresholds: Sequence[tuple[int, str]]
    starts_on: date | None = None
    ends_on: date | None = None


@transaction.atomic
def budget_create(
    *,
    actor: Actor,
    terms: BudgetTerms,
    organization: Organization | None = None,
    project: Project | None = None,
    workspace: Workspace | None = None,
    cluster: Cluster | None = None,
) -> Budget:
    """For the organization, the project, or one workspace or cluster of it. Takes effect at once if the amount is already spent.

    Raises Invalid at the field; Conflict if the organization has a budget of that name.
    """
    owner = project.organization if project is not None else organization
    holders = [row for row in (workspace, cluster) if row is not None]
    strange = [row for row in holders if project is None or row.project_id != project.pk]
    if owner is None or strange or len(holders) > 1:
        raise ValueError(
            "a budget belongs to an organization, to a project, or to one workspace or cluster of the project"
        )
    level = _level(actor, owner, project)
    row = Budget(
        organization=owner,
        project=project,
        workspace=workspace,
        cluster=cluster,
        level=level,
        created_by=actor.name,
    )
    _terms_set(row, terms, fresh=True)
    return _written(row, terms, actor, "budget.create", before=None)


@transaction.atomic
def budget_update(
    *, actor: Actor, budget: Budget, terms: BudgetTerms, expected_version: int | None = None
) -> Budget:
    """Replaces all terms except the measure. Thresholds that are no longer reached are lifted now."""
    row = _locked(actor, budget, expected_version)
    before = _shown(row)
    if terms.measure != row.measure:
        raise Invalid.field(
            "measure", "the measure and the scope of a budget cannot change; create another budget instead"
        )
    _terms_set(row, terms, fresh=False)
    row.version += 1
    return _written(row, terms, actor, "budget.update", before=before)


@transaction.atomic
def budget_end(*, actor: Actor, budget: Budget, expected_version: int | None = None) -> Budget:
    """It no longer counts or blocks; its history stays. What it has suspended must be resumed by people."""
    row = _locked(actor, budget, expected_version)
    row.ended_at, row.version = clock.now(), row.version + 1
    row.save(update_fields=["ended_at", "version"])
    alerts_lift(budget=row, now=row.ended_at)
    _audit(actor, row, "budget.end", before=_shown(row), after=None)
    return row


def _written(
    row: Budget, terms: BudgetTerms, actor: Actor, action: str, before: dict[str, Any] | None
) -> Budget:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        if "budget_name_once" not in str(error):
            raise
        raise Conflict(_taken(row) or "the name is in use", detail={"field": "name"}) from error
    row.thresholds.all().delete()
    BudgetThreshold.objects.bulk_create(
        BudgetThreshold(budget=row, percent=percent, action=action_of)
        for percent, action_of in terms.thresholds
    )
    _audit(actor, row, action, before=before, after=_shown(row))
    alerts_apply(budget=row, reading=reading_of(row, now=clock.now()), now=clock.now())
    poke("billing.budgets_enforce", str(row.pk))
    return row


def _locked(actor: Actor, budget: Budget, expected_version: int | None) -> Budget:
    budget_require(actor=actor, budget=budget, permission=Permission.BILLING_MANAGE)
    row = (
        Budget.objects.select_for_update(of=("self",), no_key=True)
        .select_related("organization", "project__organization", "workspace", "cluster")
        .get(pk=budget.pk)
    )
    if row.ended_at is not None:
        raise Conflict("this budget was removed", detail={"ended_at": row.ended_at.isoformat()})
    version_require(row.version, expected_version, "budget")
    levels = list(Level.values)
    if levels.index(_level(actor, row.organization, row.project)) < levels.index(row.level):
        who = "the organization" if row.level == Level.ORGANIZATION else "an operator of the platform"
        raise Forbidden(f"this budget was set by {who}; ask there for a change")
    return row


def budget_changeable(*, actor: Actor, budget: Budget) -> bool:
    """Whether the actor may change or remove it; a budget set at a higher level is changed there."""
    try:
        level = _level(actor, budget.organization, budget.project)
    except Forbidden:
        return False
    levels = list(Level.values)
    return levels.index(level) >= levels.index(budget.level)


def _level(actor: Actor, organization: Organization, project: Project | None) -> Level:
    """The highest level at which the actor may set budgets here. Raises Forbidden; the caller has already refused
    outsiders."""
    if Permission.PLATFORM_MANAGE in actor.on_platform():
        return Level.PLATFORM
    if Permission.BILLING_MANAGE in actor.on_organization(organization.pk):
        return Level.ORGANIZATION
    if project is not None and Permission.BILLING_MANAGE in actor.on_project(project.pk, organization.pk):
        return Level.PROJECT
    raise Forbidden("your role does not allow setting budgets here; it needs the permission billing:manage")


def budget_terms_wrong(
    *, organization: Organization, project: Project | None, terms: BudgetTerms, budget: Budget | None = None
) -> dict[str, list[str]]:
    """All that would be refused of them, by field: of a new budget, or of `budget` with them."""
    row = copy(budget) if budget is not None else Budget(organization=organization, project=project)
    wrong = _terms_read(row, terms, fresh=budget is None).fields
    if "name" not in wrong and (taken := _taken(row)):
        wrong["name"] = [taken]
    return wrong


def _taken(row: Budget) -> str:
    """Names are unique in an organization. Who asks for a project learns whether the other one is the project's own."""
    named = Budget.objects.filter(organization=row.organization, name=row.name, ended_at__isnull=True)
    other = named.exclude(pk=row.pk).first()
    if other is None:
        return ""
    own = row.project is not None and other.project_id == row.project_id
    whose = f"project {row.project.slug}" if row.project and own else f"organization {row.organization.slug}"
    return f"the {whose} already has a budget called {row.name}"


def _terms_set(row: Budget, terms: BudgetTerms, *, fresh: bool) -> None:
    """Raises Invalid with all that is wrong at once."""
    row.checked_at = None
    _terms_read(row, terms, fresh=fresh).refuse()


def _terms_read(row: Budget, terms: BudgetTerms, *, fresh: bool) -> Mistakes:
    """Sets what can be read of them; returns the rest."""
    wrong = Mistakes()
    with wrong:
        row.name = _name(terms.name)
    with wrong:
        row.measure = _choice("measure", terms.measure, Measure.values)
        row.amount = _amount(row, terms.amount)
    with wrong:
        row.period = _choice("period", terms.period, Period.values)
        row.starts_on, row.ends_on = _days(row, terms, fresh=fresh)
    with wrong:
        _thresholds_require(terms.thresholds)
    return wrong


def _name(text: str) -> str:
    name = " ".join(text.split())
    if not 1 <= len(name) <= 60:
        raise Invalid.field("name", "give it a name of 1 to 60 characters")
    return name


def _choice(field: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise Invalid.field(field, f"choose one of {', '.join(known)}")
    return value


def _amount(row: Budget, value: Decimal | str | int) -> int:
    """Minor units or GPU-seconds. Money has the places of its currency, GPU-hours two."""
    otherwise = "an amount must be a decimal number such as 1500.00"
    amount = decimal_read(value, field="amount", otherwise=otherwise)
    if not amount.is_finite() or amount <= 0:
        raise Invalid.field("amount", "the amount must be above 0")
    if row.measure == Measure.MONEY:
        currency = currencies_of(organizations={row.organization.pk})[row.organization.pk]
        places, unit, factor = minor_places(currency), currency, 10 ** minor_places(currency)
    else:
        places, unit, factor = 2, "GPU-hours", HOUR
    if amount > AMOUNT_MAX // factor:
        raise Invalid.field("amount", f"the amount may be at most {AMOUNT_MAX // factor:,} {unit}")
    if amount != round(amount, places):
        raise Invalid.field("amount", f"an amount in {unit} may have at most {places} decimal places")
    return int(amount * factor)


def _days(row: Budget, terms: BudgetTerms, *, fresh: bool) -> tuple[date | None, date | None]:
    """Validates a fixed period. One in the past is refused, except for a budget that already has it."""
    if row.period != Period.FIXED:
        for name, day in (("starts_on", terms.starts_on), ("ends_on", terms.ends_on)):
            if day is not None:
                raise Invalid.field(name, "only a fixed period has a first and a last day; leave this empty")
        return None, None
    starts_on, ends_on = terms.starts_on, terms.ends_on
    if starts_on is None:
        raise Invalid.field("starts_on", "a fixed period needs a first day")
    if ends_on is None:
        raise Invalid.field("ends_on", "a fixed period needs a last day")
    if ends_on < starts_on:
        raise Invalid.field("ends_on", "the last day must not be before the first")
    if (ends_on - starts_on).days >= DAYS_MOST:
        raise Invalid.field("ends_on", "a period may be at most three years long")
    today = clock.now().astimezone(billing_zone()).date()
    if ends_on < today and (fresh or ends_on != row.ends_on):
        raise Invalid.field(
            "ends_on", f"this period is in the past; choose today, {today}, or a later day as its last day"
        )
    return starts_on, ends_on


def _thresholds_require(thresholds: Sequence[tuple[int, str]]) -> None:
    if not 1 <= len(thresholds) <= THRESHOLDS_MOST:
        raise Invalid.field("thresholds", f"give 1 to {THRESHOLDS_MOST} thresholds")
    before = 0
    for percent, action in thresholds:
        if action not in BudgetAction.values:
            raise Invalid.field("thresholds", f"an effect must be one of {', '.join(BudgetAction.values)}")
        if type(percent) is not int or not 1 <= percent <= 1000:
            raise Invalid.field("thresholds", "a threshold must be between 1 and 1,000 percent")
        if percent <= before:
            raise Invalid.field(
                "thresholds", f"thresholds must ascend: {percent}% cannot come after {before}%"
            )
        before = percent


def _shown(row: Budget) -> dict[str, Any]:
    unit = units_of([row])[row.pk]
    thresholds = [[one.percent, one.action] for one in row.thresholds.all()]
    return {
        "name": row.name,
        "amount": f"{amount_shown(row, row.amount, unit)} {unit}",
        "period": row.period,
        "starts_on": row.starts_on.isoformat() if row.starts_on else None,
        "ends_on": row.ends_on.isoformat() if row.ends_on else None,
        "thresholds": thresholds,
    }


def _audit(
    actor: Actor, row: Budget, action: str, *, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> None:
    audit_record(
        actor=actor,
        action=action,
        target=row,
        project=row.project,
        organization=row.organization,
        before=before,
        after=after,
    )
