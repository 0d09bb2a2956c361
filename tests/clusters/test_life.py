"""From the order to the proof that nothing is left: what the tenant sees, what the site has, what is held and charged."""

from datetime import timedelta

import pytest
import time_machine
import yaml

from gpuaas.catalog.models import Site
from gpuaas.clusters.lease import leases_enforce
from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.clusters.selectors import cluster_get_for, clusters_for, timeline
from gpuaas.clusters.services import (
    cluster_credential,
    cluster_delete,
    cluster_extend,
    cluster_plan,
    cluster_resume,
    cluster_scale,
    cluster_suspend,
    cluster_upgrade,
)
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, Invalid, NotFound, QuotaRefused, StaleVersion, Unauthorized
from gpuaas.providers.base import Change, ClusterRef, ClusterSpec, StepOutcome
from gpuaas.providers.sandbox.clusters.driver import SandboxClusterDriver
from gpuaas.providers.sandbox.clusters.entrance import token_subject
from gpuaas.providers.sandbox.clusters.objects import foreign_object, machine_break
from gpuaas.providers.sandbox.models import SandboxClusterObject
from quotas.selectors import reservations_held
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.clusters.stage import at_site, in_ledger, order, ready, run_now, settle, workers
from tests.factories.quotas import counters_must_match, limits_give

pytestmark = pytest.mark.django_db
GPUS = "gpu:h100-sxm-80gb"


def held(cluster: Cluster) -> dict[str, int]:
    return reservations_held(holder_kind="cluster", holder_id=cluster.pk)


def charged(cluster: Cluster) -> dict[str, int]:
    rows = cluster.holdings.filter(ended_at=None).order_by("meter")
    return dict(rows.values_list("meter", "quantity"))


def test_an_order_becomes_a_cluster(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project)
    cluster = order(as_alice, project, gpus=2)
    assert cluster.state == "requested"
    assert held(cluster) == {GPUS: 4, "vcpu": 68, "memory": 728, "storage": 40}
    assert not charged(cluster), "nothing is charged before it is there"

    cluster = settle(cluster)
    assert cluster.state == "ready"
    assert workers(cluster) == {"": ["1.35.6"], "gpu": ["1.35.6", "1.35.6"]}
    assert cluster.observed["endpoint"]
    assert cluster.conditions["Healthy"]["status"] == "True"
    assert charged(cluster) == {"gpu_held": 4, "memory_held": 728, "storage_held": 40, "vcpu_held": 68}
    (made,) = timeline(cluster=cluster)
    assert made.operation.succeeded
    assert {view.step.state for view in made.steps} == {"done"}
    assert set(at_site(site)) == in_ledger(cluster)
    assert list(cluster.transitions.values_list("new", flat=True)) == ["requested", "provisioning", "ready"]
    counters_must_match()


def test_the_ledger_is_written_before_anything_is_made(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at before and after each call to the site: all that is there was written down before the call."""
    limits_give(project)
    cluster = order(as_alice, project, gpus=2, small=1)
    perform, calls = SandboxClusterDriver.perform, 0

    def watched(driver: SandboxClusterDriver, change: Change, spec: ClusterSpec, step: str) -> StepOutcome:
        nonlocal calls
        calls += 1
        written = in_ledger(cluster)
        outcome = perform(driver, change, spec, step)
        assert set(at_site(site)) <= written, step
        return outcome

    monkeypatch.setattr(SandboxClusterDriver, "perform", watched)
    assert settle(cluster).state == "ready"
    assert calls >= 8


def test_the_next_plan_knows_how_long_it_takes(as_alice: Actor, project: Project, cluster: Cluster) -> None:
    plan = cluster_plan(actor=as_alice, project=project, template="k8s", document={})
    assert plan.usual is not None
    assert plan.usual.samples == 1
    assert 0 < plan.usual.median <= plan.usual.p90


def test_an_order_over_a_limit_changes_nothing(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project, {GPUS: 1})
    with pytest.raises(QuotaRefused):
        order(as_alice, project)
    assert not Cluster.objects.exists()
    assert at_site(site) == []
    counters_must_match()


def test_a_name_is_once_in_a_project_until_it_is_deleted(
    as_alice: Actor, project: Project, cluster: Cluster
) -> None:
    with pytest.raises(Conflict):
        order(as_alice, project)
    counters_must_match()
    settle(cluster_delete(actor=as_alice, cluster=cluster))
    assert order(as_alice, project).name == cluster.name


def test_scaling_up_and_down(as_alice: Actor, site: Site, cluster: Cluster) -> None:
    cluster = cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 3, "small": 1})
    assert held(cluster)[GPUS] == 6, "what grows is reserved at once"
    assert charged(cluster)["gpu_held"] == 2, "and charged when it is there"
    cluster = settle(cluster)
    assert {pool: len(found) for pool, found in workers(cluster).items()} == {"": 1, "gpu": 3, "small": 1}
    assert (
        sum(cluster.holdings.filter(meter="gpu_held", ended_at=None).values_list("quantity", flat=True)) == 7
    )

    cluster = cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 1, "small": 0})
    assert held(cluster)[GPUS] == 6, "what shrinks is held until it is gone"
    cluster = settle(cluster)
    assert held(cluster)[GPUS] == 2
    assert charged(cluster)["gpu_held"] == 2
    assert set(at_site(site)) == in_ledger(cluster), "what went is proved gone, what stays is not"
    assert cluster.ledger.exclude(gone_at=None).exists()
    counters_must_match()


@pytest.mark.parametrize(
    ("counts", "field"),
    [({"gpu": 0}, "pools.gpu"), ({"gpu": 9}, "pools.gpu"), ({"no": 1}, "pools"), ({"gpu": 1}, "pools")],
)
def test_a_wrong_scaling_is_refused_beside_the_pool(
    as_alice: Actor, counts: dict[str, int], field: str, cluster: Cluster
) -> None:
    with pytest.raises(Invalid) as caught:
        cluster_scale(actor=as_alice, cluster=cluster, counts=counts)
    assert list(caught.value.fields) == [field]
    assert settle(cluster).state == "ready"


def test_one_pool_is_upgraded_first_then_the_rest(
    as_alice: Actor, project: Project, template: ClusterTemplate
) -> None:
    cluster = ready(as_alice, project, gpus=2, small=1)
    cluster = settle(cluster_upgrade(actor=as_alice, cluster=cluster, release="1.36.3", first_pool="gpu"))
    assert workers(cluster) == {"": ["1.36.3"], "gpu": ["1.36.3", "1.36.3"], "small": ["1.35.6"]}
    assert cluster.state == "ready"
    cluster = settle(cluster_upgrade(actor=as_alice, cluster=cluster, release="1.36.3"))
    assert workers(cluster)["small"] == ["1.36.3"]
    with pytest.raises(Invalid, match="already"):
        cluster_upgrade(actor=as_alice, cluster=cluster, release="1.36.3")
    with pytest.raises(Invalid, match="older"):
        cluster_upgrade(actor=as_alice, cluster=cluster, release="1.35.6")
    assert cluster_get_for(actor=as_alice, cluster_id=cluster.pk).confirmed_release == "1.36.3"


def test_releases_are_not_skipped(as_alice: Actor, project: Project, template: ClusterTemplate) -> None:
    limits_give(project)
    cluster = settle(order(as_alice, project, release="1.34.9"))
    with pytest.raises(Invalid, match="at a time"):
        cluster_upgrade(actor=as_alice, cluster=cluster, release="1.36.3")
    with pytest.raises(Invalid, match="choose one of"):
        cluster_upgrade(actor=as_alice, cluster=cluster, release="1.35.7")


def test_asleep_only_the_control_plane_is_held(as_alice: Actor, of_two: Cluster) -> None:
    cluster = settle(cluster_suspend(actor=as_alice, cluster=of_two))
    assert cluster.state == "suspended"
    assert workers(cluster) == {"": ["1.35.6"]}
    assert held(cluster) == {"vcpu": 4, "memory": 8, "storage": 40}
    assert charged(cluster) == {"memory_held": 8, "storage_held": 40, "vcpu_held": 4}
    assert run_now(cluster).state == "suspended", "a look at one that sleeps wakes nobody"

    cluster = cluster_resume(actor=as_alice, cluster=cluster)
    assert held(cluster)[GPUS] == 4
    cluster = settle(cluster)
    assert cluster.state == "ready"
    assert len(workers(cluster)["gpu"]) == 2
    assert cluster.suspended_at is None
    counters_must_match()


def test_waking_is_refused_where_the_gpus_are_not_to_be_had(
    as_alice: Actor, project: Project, of_two: Cluster
) -> None:
    cluster = settle(cluster_suspend(actor=as_alice, cluster=of_two))
    limits_give(project, {GPUS: 3})
    with pytest.raises(QuotaRefused):
        cluster_resume(actor=as_alice, cluster=cluster)
    assert settle(cluster).state == "suspended"
    counters_must_match()


def test_deletion_ends_with_the_proof(as_alice: Actor, site: Site, of_two: Cluster) -> None:
    cluster = of_two
    foreign_object(site.pk, "volume", "left-behind", cluster_id=cluster.pk)
    cluster = cluster_delete(actor=as_alice, cluster=cluster)
    for _ in range(10):
        cluster = run_now(cluster)
    assert cluster.state == "deleting", "an object of the cluster that no step knows is still there"
    assert held(cluster)
    assert charged(cluster), "billing stops at the proof, not at the wish"
    assert ("volume", "left-behind") in in_ledger(cluster), "the sweep found what nobody had written down"

    SandboxClusterObject.objects.filter(name="left-behind").delete()
    cluster = settle(cluster)
    assert cluster.state == "deleted"
    assert (held(cluster), charged(cluster), in_ledger(cluster), at_site(site)) == ({}, {}, set(), [])
    assert cluster.ledger.filter(found=True).count() == 1
    counters_must_match()


def test_what_a_late_answer_makes_is_taken_away(as_alice: Actor, site: Site, cluster: Cluster) -> None:
    cluster = settle(cluster_delete(actor=as_alice, cluster=cluster))
    foreign_object(site.pk, "network", cluster.external_name, cluster_id=cluster.pk)
    for _ in range(3):
        cluster = run_now(cluster)
    assert cluster.state == "deleted"
    assert at_site(site) == []
    assert in_ledger(cluster) == set()


def test_deleting_what_was_never_begun(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project)
    cluster = cluster_delete(actor=as_alice, cluster=order(as_alice, project))
    assert cluster_delete(actor=as_alice, cluster=cluster).operations.filter(kind="delete").count() == 1
    assert settle(cluster).state == "deleted"
    counters_must_match()


def test_a_broken_machine_is_replaced(site: Site, of_two: Cluster) -> None:
    cluster = of_two
    machine_break(site.pk, f"{cluster.external_name}-gpu-1", "its kernel has panicked")
    cluster = run_now(run_now(cluster))
    assert cluster.state == "ready"
    assert cluster.conditions["Healthy"]["status"] == "True"
    assert all(node["ready"] for node in cluster.observed["nodes"])
    assert set(at_site(site)) == in_ledger(cluster)


def test_access_is_personal_written_down_and_ends(as_alice: Actor, cluster: Cluster) -> None:
    access = cluster_credential(actor=as_alice, cluster=cluster, lifetime=timedelta(hours=1))
    token = yaml.safe_load(access.document)["users"][0]["user"]["token"]
    ref = ClusterRef(cluster.pk, cluster.external_name)
    assert cluster.grants.get().user.username == "alice"
    entry = AuditEntry.objects.get(action="cluster.credential")
    assert token not in str(entry.after)
    with pytest.raises(Invalid):
        cluster_credential(actor=as_alice, cluster=cluster, lifetime=timedelta(days=2))
    assert token_subject(ref, token).startswith("u-")
    settle(cluster_delete(actor=as_alice, cluster=cluster))
    with pytest.raises(Unauthorized):
        token_subject(ref, token)
    with pytest.raises(Conflict):
        cluster_credential(actor=as_alice, cluster=Cluster.objects.get(pk=ref.id))


def test_at_the_end_of_the_lease_it_sleeps_and_then_goes(cluster: Cluster) -> None:
    end = cluster.lease_ends_at
    assert leases_enforce(now=end - timedelta(days=2)) == 1
    assert Cluster.objects.get().conditions["LeaseEnding"]["reason"] == "LeaseEndsSoon"
    assert leases_enforce(now=end - timedelta(days=2)) == 0, "told once"
    with time_machine.travel(end + timedelta(minutes=1), tick=False) as clock:
        leases_enforce(now=now())
        cluster = settle(cluster)
        assert cluster.state == "suspended"
        clock.shift(timedelta(days=7))
        leases_enforce(now=now())
        assert settle(cluster).state == "deleted"


def test_a_lease_is_extended(as_alice: Actor, cluster: Cluster) -> None:
    until = now() + timedelta(days=60)
    cluster = cluster_extend(actor=as_alice, cluster=cluster, lease_ends_at=until)
    assert cluster.lease_ends_at == until
    with pytest.raises(Invalid):
        cluster_extend(actor=as_alice, cluster=cluster, lease_ends_at=until)
    with pytest.raises(StaleVersion):
        cluster_delete(actor=as_alice, cluster=cluster, expected_version=cluster.version - 1)


def test_an_outsider_finds_nothing(as_charlie: Actor, cluster: Cluster) -> None:
    assert not clusters_for(actor=as_charlie).exists()
    for attempt in (
        lambda: cluster_get_for(actor=as_charlie, cluster_id=cluster.pk),
        lambda: cluster_scale(actor=as_charlie, cluster=cluster, counts={"gpu": 2}),
        lambda: cluster_upgrade(actor=as_charlie, cluster=cluster, release="1.36.3"),
        lambda: cluster_suspend(actor=as_charlie, cluster=cluster),
        lambda: cluster_delete(actor=as_charlie, cluster=cluster),
        lambda: cluster_credential(actor=as_charlie, cluster=cluster),
    ):
        with pytest.raises(NotFound):
            attempt()
