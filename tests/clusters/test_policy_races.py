"""Workers, changed terms and scaling by hand at the same moment, on real connections."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import (
    Cluster,
    ClusterOperation,
    ClusterTemplate,
    PoolSample,
    ScalingDecision,
    ScalingPolicy,
)
from gpuaas.clusters.reconcile.policies import policy_run
from gpuaas.clusters.services import cluster_scale, policy_switch
from gpuaas.core.clock import now
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.policy_stage import demand, free, scaled_by
from tests.clusters.stage import ready
from tests.clusters.test_races import at_once
from tests.factories.quotas import counters_must_match

pytestmark = pytest.mark.django_db(transaction=True)
WORKERS = 6


@pytest.fixture
def policy(as_alice: Actor, project: Project, template: ClusterTemplate, site: Site) -> ScalingPolicy:
    cluster = ready(as_alice, project)
    demand(site, cluster, 6)
    return scaled_by(as_alice, cluster)


def scalings() -> int:
    return ClusterOperation.objects.filter(kind="scale").count()


def test_many_workers_make_one_decision(policy: ScalingPolicy) -> None:
    assert at_once(WORKERS, lambda _: policy_run(policy.pk, purse=free)) == {"done": WORKERS}
    assert (scalings(), ScalingDecision.objects.count(), PoolSample.objects.count()) == (1, 1, 1)
    row = ScalingPolicy.objects.get()
    assert row.claim_token is None
    assert row.due_at is not None
    assert row.due_at > now()
    counters_must_match()


def test_a_person_and_a_policy_scale_one_after_the_other(as_alice: Actor, policy: ScalingPolicy) -> None:
    cluster = Cluster.objects.get()

    def work(number: int) -> None:
        if number:
            policy_run(policy.pk, purse=free)
        else:
            cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 5})

    answers = at_once(2, work)
    assert answers["done"] >= 1
    assert scalings() == 1, "who came second finds it scaling"
    assert Cluster.objects.get().pools.get(name="gpu").count in {3, 5}
    counters_must_match()


def test_switched_off_and_run_at_once_it_ends_switched_off(as_alice: Actor, policy: ScalingPolicy) -> None:
    def work(number: int) -> None:
        if number:
            policy_run(policy.pk, purse=free)
        else:
            policy_switch(actor=as_alice, policy=policy, enabled=False)

    assert at_once(WORKERS, work) == {"done": WORKERS}
    row = ScalingPolicy.objects.get()
    assert (row.enabled, row.version) == (False, 2)
    assert scalings() == ScalingDecision.objects.count() <= 1
    counters_must_match()
