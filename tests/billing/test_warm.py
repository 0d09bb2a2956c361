"""Money of a cluster that waited: each second is the provider's or the tenant's, and every second is somebody's."""

import random
from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine

from billing.clusters import warm_pool_cost
from billing.selectors import burn_per_hour, holder_cost, statement
from billing.selectors.breakdown import By, CostFilters, cost_breakdown, cost_intervals
from billing.services import rate_set
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.clusters.services import cluster_delete
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.metering.services import held_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.billing.focus import OCTOBER
from tests.billing.stage import utc
from tests.clusters.stage import offered, order, settle
from tests.clusters.warm_stage import H100, kept, pool_of
from tests.factories.quotas import limits_give

pytestmark = pytest.mark.django_db
START = utc("2026-10-05 08:00:00")
HOUR = timedelta(hours=1)


def priced(as_olga: Actor, site: Site) -> ClusterTemplate:
    template, flavor = offered(as_olga, site), Flavor.objects.get(slug="h100.2")
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    return template


@pytest.mark.parametrize("synced", [True, False], ids=["metered before the claim", "metered after it"])
def test_each_second_is_charged_once_and_to_whose_it_was(
    as_olga: Actor,
    as_alice: Actor,
    as_charlie: Actor,
    site: Site,
    project: Project,
    other_project: Project,
    synced: bool,
) -> None:
    """Waits for two hours, the tenant's for three."""
    template = priced(as_olga, site)
    limits_give(project, {H100: None})
    with time_machine.travel(START, tick=False) as moved:
        pool = pool_of(as_olga, template, other_project)
        kept(pool)
        if synced:
            held_sync()
        moved.shift(2 * HOUR)
        made = order(as_alice, project)
        held_sync()
        assert burn_per_hour(actor=as_charlie, project=other_project) == 0
        assert burn_per_hour(actor=as_alice, project=project) == 2 * Decimal("2.50")
        made = settle(made)
        moved.shift(3 * HOUR)
        made = settle(cluster_delete(actor=as_alice, cluster=made))
        moved.shift(HOUR)
        held_sync()
        rows = UsageInterval.objects.filter(cluster=made, meter=Meter.GPU_HELD).order_by("started_at")
        assert [(row.project, row.started_at, row.ended_at, row.quantity) for row in rows] == [
            (other_project, START, START + 2 * HOUR, 2),
            (project, START + 2 * HOUR, START + 5 * HOUR, 2),
        ]
        assert statement(actor=as_alice, project=project).total == 3 * 2 * Decimal("2.50")
        assert holder_cost(actor=as_alice, holder=made) == 3 * 2 * Decimal("2.50")
        assert warm_pool_cost(actor=as_olga, pool=pool) == 2 * 2 * Decimal("2.50")
        giver_reads_of_no_tenant(as_olga, other_project, 2 * 2 * Decimal("2.50"))


def giver_reads_of_no_tenant(actor: Actor, project: Project, amount: Decimal) -> None:
    """But of the cluster by the name that it had while it waited."""
    for by, word in ((By.WORKSPACE, "warm-"), (By.MEMBER, "olga")):
        (row,) = cost_breakdown(actor=actor, project=project, month=OCTOBER, by=by).rows
        assert row.name.startswith(word)
        assert row.amount == amount
    for member, found in (("alice", 0), ("olga", 4)):
        rows = cost_intervals(actor=actor, project=project, month=OCTOBER, filters=CostFilters(member=member))
        assert len(rows) == found
        assert {row.holder_person for row in rows} <= {"olga"}
        assert all(row.holder_name.startswith("warm-") for row in rows)


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_equal_whenever_it_is_claimed(
    as_olga: Actor, as_alice: Actor, site: Site, project: Project, other_project: Project, seed: int
) -> None:
    """Claimed at any moment, also in the very second it is ready: both sides together are one life without a gap."""
    random_ = random.Random(seed)
    template = offered(as_olga, site)
    limits_give(project, {H100: None})
    with time_machine.travel(START, tick=False) as moved:
        pool = pool_of(as_olga, template, other_project)
        kept(pool)
        moved.shift(timedelta(milliseconds=random_.choice([0, 1, 999, 1000, 86_399_500])))
        made = order(as_alice, project)
        moved.shift(timedelta(milliseconds=random_.choice([0, 1, 999, 3_600_000])))
        settle(cluster_delete(actor=as_alice, cluster=settle(made)))
        held_sync()
    row = Cluster.objects.get(pk=made.pk)
    for meter in (Meter.GPU_HELD, Meter.VCPU_HELD, Meter.MEMORY_HELD, Meter.STORAGE_HELD):
        rows = UsageInterval.objects.filter(cluster=row, meter=meter)
        first, second = rows.get(project=other_project), rows.get(project=project)
        assert first.started_at == START
        assert first.ended_at == second.started_at
        assert second.ended_at is not None
        assert row.deleted_at is not None
        assert second.ended_at == row.deleted_at.replace(microsecond=0)
