"""Scaling by policy and money: what is left pays for it or it is not begun; and what a policy would have cost."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine

from billing.policies import policy_allowance, policy_dry_run
from billing.services import AccountTerms, account_update, rate_set
from billing.services.budgets import BudgetTerms, budget_create
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import (
    Cluster,
    ClusterOperation,
    PoolSample,
    ScalingDecision,
    ScalingPolicy,
)
from gpuaas.clusters.reconcile.policies import policy_run
from gpuaas.clusters.services.policies import policy_delete
from gpuaas.core.clock import now
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.metering.models import Meter
from gpuaas.metering.services import held_sync
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.billing.stage import utc
from tests.clusters.policy_stage import demand, quick, recorded, scaled_by
from tests.clusters.stage import offered, ready, settle

pytestmark = pytest.mark.django_db
START = utc("2026-10-05 08:00:00")
WORKER = Decimal("5.00") + 32 * Decimal("0.01")  # two GPUs and 32 cores an hour


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(START, tick=False) as moved:
        yield moved


@pytest.fixture
def cluster(as_olga: Actor, as_alice: Actor, project: Project, site: Site) -> Cluster:
    offered(as_olga, site)
    flavor = Flavor.objects.get(slug="h100.2")
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    rate_set(actor=as_olga, flavor=None, meter=Meter.VCPU_HELD, price="0.01", valid_from=utc("2026-01-01"))
    return ready(as_alice, project)


def priced_round(policy: ScalingPolicy) -> None:
    ScalingPolicy.objects.filter(pk=policy.pk).update(due_at=now())
    policy_run(policy.pk, purse=policy_allowance)


def test_a_decision_says_what_it_costs(
    as_alice: Actor, cluster: Cluster, site: Site, clock: time_machine.Traveller
) -> None:
    policy = scaled_by(as_alice, cluster)
    demand(site, cluster, 6)
    priced_round(policy)
    made = ScalingDecision.objects.get()
    assert (made.before, made.after, made.per_hour, made.currency) == (1, 3, 2 * WORKER, "EUR")
    settle(cluster)
    clock.shift(timedelta(minutes=1))
    demand(site, cluster, 0)
    priced_round(policy)
    assert ScalingDecision.objects.latest("at").per_hour == -2 * WORKER


def test_without_a_price_it_says_none(as_alice: Actor, cluster: Cluster, site: Site) -> None:
    """Of the small pool's flavor nobody has set one."""
    policy = scaled_by(as_alice, cluster, pool="small", minimum=0, maximum=2, money_month=Decimal(5))
    demand(site, cluster, 2, pool="small")
    priced_round(policy)
    made = ScalingDecision.objects.get()
    assert (made.after, made.per_hour) == (2, None)


def test_the_currency_stays_while_a_policy_has_a_cap_in_it(
    as_olga: Actor, as_alice: Actor, cluster: Cluster
) -> None:
    """105 of another currency is not what was allowed."""
    organization = cluster.project.organization
    policy = scaled_by(as_alice, cluster, money_month=Decimal(105))
    with pytest.raises(Invalid, match=r"caps in EUR \(.*\)") as refused:
        account_update(actor=as_olga, organization=organization, terms=AccountTerms("JPY"))
    assert list(refused.value.fields) == ["currency"]
    policy_delete(actor=as_alice, policy=policy)
    scaled_by(as_alice, cluster, gpu_hours_month=40)
    assert (
        account_update(actor=as_olga, organization=organization, terms=AccountTerms("JPY")).currency == "JPY"
    )


@pytest.mark.parametrize("cap", [{"gpu_hours_month": 40}, {"money_month": Decimal(105)}])
def test_a_cap_of_the_month_bounds_growth_then_takes_back(
    as_alice: Actor, cluster: Cluster, site: Site, clock: time_machine.Traveller, cap: dict[str, Any]
) -> None:
    """Either pays for about 20 hours of one worker. What is decided has to be paid for half an hour, while it takes 10 minutes."""
    policy = scaled_by(as_alice, cluster, **cap)
    demand(site, cluster, 12)
    clock.shift(timedelta(hours=16))
    priced_round(policy)
    settle(cluster)
    grown = ScalingDecision.objects.get()
    assert (grown.before, grown.wanted, grown.refused) == (1, 6, "")
    assert grown.after == 6
    clock.shift(timedelta(minutes=30))
    priced_round(policy)
    taken = ScalingDecision.objects.latest("at")
    assert taken.after < 6
    assert "The policy may" in taken.reason
    settle(cluster)
    clock.shift(timedelta(hours=4))
    priced_round(policy)
    settle(cluster)
    assert cluster.pools.get(name="gpu").count == 1, "the minimum is what was ordered"
    clock.move_to(utc("2026-11-01 00:00:00"))
    priced_round(policy)
    assert cluster.pools.get(name="gpu").count == 6, "another month, another purse"


def budget(as_alice: Actor, project: Project, **changes: Any) -> None:
    said: dict[str, Any] = {"name": "autumn", "measure": "money", "amount": "100", "period": "month"}
    terms = BudgetTerms(**said | {"thresholds": [(50, "notify"), (90, "block")]} | changes)
    budget_create(actor=as_alice, organization=project.organization, project=project, terms=terms)


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({}, 6),
        ({"amount": "7.00"}, 1),
        ({"measure": "gpu_hours", "amount": "3"}, 1),
        ({"amount": "7.00", "thresholds": [(90, "notify")]}, 6),
    ],
)
def test_what_a_blocking_budget_cannot_pay_is_not_begun(
    as_alice: Actor, cluster: Cluster, project: Project, site: Site, changes: dict[str, Any], after: int
) -> None:
    """Of 90% of the amount the hour before has taken 5.36; with six workers half an hour takes 16."""
    held_sync()
    policy = scaled_by(as_alice, cluster)
    with time_machine.travel(START + timedelta(hours=1), tick=False):
        held_sync()
        budget(as_alice, project, **changes)
        demand(site, cluster, 12)
        priced_round(policy)
    assert cluster.pools.get(name="gpu").count == after
    if after == 1:
        assert ScalingDecision.objects.get().refused.startswith("The budget autumn has ")


# -- over what was recorded -------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_it_would_have_cost(as_alice: Actor, cluster: Cluster) -> None:
    """Two hours, in the second of which 7 GPUs are asked for; new workers take 10 minutes, as none has come yet."""
    policy = scaled_by(as_alice, cluster, enabled=False)
    recorded(policy, [1] * 60 + [7] * 60)
    before = [model.objects.count() for model in (ScalingDecision, ClusterOperation, AuditEntry, PoolSample)]
    found = policy_dry_run(actor=as_alice, cluster=cluster, pool="gpu", terms=quick())
    assert (found.recorded_seconds, found.boot, found.currency) == (7200, 600, "EUR")
    assert found.was.gpu_hours == 4
    assert found.was.cost == 2 * WORKER
    assert found.was.waited_seconds == 3600
    assert (found.would.waited_seconds, found.would.changes) == (600, 1)
    hours = Decimal(70 * 60 + 50 * 60 * 4) / 3600
    assert found.would.gpu_hours == round(hours * 2 - Decimal("0.005"), 2)
    assert found.would.cost == round(hours * WORKER, 2)
    assert max(one.workers for one in found.series) == 4
    assert max(one.pending_gpus for one in found.series) == 5
    assert before == [
        model.objects.count() for model in (ScalingDecision, ClusterOperation, AuditEntry, PoolSample)
    ]


def test_prices_are_those_of_the_time(
    as_olga: Actor, as_alice: Actor, cluster: Cluster, clock: time_machine.Traveller
) -> None:
    policy = scaled_by(as_alice, cluster, enabled=False)
    flavor = Flavor.objects.get(slug="h100.2")
    changed = START + timedelta(hours=1)
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="5.00", valid_from=changed)
    clock.shift(timedelta(hours=2))
    recorded(policy, [0] * 120)
    found = policy_dry_run(actor=as_alice, cluster=cluster, pool="gpu", terms=quick())
    assert found.would.cost == WORKER + WORKER + Decimal("5.00")


def test_a_dry_run_keeps_caps_and_what_was_not_recorded_is_not_counted(
    as_alice: Actor, cluster: Cluster
) -> None:
    policy = scaled_by(as_alice, cluster, enabled=False)
    recorded(policy, [12] * 10, every=3600)
    found = policy_dry_run(actor=as_alice, cluster=cluster, pool="gpu", terms=quick(gpu_hours_month=1))
    assert found.recorded_seconds == 9 * 300 + 60
    assert found.would.changes == 0
    assert found.refused == 10
    policy.pool.samples.update(room=2)
    found = policy_dry_run(actor=as_alice, cluster=cluster, pool="gpu", terms=quick())
    assert max(one.workers for one in found.series) == 2


def test_without_a_history_nothing_is_said(as_alice: Actor, cluster: Cluster) -> None:
    found = policy_dry_run(actor=as_alice, cluster=cluster, pool="gpu", terms=quick())
    assert (found.recorded_seconds, found.would.gpu_hours, list(found.series)) == (0, Decimal(0), [])


def test_a_dry_run_is_for_who_may_see_the_cluster(
    as_alice: Actor, as_bob: Actor, as_charlie: Actor, cluster: Cluster
) -> None:
    with pytest.raises(NotFound):
        policy_dry_run(actor=as_charlie, cluster=cluster, pool="gpu", terms=quick())
    with pytest.raises(Invalid):
        policy_dry_run(actor=as_bob, cluster=cluster, pool="none", terms=quick())
    with pytest.raises(Invalid):
        policy_dry_run(actor=as_alice, cluster=cluster, pool="gpu", terms=quick(maximum=99))
    since = now() - timedelta(days=32)
    with pytest.raises(Invalid):
        policy_dry_run(actor=as_alice, cluster=cluster, pool="gpu", terms=quick(), since=since)
