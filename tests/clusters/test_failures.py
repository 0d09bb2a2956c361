"""What fails says why, shows what the site said and what to do; retried, it goes on where it failed."""

from datetime import timedelta

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterOperationStep, ClusterTemplate
from gpuaas.clusters.services import (
    cluster_delete,
    cluster_retry,
    cluster_scale,
    cluster_suspend,
    cluster_upgrade,
)
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, OnHold
from gpuaas.providers.sandbox.dials import ALWAYS, dials_set, failure_plan
from gpuaas.providers.sandbox.fleet import node_set
from quotas.holds import HoldScope, hold_lift, hold_set
from quotas.models import SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import at_site, in_ledger, order, run_now, settle, workers
from tests.factories.quotas import counters_must_match, limits_give

pytestmark = pytest.mark.django_db


def test_a_failed_creation_says_why_and_goes_on_from_there(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project)
    failure_plan(site.pk, verb="cluster:create:pool:gpu", error="permanent", times=3)
    cluster = settle(order(as_alice, project))
    assert cluster.state == "failed"
    assert cluster.trouble["step"] == "pool:gpu"
    assert "refuses" in cluster.trouble["cause"]
    assert cluster.trouble["evidence"][0].startswith("ber-1 cluster:create:pool:gpu")
    assert cluster.trouble["next"]
    counters_must_match()

    cluster = cluster_retry(actor=as_alice, cluster=cluster)
    again = cluster.operations.first()
    assert again is not None
    states = dict(again.steps.values_list("key", "state"))
    assert (states["control-plane"], states["pool:gpu"]) == ("done", "waiting")
    cluster = settle(cluster)
    assert cluster.state == "ready"
    assert cluster.trouble == {}
    assert set(at_site(site)) == in_ledger(cluster)
    counters_must_match()


def test_a_hold_refuses_to_begin_again(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project)
    failure_plan(site.pk, verb="cluster:create:pool:gpu", error="permanent", times=3)
    cluster = settle(order(as_alice, project))
    scope = HoldScope(project.organization_id, project.pk)
    hold_set(source="budget:autumn", scope=scope, reason="The budget autumn is spent.")
    with pytest.raises(OnHold):
        cluster_retry(actor=as_alice, cluster=cluster)
    hold_lift(source="budget:autumn")
    assert settle(cluster_retry(actor=as_alice, cluster=cluster)).state == "ready"


def test_no_host_is_told_with_what_the_site_said_and_scaled_back(
    as_alice: Actor, site: Site, cluster: Cluster
) -> None:
    for number in (1, 2):
        node_set(site.pk, name=f"h100-{number:02}", unhealthy=7)
    cluster = settle(cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 3}))
    assert cluster.state == "failed"
    assert "no host" in cluster.trouble["cause"]
    assert "free nvidia.com/gpu" in cluster.trouble["evidence"][0]
    assert "scale the pool to fewer" in cluster.trouble["next"]
    held = cluster.holdings.get(meter="gpu_held", ended_at=None).quantity
    assert held == 2, "what did not come is not charged"

    cluster = settle(cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 1}))
    assert cluster.state == "ready"
    assert len(workers(cluster)["gpu"]) == 1
    assert set(at_site(site)) == in_ledger(cluster)
    counters_must_match()


def test_a_failed_upgrade_is_retried_and_neither_scaled_nor_put_to_sleep(
    as_alice: Actor, site: Site, of_two: Cluster
) -> None:
    cluster = of_two
    failure_plan(site.pk, verb="cluster:upgrade:pool:gpu", error="permanent", times=3)
    cluster = settle(cluster_upgrade(actor=as_alice, cluster=cluster, release="1.36.3"))
    assert cluster.state == "failed"
    assert workers(cluster)[""] == ["1.36.3"]
    with pytest.raises(Conflict):
        cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 1})
    with pytest.raises(Conflict):
        cluster_suspend(actor=as_alice, cluster=cluster)
    cluster = settle(cluster_retry(actor=as_alice, cluster=cluster))
    assert workers(cluster) == {"": ["1.36.3"], "gpu": ["1.36.3", "1.36.3"]}


def test_a_site_that_is_away_is_waited_for(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project)
    dials_set(site.pk, down=True)
    cluster = order(as_alice, project)
    for _ in range(6):
        cluster = run_now(cluster)
    assert cluster.state == "provisioning"
    assert cluster.conditions["Reachable"]["status"] == "False"
    dials_set(site.pk, down=False)
    cluster = settle(cluster)
    assert cluster.state == "ready"
    assert cluster.conditions["Reachable"]["status"] == "True"


@pytest.mark.parametrize(
    "verb", ["network", "endpoint", "control-plane", "pool:gpu", "addon:monitoring", "checks"]
)
def test_lost_answers_make_nothing_twice(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site, verb: str
) -> None:
    limits_give(project)
    failure_plan(site.pk, verb=f"cluster:create:{verb}", error="lost", times=2)
    cluster = settle(order(as_alice, project))
    assert cluster.state == "ready"
    assert set(at_site(site)) == in_ledger(cluster)
    assert len(at_site(site)) == cluster.ledger.count()


def test_deletion_never_gives_up(as_alice: Actor, site: Site, cluster: Cluster) -> None:
    failure_plan(site.pk, verb="cluster:delete:workers", error="permanent", times=ALWAYS)
    cluster = cluster_delete(actor=as_alice, cluster=cluster)
    for _ in range(8):
        cluster = run_now(cluster)
    assert cluster.state == "deleting"
    assert cluster.conditions["Progressing"]["reason"] == "SiteRefused"
    failure_plan(site.pk, verb="cluster:delete:workers", times=0)
    assert settle(cluster).state == "deleted"
    assert at_site(site) == []


def test_what_the_site_never_finishes_is_given_up(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project)
    dials_set(site.pk, machine_ms=86_400_000)
    cluster = run_now(order(as_alice, project))
    assert cluster.state == "provisioning"
    late = now() - timedelta(hours=2)
    step = ClusterOperationStep.objects.filter(key="control-plane")
    step.update(started_at=late, moved_at=late, detail="30 of 31 machines are to be replaced")
    assert run_now(cluster).state == "provisioning", "the site has news of it"
    assert run_now(cluster).state == "provisioning", "the news are not an hour old"
    step.update(moved_at=late)
    cluster = run_now(cluster)
    assert cluster.state == "failed"
    assert "0 of 1 machines answer" in cluster.trouble["cause"]


def test_a_failed_creation_can_be_kept_for_a_look_and_deleted(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project)
    failure_plan(site.pk, verb="cluster:create:checks", error="permanent", times=3)
    cluster = settle(order(as_alice, project))
    assert cluster.state == "failed"
    assert at_site(site), "what was made is there to be looked at"
    assert Cluster.objects.get().due_at is None
    assert settle(cluster_delete(actor=as_alice, cluster=cluster)).state == "deleted"
    assert at_site(site) == []
    counters_must_match()
    assert not SiteCapacity.objects.filter(used__gt=0).exists()
