"""Budgets: read exactly, fired once, undone when no longer reached, refused beside the field when they make no sense."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import Budget, BudgetAction, BudgetAlert
from billing.readings import anomaly_of, budgets_read, reading_of
from billing.selectors.budgets import (
    budget_alerts_on,
    budget_get_for,
    budget_states,
    budgets_for,
)
from billing.services.budget_alerts import budgets_evaluate
from billing.services.budgets import BudgetTerms, budget_create, budget_end, budget_update
from billing.services.rates import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleVersion
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from quotas.models import Hold
from tenants.actors import Actor
from tenants.models import AuditEntry, Organization, Project, User
from tenants.selectors import actor_for
from tests.billing.stage import interval_make, utc, workspace_make
from tests.factories.tenants import OrganizationMembershipFactory, ProjectMembershipFactory

pytestmark = pytest.mark.django_db
JANUARY = utc("2026-01-01")
NOW = utc("2026-11-11 11:00:00")  # noon in Berlin, 10 days and 12 hours into the month
BEGAN = utc("2026-10-31 23:00:00")  # of November in Berlin


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)


@pytest.fixture
def workspace(project: Project, h100: Flavor, alice: User, as_olga: Actor) -> Workspace:
    """One H100 at 2.00 an hour since the first second of the month: 252 hours, 504.00 EUR."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2", valid_from=JANUARY)
    row = workspace_make(project, h100, alice)
    interval_make(row, h100, BEGAN, None)
    return row


def terms(**changes: Any) -> BudgetTerms:
    given = {
        "name": "autumn",
        "measure": "money",
        "amount": "1000",
        "period": "month",
        "thresholds": [(50, "notify"), (100, "block")],
    }
    return BudgetTerms(**{**given, **changes})


@pytest.fixture
def make(project: Project, as_alice: Actor) -> Callable[..., Budget]:
    def one(**changes: Any) -> Budget:
        scope = {"project": changes.pop("project", project)}
        if "organization" in changes:
            scope = {"organization": changes.pop("organization")}
        if "workspace" in changes:
            scope["workspace"] = changes.pop("workspace")
        return budget_create(actor=as_alice, terms=terms(**changes), **scope)

    return one


def standing(budget: Budget) -> list[tuple[int, str]]:
    rows = budget.alerts.filter(lifted_at__isnull=True).order_by("percent")
    return list(rows.values_list("percent", "action"))


def test_spent_and_forecast_are_what_the_statement_says(
    workspace: Workspace, make: Callable[..., Budget]
) -> None:
    (state,) = budget_states(budgets=[make()], now=NOW)
    assert (state.spent, state.forecast, state.unit) == (Decimal("504.00"), Decimal("1440.00"), "EUR")
    assert state.reading is not None
    assert state.reading.percent == 50
    assert state.reading.period.words == "November 2026"


def test_gpu_hours_are_counted_without_a_price(
    project: Project, h100: Flavor, alice: User, make: Callable[..., Budget]
) -> None:
    interval_make(workspace_make(project, h100, alice), h100, NOW - timedelta(minutes=90), None, quantity=2)
    (state,) = budget_states(budgets=[make(measure="gpu_hours", amount="2.5")], now=NOW)
    assert (state.spent, state.amount, state.unit) == (Decimal("3.00"), Decimal("2.50"), "GPU-hours")
    assert standing(state.budget) == [(50, "notify"), (100, "block")]


def test_scopes_count_what_is_theirs(
    workspace: Workspace,
    other_project: Project,
    h100: Flavor,
    alice: User,
    charlie: User,
    make: Callable[..., Budget],
) -> None:
    second = workspace_make(workspace.project, h100, alice, name="second")
    interval_make(second, h100, NOW - timedelta(hours=1), None)
    foreign = workspace_make(other_project, h100, charlie)
    interval_make(foreign, h100, BEGAN, None)
    budgets = [
        make(organization=workspace.project.organization, name="all"),
        make(name="project"),
        make(workspace=second, name="second"),
    ]
    spent = [state.spent for state in budget_states(budgets=budgets, now=NOW)]
    assert spent == [Decimal("506.00"), Decimal("506.00"), Decimal("2.00")]


@pytest.mark.parametrize(
    ("changes", "spent"),
    [
        ({"period": "month"}, "504.00"),
        ({"period": "quarter"}, "510.00"),
        ({"period": "fixed", "starts_on": date(2026, 11, 11), "ends_on": date(2026, 11, 30)}, "24.00"),
        ({"period": "fixed", "starts_on": date(2026, 10, 31), "ends_on": date(2026, 11, 11)}, "510.00"),
    ],
)
def test_periods_are_days_of_the_billing_zone(
    workspace: Workspace, h100: Flavor, make: Callable[..., Budget], changes: dict[str, Any], spent: str
) -> None:
    interval_make(workspace, h100, BEGAN - timedelta(hours=3), BEGAN)
    (state,) = budget_states(budgets=[make(**changes)], now=NOW)
    assert state.spent == Decimal(spent)


def test_a_period_to_come_counts_nothing_yet(workspace: Workspace, make: Callable[..., Budget]) -> None:
    row = make(period="fixed", starts_on=date(2026, 12, 1), ends_on=date(2026, 12, 31), amount="1")
    (state,) = budget_states(budgets=[row], now=NOW)
    assert (state.reading, state.spent, standing(row)) == (None, None, [])


def test_a_threshold_fires_once_and_blocks_until_the_amount_is_raised(
    workspace: Workspace, make: Callable[..., Budget], as_alice: Actor
) -> None:
    row = make()
    assert standing(row) == [(50, "notify")]
    assert not Hold.objects.exists()
    later = NOW + timedelta(hours=248)
    assert budgets_evaluate(now=later) == 1
    assert budgets_evaluate(now=later + timedelta(minutes=5)) == 0
    assert standing(row) == [(50, "notify"), (100, "block")]
    assert "1,000.00 of 1,000.00 EUR" in Hold.objects.get().reason
    assert "until 2026-12-01" in Hold.objects.get().reason
    assert AuditEntry.objects.filter(action="budget.reached").count() == 2

    budget_update(actor=as_alice, budget=row, terms=terms(amount="3000"))
    assert standing(row) == []
    assert not Hold.objects.exists()
    assert BudgetAlert.objects.filter(budget=row, lifted_at__isnull=False).count() == 2
    assert AuditEntry.objects.filter(action="budget.lifted").count() == 2


def test_a_new_month_begins_free(workspace: Workspace, make: Callable[..., Budget]) -> None:
    row = make(amount="100")
    assert Hold.objects.exists()
    UsageInterval.objects.update(ended_at=NOW, ended_by="observed")
    budgets_evaluate(now=utc("2026-11-30 23:00:00"))
    assert standing(row) == []
    assert not Hold.objects.exists()


def test_corrected_usage_undoes_what_it_did(workspace: Workspace, make: Callable[..., Budget]) -> None:
    row = make(amount="500")
    assert Hold.objects.exists()
    UsageInterval.objects.update(ended_at=BEGAN + timedelta(hours=10), ended_by="observed")
    assert budgets_evaluate(now=NOW + timedelta(minutes=5)) == 1
    assert standing(row) == []
    assert not Hold.objects.exists()


def test_a_late_reading_changes_nothing(workspace: Workspace, make: Callable[..., Budget]) -> None:
    """An evaluator that began earlier and was slow does not undo what a later one has done."""
    row = make(amount="505")
    assert budgets_evaluate(now=NOW + timedelta(hours=2)) == 1
    assert budgets_evaluate(now=NOW + timedelta(minutes=1)) == 0
    assert standing(row) == [(50, "notify"), (100, "block")]


def test_raised_but_still_spent_says_the_new_amount(
    workspace: Workspace, make: Callable[..., Budget], as_alice: Actor
) -> None:
    row = make(amount="100")
    budget_update(actor=as_alice, budget=row, terms=terms(amount="200"))
    assert "504.00 of 200.00 EUR" in Hold.objects.get().reason
    assert BudgetAlert.objects.filter(budget=row).count() == 2


def test_an_ended_budget_lets_go(workspace: Workspace, make: Callable[..., Budget], as_alice: Actor) -> None:
    row = make(amount="100")
    budget_end(actor=as_alice, budget=row)
    assert not Hold.objects.exists()
    assert standing(row) == []
    with pytest.raises(NotFound):
        budget_get_for(actor=as_alice, budget_id=row.pk)
    with pytest.raises(Conflict):
        budget_update(actor=as_alice, budget=row, terms=terms())
    make()  # its name is free again


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "  "}, "name"),
        ({"name": "x" * 61}, "name"),
        ({"amount": "-1"}, "amount"),
        ({"amount": "0"}, "amount"),
        ({"amount": "NaN"}, "amount"),
        ({"amount": "1e30"}, "amount"),
        ({"amount": "10.001"}, "amount"),
        ({"amount": "ten"}, "amount"),
        ({"measure": "pods"}, "measure"),
        ({"period": "week"}, "period"),
        ({"period": "fixed"}, "starts_on"),
        ({"period": "fixed", "starts_on": date(2026, 11, 1)}, "ends_on"),
        ({"period": "fixed", "starts_on": date(2026, 12, 2), "ends_on": date(2026, 12, 1)}, "ends_on"),
        ({"period": "fixed", "starts_on": date(2026, 10, 1), "ends_on": date(2026, 11, 10)}, "ends_on"),
        ({"period": "fixed", "starts_on": date(2026, 10, 1), "ends_on": date(2036, 11, 10)}, "ends_on"),
        ({"starts_on": date(2026, 12, 1)}, "starts_on"),
        ({"thresholds": []}, "thresholds"),
        ({"thresholds": [(100, "block"), (50, "notify")]}, "thresholds"),
        ({"thresholds": [(50, "block"), (50, "notify")]}, "thresholds"),
        ({"thresholds": [(0, "notify")]}, "thresholds"),
        ({"thresholds": [(1001, "notify")]}, "thresholds"),
        ({"thresholds": [(50, "explode")]}, "thresholds"),
    ],
)
def test_what_makes_no_sense_is_refused_beside_its_field(
    make: Callable[..., Budget], changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        make(**changes)
    assert list(caught.value.fields) == [field]
    assert not Budget.objects.exists()


def test_a_name_is_taken_once(make: Callable[..., Budget]) -> None:
    make()
    with pytest.raises(Conflict, match="already has a budget called autumn"):
        make()


def test_a_version_that_is_not_current_is_refused(make: Callable[..., Budget], as_alice: Actor) -> None:
    row = make()
    with pytest.raises(StaleVersion):
        budget_update(actor=as_alice, budget=row, terms=terms(), expected_version=7)
    with pytest.raises(Invalid) as caught:
        budget_update(actor=as_alice, budget=row, terms=terms(measure="gpu_hours"))
    assert list(caught.value.fields) == ["measure"]


def test_who_may_see_and_set(
    project: Project,
    organization: Organization,
    as_bob: Actor,
    as_charlie: Actor,
    make: Callable[..., Budget],
) -> None:
    row, above = make(), make(organization=organization, name="all")
    assert list(budgets_for(actor=as_bob, project=project)) == [row]
    with pytest.raises(Forbidden):
        budget_update(actor=as_bob, budget=row, terms=terms())
    for outsider in (as_charlie,):
        with pytest.raises(NotFound):
            budgets_for(actor=outsider, project=project)
        with pytest.raises(NotFound):
            budget_get_for(actor=outsider, budget_id=row.pk)
        with pytest.raises(NotFound):
            budget_get_for(actor=outsider, budget_id=above.pk)
        with pytest.raises(NotFound):
            budgets_for(actor=outsider)


def test_a_project_cannot_raise_what_its_organization_has_set(
    project: Project, bob: User, as_olga: Actor, as_alice: Actor, make: Callable[..., Budget]
) -> None:
    ProjectMembershipFactory._meta.model.objects.filter(user=bob).update(role="admin")
    admin = actor_for(user=bob)
    own = budget_create(actor=admin, terms=terms(name="own"), project=project)
    budget_update(actor=admin, budget=own, terms=terms(name="own", amount="5"))
    with pytest.raises(Forbidden, match="set by the organization"):
        budget_update(actor=admin, budget=make(), terms=terms(amount="9999"))
    ceiling = budget_create(actor=as_olga, terms=terms(name="ceiling"), organization=project.organization)
    with pytest.raises(Forbidden, match="operator"):
        budget_end(actor=as_alice, budget=ceiling)
    with pytest.raises(Forbidden):
        budget_create(actor=admin, terms=terms(name="all"), organization=project.organization)


def test_the_billing_role_sets_budgets_of_the_organization(organization: Organization, bob: User) -> None:
    OrganizationMembershipFactory.create(organization=organization, user=bob, role="billing")
    row = budget_create(actor=actor_for(user=bob), terms=terms(), organization=organization)
    assert row.level == "organization"


def test_an_unusual_day_is_told_once_with_how_unusual(
    workspace: Workspace, h100: Flavor, make: Callable[..., Budget], as_alice: Actor
) -> None:
    row = make(amount="100000")
    assert budgets_evaluate(now=NOW + timedelta(minutes=1)) == 0
    started = NOW + timedelta(minutes=2)
    interval_make(workspace, h100, started, None, quantity=15)
    evening = NOW + timedelta(hours=10)
    assert budgets_evaluate(now=evening) == 1
    assert budgets_evaluate(now=evening + timedelta(minutes=5)) == 0
    whole, page = (budgets_read([row], now=evening, anomalies=each)[row.pk] for each in (True, False))
    assert whole.anomaly is not None
    assert page == replace(whole, anomaly=None)
    (alert,) = budget_alerts_on(actor=as_alice, project=workspace.project)
    assert alert.message.startswith("7× the usual day in project weather-lm: 343.00 EUR on 2026-11-11")
    assert (alert.budget, alert.action, Hold.objects.count()) == (row, BudgetAction.NOTIFY, 0)


@pytest.mark.parametrize(
    ("past", "yesterday", "today", "times"),
    [
        ([10] * 28, 10, 40, 4),
        ([10] * 28, 45, 5, 4),
        ([10] * 28, 29, 29, None),
        ([10] * 6, 10, 400, None),  # no history to speak of
        ([0] * 20 + [10] * 8, 10, 30, 3),  # days without usage are no usual days
        ([], 0, 100, None),
    ],
)
def test_the_usual_day_is_the_median_of_the_days_before(
    past: list[int], yesterday: int, today: int, times: int | None
) -> None:
    day = date(2026, 11, 11)
    days = {day: today, day - timedelta(days=1): yesterday}
    days |= {day - timedelta(days=2 + number): spent for number, spent in enumerate(past)}
    found = anomaly_of(days, day)
    assert (found.times if found else None) == times


def test_all_budgets_are_read_by_the_same_few_queries(
    workspace: Workspace, make: Callable[..., Budget]
) -> None:
    counts = []
    for number in range(6):
        make(name=f"budget {number}", amount=str(100_000 + number), period=("month", "quarter")[number % 2])
        with CaptureQueriesContext(
            connection,
        ) as seen:
            budgets_evaluate(now=NOW + timedelta(minutes=number + 1))
        counts.append(len(seen))
    assert counts[0] == counts[-1] <= 8


def test_a_reading_is_as_of_its_moment(workspace: Workspace, make: Callable[..., Budget]) -> None:
    row = make(amount="100000")

    def percent_at(moment: datetime) -> int:
        found = reading_of(row, now=moment)
        assert found is not None
        return found.spent

    assert percent_at(BEGAN + timedelta(hours=1)) == 200
    assert percent_at(BEGAN + timedelta(hours=2)) == 400
