"""Use of a cluster by person: the shares of a month's cost add up to it, whatever was used, in any currency."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.money import minor_places
from billing.people import cluster_use_costs, shared
from billing.services import rate_set
from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.clusters.models import Cluster, ClusterLogin, ClusterUse
from gpuaas.core.errors import NotFound
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.stage import cluster_make, interval_make, utc

OCTOBER, NOW = date(2026, 10, 1), utc("2026-11-03 09:00:00")


@given(
    st.integers(0, 10**9),
    st.sampled_from(["EUR", "JPY", "KWD"]),
    st.lists(st.integers(0, 10**9), max_size=6),
    st.integers(0, 10**9),
)
def test_shares_add_up_to_the_cost(minor: int, currency: str, used: list[int], held: int) -> None:
    total = Decimal(minor).scaleb(-minor_places(currency))
    shares = shared(total, currency, used, held)
    assert (sum(shares), len(shares)) == (total, len(used) + 1)
    assert all(share >= 0 for share in shares)
    exact = [total * seconds / (max(held, sum(used)) or 1) for seconds in used]
    smallest = Decimal(1).scaleb(-minor_places(currency))
    assert all(abs(share - wanted) < smallest for share, wanted in zip(shares, exact, strict=False))


@pytest.fixture
def cluster(project: Project, h100: Flavor, alice: User, bob: User, as_olga: Actor) -> Cluster:
    """Two GPUs for ten hours of October, at 2.50 each: 50.00. Alice used a third of that and bob an hour."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    made = cluster_make(project, h100, alice)
    interval_make(made, h100, utc("2026-10-05 08:00:00"), utc("2026-10-05 18:00:00"), quantity=2)
    for number, (user, days) in enumerate(((bob, {5: 3600}), (alice, {5: 20_000, 6: 4000}))):
        login = ClusterLogin.objects.create(
            project=project, user=user, name=user.username, uid=20_001 + number
        )
        for day, seconds in days.items():
            ClusterUse.objects.create(cluster=made, login=login, day=date(2026, 10, day), gpu_seconds=seconds)
        ClusterUse.objects.create(cluster=made, login=login, day=date(2026, 11, 1), gpu_seconds=0)
    return made


@pytest.mark.django_db
def test_the_cost_of_a_month_is_shared_by_gpu_time(cluster: Cluster, as_bob: Actor) -> None:
    found = cluster_use_costs(actor=as_bob, cluster=cluster, month=OCTOBER, now=NOW)
    assert [(one.username, one.gpu_seconds, str(one.amount)) for one in found.people] == [
        ("alice", 24_000, "16.67"),
        ("bob", 3600, "2.50"),
    ]
    assert (str(found.total), str(found.unused), found.currency) == ("50.00", "30.83", "EUR")
    this = cluster_use_costs(actor=as_bob, cluster=cluster, now=NOW)
    assert (this.month, this.people, str(this.total), str(this.unused)) == (
        date(2026, 11, 1),
        (),
        "0.00",
        "0.00",
    )


@pytest.mark.django_db
def test_slices_are_shared_as_devices(cluster: Cluster, h100: Flavor, as_bob: Actor) -> None:
    """People's jobs count slices as GPUs; what the cluster held is counted in the same way."""
    GpuPool.objects.filter(pk=h100.pool_id).update(card_share=Decimal("0.142857142857"))
    found = cluster_use_costs(actor=as_bob, cluster=cluster, month=OCTOBER, now=NOW)
    assert [(one.username, str(one.amount)) for one in found.people] == [("alice", "16.67"), ("bob", "2.50")]
    assert (str(found.total), str(found.unused)) == ("50.00", "30.83")


@pytest.mark.django_db
def test_an_outsider_finds_nothing(cluster: Cluster, as_charlie: Actor) -> None:
    with pytest.raises(NotFound):
        cluster_use_costs(actor=as_charlie, cluster=cluster)
