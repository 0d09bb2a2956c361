"""Money of clusters: from what the site confirmed to the proof that all is gone; budgets, documents and views."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.db import IntegrityError, transaction

from billing.clusters import cluster_plan_priced
from billing.models import Budget, Invoice, InvoiceShare
from billing.selectors import burn_per_hour, holder_cost, statement
from billing.selectors.breakdown import By, CostFilters, cost_breakdown, cost_intervals
from billing.selectors.budgets import budget_states, scope_words
from billing.services import rate_set
from billing.services.budget_alerts import budgets_enforce, budgets_evaluate
from billing.services.budgets import BudgetTerms, budget_create, budget_update
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_delete, cluster_resume, cluster_scale, cluster_suspend
from gpuaas.core.errors import OnHold
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.providers.sandbox.clusters.objects import foreign_object
from gpuaas.providers.sandbox.models import SandboxClusterObject
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.focus import DECEMBER, NOVEMBER, OCTOBER, arithmetic, exported, months_stage
from tests.billing.stage import cluster_make, interval_make, utc, workspace_make
from tests.clusters.stage import offered, order, ready, run_now, settle
from tests.factories.quotas import counters_must_match

pytestmark = pytest.mark.django_db
START = utc("2026-10-05 08:00:00")
HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(START, tick=False) as moved:
        yield moved


@pytest.fixture
def prices(as_olga: Actor, site: Site) -> None:
    offered(as_olga, site)
    flavor = Flavor.objects.get(slug="h100.2")
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    rate_set(actor=as_olga, flavor=None, meter=Meter.VCPU_HELD, price="0.01", valid_from=utc("2026-01-01"))


def metered(cluster: Cluster, meter: Meter) -> list[tuple[float, float | None, int]]:
    """From which hour to which, how many."""
    held_sync()
    rows = UsageInterval.objects.filter(cluster=cluster, meter=meter).order_by("started_at", "quantity")
    return [
        (
            (row.started_at - START) / HOUR,
            (row.ended_at - START) / HOUR if row.ended_at else None,
            row.quantity,
        )
        for row in rows
    ]


@pytest.mark.usefixtures("prices")
def test_a_life_is_charged_from_the_confirmation_to_the_proof(
    clock: time_machine.Traveller, as_alice: Actor, project: Project, site: Site
) -> None:
    """An hour each: two workers, asked for three, three, asleep, awake again, asked to go, held by what is left, gone."""
    cluster = ready(as_alice, project, gpus=2)
    quoted = cluster_plan_priced(
        actor=as_alice, project=project, template="k8s", document={"pools": {"gpu": {"count": 2}}}
    ).quote
    held_sync()
    assert quoted is not None
    assert burn_per_hour(actor=as_alice, holder=cluster) == quoted.per_hour
    clock.shift(HOUR)
    cluster = cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 3})
    clock.shift(HOUR)
    cluster = settle(cluster)
    clock.shift(HOUR)
    cluster = settle(cluster_suspend(actor=as_alice, cluster=cluster))
    clock.shift(HOUR)
    cluster = settle(cluster_resume(actor=as_alice, cluster=cluster))
    clock.shift(HOUR)
    foreign_object(site.pk, "volume", "left-behind", cluster_id=cluster.pk)
    cluster = cluster_delete(actor=as_alice, cluster=cluster)
    clock.shift(HOUR)
    cluster = run_now(cluster)
    assert metered(cluster, Meter.GPU_HELD) == [(0, 2, 4), (2, 3, 6), (4, None, 6)]
    assert burn_per_hour(actor=as_alice, holder=cluster) > 0, "asked to go is not gone"
    SandboxClusterObject.objects.filter(name="left-behind").delete()
    for _ in range(5):
        cluster = run_now(cluster)
    assert cluster.state == "deleted"
    assert metered(cluster, Meter.GPU_HELD) == [(0, 2, 4), (2, 3, 6), (4, 6, 6)]
    assert metered(cluster, Meter.VCPU_HELD) == [(0, 2, 68), (2, 3, 100), (3, 4, 4), (4, 6, 100)]
    assert metered(cluster, Meter.STORAGE_HELD) == [(0, 6, 40)]
    clock.shift(HOUR)
    gpus = (2 * 4 + 6 + 2 * 6) * Decimal("2.50")
    cores = (2 * 68 + 100 + 4 + 2 * 100) * Decimal("0.01")
    assert holder_cost(actor=as_alice, holder=cluster) == gpus + cores
    assert statement(actor=as_alice, project=project).total == gpus + cores
    assert burn_per_hour(actor=as_alice, project=project) == 0


@pytest.mark.usefixtures("prices")
def test_a_spent_budget_stops_orders_and_growth_and_puts_clusters_to_sleep(
    clock: time_machine.Traveller, as_alice: Actor, project: Project
) -> None:
    cluster = ready(as_alice, project, gpus=2)
    terms = BudgetTerms("autumn", "gpu_hours", "8", "month", [(50, "notify"), (100, "suspend")])
    budget = budget_create(actor=as_alice, terms=terms, project=project)
    held_sync()
    clock.shift(2 * HOUR - timedelta(seconds=1))
    budgets_evaluate(now=START + 2 * HOUR - timedelta(seconds=1))
    assert budgets_enforce() == 0, "a second before 4 GPUs have used 8 hours"
    clock.shift(timedelta(seconds=1))
    budgets_evaluate(now=START + 2 * HOUR)
    with pytest.raises(OnHold, match="Workspaces and clusters are suspended"):
        order(as_alice, project, name="more")
    with pytest.raises(OnHold):
        cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 3})
    assert Cluster.objects.get().state == "ready", "refused without residue"
    assert [budgets_enforce(), budgets_enforce()] == [1, 0]
    cluster = settle(cluster)
    assert cluster.state == "suspended"
    with pytest.raises(OnHold):
        cluster_resume(actor=as_alice, cluster=cluster)
    held_sync()
    assert burn_per_hour(actor=as_alice, project=project) == 4 * Decimal("0.01"), "its control plane stays"
    clock.shift(HOUR)
    more = BudgetTerms("autumn", "gpu_hours", "100", "month", [(100, "suspend")])
    budget_update(actor=as_alice, budget=budget, terms=more)
    assert settle(cluster_resume(actor=as_alice, cluster=cluster)).state == "ready"
    counters_must_match()


@pytest.mark.usefixtures("prices")
def test_a_budget_of_one_cluster_counts_stops_and_suspends_it_alone(
    clock: time_machine.Traveller, as_alice: Actor, project: Project
) -> None:
    cluster, other = (ready(as_alice, project, gpus=2, name=name) for name in ("sim", "other"))
    terms = BudgetTerms("one", "gpu_hours", "8", "month", [(100, "suspend")])
    budget = budget_create(actor=as_alice, terms=terms, project=project, cluster=cluster)
    held_sync()
    clock.shift(2 * HOUR)
    budgets_evaluate(now=START + 2 * HOUR)
    (state,) = budget_states(budgets=[budget], now=START + 2 * HOUR)
    assert (state.spent, scope_words(budget)) == (Decimal("8.00"), "cluster sim")
    assert (state.forecast or 0) > Decimal("8.00")
    with pytest.raises(OnHold):
        cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 3})
    cluster_scale(actor=as_alice, cluster=other, counts={"gpu": 3})
    assert [budgets_enforce(), budgets_enforce()] == [1, 0]
    assert (settle(cluster).state, settle(other).state) == ("suspended", "ready")


def test_a_budget_is_for_one_holder_of_its_project(
    as_alice: Actor, project: Project, other_project: Project, alice: User, h100: Flavor
) -> None:
    terms = BudgetTerms("one", "gpu_hours", "8", "month", [(100, "block")])
    room, cluster = workspace_make(project, h100, alice), cluster_make(project, h100, alice)
    foreign = cluster_make(other_project, h100, alice, name="theirs")
    for holders in ({"workspace": room, "cluster": cluster}, {"cluster": foreign}):
        with pytest.raises(ValueError, match="one workspace or cluster of the project"):
            budget_create(actor=as_alice, terms=terms, project=project, **holders)
    with pytest.raises(IntegrityError, match="budget_of_cluster_has_project"), transaction.atomic():
        Budget.objects.create(
            organization=project.organization,
            cluster=cluster,
            name="one",
            measure="money",
            amount=1,
            period="month",
        )


def test_costs_by_holder_show_clusters_down_to_the_intervals(
    as_alice: Actor, as_olga: Actor, alice: User, bob: User, project: Project, h100: Flavor
) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    room, cluster = (
        workspace_make(project, h100, alice, name="sim"),
        cluster_make(project, h100, bob, name="sim"),
    )
    interval_make(room, h100, START, START + HOUR)
    interval_make(cluster, h100, START, START + 2 * HOUR)
    scope: dict[str, Any] = {"actor": as_alice, "project": project, "month": OCTOBER, "now": START + 3 * HOUR}
    found = cost_breakdown(by=By.WORKSPACE, **scope)
    assert [(row.key, row.name, row.is_cluster, row.amount) for row in found.rows] == [
        (str(cluster.pk), "sim", True, Decimal("4.80")),
        (str(room.pk), "sim", False, Decimal("2.40")),
    ]
    by = cost_breakdown(by=By.MEMBER, **scope)
    assert [(row.name, row.amount) for row in by.rows] == [
        ("bob", Decimal("4.80")),
        ("alice", Decimal("2.40")),
    ]
    del scope["now"]
    for filters in (CostFilters(workspace=str(cluster.pk)), CostFilters(member="bob")):
        assert [row.holder for row in cost_intervals(filters=filters, **scope)] == [cluster]


def test_documents_and_the_export_name_clusters(
    as_alice: Actor, as_olga: Actor, alice: User, project: Project, h100: Flavor, l40s: Flavor
) -> None:
    months_stage(project, h100, l40s, alice, as_olga)
    cluster = Cluster.objects.get(name="sim")
    for month in (OCTOBER, NOVEMBER, DECEMBER):
        records = exported(as_alice, month, project.organization)
        assert arithmetic(records) == []
        kinds = {
            (row["ResourceName"], row["ResourceType"], row["ServiceName"])
            for row in records
            if row["ResourceId"] == str(cluster.pk)
        }
        expected = {("sim", "GPU cluster", "Clusters on demand"), ("sim", "GPU cluster", "Cluster storage")}
        assert kinds <= expected
        assert (month == DECEMBER) == (("sim", "GPU cluster", "Clusters on demand") not in kinds)
    shares = InvoiceShare.objects.filter(cluster=cluster, line__meter=Meter.GPU_HELD)
    assert shares.filter(line__invoice__month=OCTOBER).exists()
    assert not shares.exclude(workspace=None).exists()


def test_a_cluster_that_is_known_late_lands_on_the_next_invoice(
    as_olga: Actor, alice: User, project: Project, h100: Flavor
) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    room, cluster = workspace_make(project, h100, alice), cluster_make(project, h100, alice)
    interval_make(room, h100, START, START + HOUR)
    first = interval_make(cluster, h100, START, START + 2 * HOUR)
    month_close(as_olga, OCTOBER)
    UsageInterval.objects.filter(pk=first.pk).update(ended_at=START + HOUR)
    interval_make(cluster, h100, START + 30 * HOUR, START + 35 * HOUR)
    month_close(as_olga, NOVEMBER)
    invoices = Invoice.objects.order_by("month")
    assert [row.subtotal_minor for row in invoices] == [3 * 240, 4 * 240]
    shares = InvoiceShare.objects.filter(line__invoice=invoices[1]).order_by("day")
    assert [(row.cluster, row.workspace, row.unit_seconds) for row in shares] == [
        (cluster, None, -3600),
        (cluster, None, 5 * 3600),
    ]
