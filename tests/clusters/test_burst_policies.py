"""Scaling by policy at a burst site: the pool at home is filled first, and capacity there is reserved like anywhere."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, PoolSample, ScalingDecision
from gpuaas.clusters.services import policy_update
from gpuaas.core.errors import Invalid
from quotas.models import SiteCapacity
from tenants.actors import Actor
from tests.clusters.burst_stage import GPUS, used_at
from tests.clusters.policy_stage import demand, quick, round_now, scaled_by
from tests.clusters.stage import settle, workers

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(at_home: Cluster) -> Cluster:
    return at_home


def last(cluster: Cluster) -> ScalingDecision:
    return ScalingDecision.objects.filter(cluster=cluster, pool="far").latest("pk")


def test_it_grows_elsewhere_only_when_home_is_full(
    as_alice: Actor, cluster: Cluster, site: Site, cloud: Site
) -> None:
    policy = scaled_by(as_alice, cluster, pool="far", minimum=0, after="gpu")
    demand(site, cluster, 4, pool="far")
    round_now(policy)
    assert last(cluster).outcome == "refused"
    assert "the pool gpu at ber-1 grows first" in last(cluster).refused
    sample = PoolSample.objects.get(pool=policy.pool)
    assert (sample.count, sample.room) == (0, 0), "a dry run over this knows that it had to wait"
    assert used_at(cloud) == 0

    SiteCapacity.objects.filter(site=site, resource=GPUS).update(hard=2)
    round_now(policy)
    assert (last(cluster).outcome, last(cluster).after) == ("scaled", 2)
    assert used_at(cloud) == 4, "reserved in the moment of the decision"
    assert len(workers(settle(cluster))["far"]) == 2

    SiteCapacity.objects.filter(site=site, resource=GPUS).update(hard=16)
    demand(site, cluster, 0, pool="far")
    round_now(policy)
    assert last(cluster).after == 0, "it shrinks whatever there is at home"


def test_home_is_full_at_the_most_of_its_own_policy(
    as_alice: Actor, cluster: Cluster, site: Site, cloud: Site
) -> None:
    scaled_by(as_alice, cluster, pool="gpu", maximum=1)
    policy = scaled_by(as_alice, cluster, pool="far", minimum=0, after="gpu")
    demand(site, cluster, 2, pool="far")
    round_now(policy)
    assert (last(cluster).outcome, last(cluster).after) == ("scaled", 1)


def test_the_capacity_there_is_a_hard_cap(as_alice: Actor, cluster: Cluster, site: Site, cloud: Site) -> None:
    SiteCapacity.objects.filter(site=cloud, resource=GPUS).update(hard=3)
    policy = scaled_by(as_alice, cluster, pool="far", minimum=0)
    demand(site, cluster, 9, pool="far")
    round_now(policy)
    assert (last(cluster).wanted, last(cluster).after) == (5, 1)
    assert "cloud-1" in last(cluster).refused


@pytest.mark.parametrize(("pool", "after"), [("gpu", "far"), ("gpu", "gpu"), ("far", "far"), ("far", "none")])
def test_only_a_pool_elsewhere_waits_and_only_for_one_at_home(
    as_alice: Actor, cluster: Cluster, pool: str, after: str
) -> None:
    policy = scaled_by(as_alice, cluster, pool=pool, minimum=1)
    with pytest.raises(Invalid) as caught:
        policy_update(actor=as_alice, policy=policy, terms=quick(minimum=1, after=after))
    assert list(caught.value.fields) == ["after"]
