"""A cluster at one site with a pool at another: ordered, scaled, looked at while one of them is away, and gone from both."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from billing.clusters import cluster_wanted_quote
from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.clusters.services import (
    cluster_delete,
    cluster_plan,
    cluster_resume,
    cluster_retry,
    cluster_scale,
    cluster_suspend,
    cluster_upgrade,
    template_create,
    template_version_add,
)
from gpuaas.clusters.services.rows import driver_of
from gpuaas.clusters.spec import parts_of
from gpuaas.core.clock import now
from gpuaas.core.errors import Invalid, NoCapacity, Permanent
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.providers.base import Change, Join
from gpuaas.providers.sandbox.clusters.objects import foreign_object, machine_break
from gpuaas.providers.sandbox.dials import dials_set, failure_plan
from gpuaas.providers.sandbox.models import SandboxClusterToken
from quotas.models import Limit, Reservation, SiteCapacity
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.clusters.burst_stage import (
    BURST,
    GPUS,
    by_site,
    in_ledger_at,
    order_both,
    ready_both,
    used_at,
)
from tests.clusters.stage import at_site, run_now, settle, workers
from tests.factories.quotas import counters_must_match, limits_give

pytestmark = pytest.mark.django_db


def test_it_is_ordered_at_both_sites_and_each_holds_its_own(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site
) -> None:
    cluster = ready_both(as_alice, project, near=1, far=2)
    assert workers(cluster) == {"": ["1.35.6"], "gpu": ["1.35.6"], "far": ["1.35.6"] * 2}
    assert {kind for kind, _ in at_site(cloud)} == {"network", "security-group", "placement-group", "machine"}
    assert in_ledger_at(cluster, None) == set(at_site(site))
    assert in_ledger_at(cluster, cloud) == set(at_site(cloud))
    assert [[pool.name for pool in part.spec.elsewhere] for part in parts_of(cluster)] == [["far"], ["far"]]
    assert (used_at(site), used_at(cloud)) == (2, 4)
    assert Limit.objects.get(project=project, resource=GPUS).used == 6
    assert (by_site(cluster, None), by_site(cluster, cloud)) == (2, 4)
    assert {node["pool"] for node in cluster.observed["nodes"]} == {"", "gpu", "far"}
    counters_must_match()

    held_sync()
    measured = UsageInterval.objects.filter(cluster=cluster, meter="gpu_held")
    assert dict(measured.values_list("site__slug", "quantity")) == {"ber-1": 2, "cloud-1": 4}


def test_the_plan_says_where_each_step_is_and_reserves_nothing(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site
) -> None:
    limits_give(project)
    wanted = {"release": "1.35.6", "pools": {"gpu": {"count": 1}, "far": {"count": 9 - 1}}}
    plan = cluster_plan(actor=as_alice, project=project, template="k8s", document=wanted)
    steps = [(step.key, step.site) for step in plan.draft.plan.steps]
    assert steps[-3:] == [("network", "cloud-1"), ("pool:far", "cloud-1"), ("checks", "cloud-1")]
    assert ("network", "") in steps
    assert not plan.fits
    assert [check.scope_name for check in plan.admission.refusals if check.scope.word == "site"] == [
        "cloud-1"
    ]
    assert not Reservation.objects.exists()


def test_an_order_without_workers_elsewhere_asks_nothing_there(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, cloud: Site
) -> None:
    dials_set(cloud.pk, down=True)
    cluster = ready_both(as_alice, project, far=0)
    assert not cluster.ledger.exclude(site=None).exists()
    cluster = settle(cluster_delete(actor=as_alice, cluster=cluster))
    assert cluster.state == "deleted"


def test_no_capacity_there_refuses_the_whole_order_without_residue(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site
) -> None:
    limits_give(project, {GPUS: None})
    SiteCapacity.objects.filter(site=cloud, resource=GPUS).update(hard=3)
    audited = AuditEntry.objects.count()
    with pytest.raises(NoCapacity, match="cloud-1"):
        order_both(as_alice, project, far=2)
    assert not Cluster.objects.exists()
    assert not Reservation.objects.exists()
    assert AuditEntry.objects.count() == audited
    assert (used_at(site), used_at(cloud)) == (0, 0)


def test_it_grows_shrinks_sleeps_wakes_and_is_upgraded_there(
    as_alice: Actor, site: Site, cloud: Site, at_home: Cluster
) -> None:
    cluster = at_home
    for far in (2, 3, 1):
        cluster = settle(cluster_scale(actor=as_alice, cluster=cluster, counts={"far": far}))
        assert cluster.state == "ready"
        assert (len(workers(cluster)["far"]), used_at(cloud), by_site(cluster, cloud)) == (
            far,
            2 * far,
            2 * far,
        )
        counters_must_match()
    cluster = settle(cluster_suspend(actor=as_alice, cluster=cluster))
    assert workers(cluster) == {"": ["1.35.6"]}
    assert (used_at(site), used_at(cloud), by_site(cluster, cloud)) == (0, 0, 0)
    cluster = settle(cluster_resume(actor=as_alice, cluster=cluster))
    assert len(workers(cluster)["far"]) == 1
    cluster = settle(cluster_upgrade(actor=as_alice, cluster=cluster, release="1.36.3"))
    assert {release for pool in workers(cluster).values() for release in pool} == {"1.36.3"}
    counters_must_match()


def test_a_burst_site_that_is_away_holds_up_its_own_pools_alone(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site
) -> None:
    limits_give(project, {GPUS: None})
    dials_set(cloud.pk, down=True)
    cluster = order_both(as_alice, project)
    for _ in range(4):
        cluster = run_now(cluster)
    assert cluster.state == "provisioning"
    assert workers(cluster) == {"": ["1.35.6"], "gpu": ["1.35.6"]}, "what is at home is there"
    assert cluster.conditions["Reachable:cloud-1"]["status"] == "False"
    assert "cloud-1" in cluster.conditions["Reachable:cloud-1"]["message"]
    assert cluster.conditions["Reachable"]["status"] == "True"
    dials_set(cloud.pk, down=False)
    cluster = settle(cluster)
    assert cluster.state == "ready"
    assert cluster.conditions["Reachable:cloud-1"]["status"] == "True"

    dials_set(cloud.pk, down=True)
    machine_break(site.pk, next(name for kind, name in at_site(site) if name.endswith("gpu-1")), "it burns")
    cluster = settle(cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 2}))
    assert cluster.state == "ready", "pools at home are changed and mended meanwhile"
    assert cluster.conditions["Reachable:cloud-1"]["status"] == "False"
    assert {node["pool"] for node in cluster.observed["nodes"]} == {"", "gpu", "far"}, "as last seen"
    machines = [node["ready"] for node in run_now(cluster).observed["nodes"]]
    assert len(machines) == 4
    assert all(machines)


def test_its_own_site_away_holds_up_everything_and_what_was_seen_stays(
    as_alice: Actor, site: Site, cloud: Site, at_both: Cluster
) -> None:
    cluster = at_both
    before = {key: value for key, value in cluster.observed.items() if key != "at"}
    dials_set(site.pk, down=True)
    cluster = run_now(cluster)
    assert {key: value for key, value in cluster.observed.items() if key != "at"} == before
    assert cluster.conditions["Reachable"]["status"] == "False"
    assert cluster.conditions["Reachable:cloud-1"]["status"] == "True"
    cluster = run_now(cluster_scale(actor=as_alice, cluster=cluster, counts={"far": 2}))
    assert cluster.state == "scaling"
    assert len(workers(cluster)["far"]) == 1, "nobody joins a control plane that does not answer"
    dials_set(site.pk, down=False)
    assert len(workers(settle(cluster))["far"]) == 2


def test_a_worker_that_breaks_there_is_made_anew(cloud: Site, at_both: Cluster) -> None:
    cluster = at_both
    machine_break(cloud.pk, next(name for kind, name in at_site(cloud) if kind == "machine"), "it burns")
    cluster = run_now(cluster)
    cluster = run_now(cluster)
    assert cluster.conditions["Healthy"]["status"] == "True"
    assert len(workers(cluster)["far"]) == 1


def test_what_fails_there_names_its_step_and_is_retried(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, cloud: Site
) -> None:
    limits_give(project, {GPUS: None})
    failure_plan(cloud.pk, verb="cluster:create:pool:far", error="permanent", times=3)
    cluster = settle(order_both(as_alice, project))
    assert cluster.state == "failed"
    assert cluster.trouble["evidence"][0].startswith("cloud-1 ")
    cluster = settle(cluster_retry(actor=as_alice, cluster=cluster))
    assert cluster.state == "ready"


@pytest.mark.parametrize("away", ["ber-1", "cloud-1"])
def test_a_deletion_goes_on_where_it_can_and_charging_ends_site_by_site(
    as_alice: Actor, site: Site, cloud: Site, away: str, at_both: Cluster
) -> None:
    cluster = at_both
    there, gone = (site, cloud) if away == "ber-1" else (cloud, site)
    dials_set(there.pk, down=True)
    cluster_delete(actor=as_alice, cluster=cluster)
    for _ in range(5):
        cluster = run_now(cluster)
    assert cluster.state == "deleting"
    assert at_site(gone) == []
    assert (used_at(gone), used_at(there)) == (0, 2)
    sites = {site: None, cloud: cloud}
    assert (by_site(cluster, sites[gone]), by_site(cluster, sites[there])) == (0, 2)
    counters_must_match()

    dials_set(there.pk, down=False)
    cluster = settle(cluster)
    assert cluster.state == "deleted"
    assert at_site(site) == at_site(cloud) == []
    assert not cluster.ledger.filter(gone_at=None).exists()
    assert not cluster.holdings.filter(ended_at=None).exists()
    assert (used_at(site), used_at(cloud)) == (0, 0)
    counters_must_match()


def test_what_a_late_answer_left_there_is_found_and_taken_away(
    as_alice: Actor, cloud: Site, at_both: Cluster
) -> None:
    cluster = at_both
    settle(cluster_delete(actor=as_alice, cluster=cluster))
    foreign_object(cloud.pk, "network", cluster.external_name, cluster_id=cluster.pk)
    for _ in range(3):
        run_now(cluster)
    assert at_site(cloud) == []


def test_the_token_is_for_workers_for_minutes_and_nobody_keeps_it(cloud: Site, at_both: Cluster) -> None:
    cluster = at_both
    assert [part.spec.join for part in parts_of(cluster)] == [None, None]
    tokens = list(SandboxClusterToken.objects.all())
    assert {row.subject for row in tokens} == {"system:bootstrap:workers"}
    assert all(row.expires_at < now() + timedelta(minutes=11) for row in tokens)
    far = parts_of(cluster)[1].spec
    driver = driver_of(cluster, cloud)
    wrong = Join("https://else.example:6443", "s3cret-token", "s3cret-ca")
    for join in (None, wrong, replace(wrong, endpoint=cluster.observed["endpoint"])):
        with pytest.raises(Permanent):
            driver.perform(Change.CREATE, replace(far, join=join), "pool:far")
    assert "s3cret" not in repr(replace(far, join=wrong))


def test_each_pool_has_the_price_of_its_flavor(
    as_alice: Actor, project: Project, bursting: ClusterTemplate
) -> None:
    quote = cluster_wanted_quote(cluster=ready_both(as_alice, project, far=2))
    lines = {(line.label, line.quantity) for line in quote.lines}
    assert {("2 × H100 SXM", 2), ("2 × H100 in the cloud", 4)} <= lines


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"burst": ["nowhere"]}, "no site"),
    ({"burst": ["ber-1"]}, "own site"),
    ({"burst": "cloud-1"}, "list"),
    ({"burst": ["cloud-1", "cloud-1"]}, "once"),
    ({"burst": [7]}, "slugs"),
    ({"burst": []}, "far.2"),
]


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_a_template_names_the_sites_that_its_pools_may_come_from(
    as_olga: Actor, bursting: ClusterTemplate, words: dict[str, Any], said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        template_version_add(actor=as_olga, template=bursting, document={**BURST, **words})


def test_a_driver_that_cannot_is_refused_with_a_sentence(as_olga: Actor, site: Site, cloud: Site) -> None:
    template = template_create(
        actor=as_olga, slug="capi", name="x", kind="kubernetes", site=site, driver="cluster-api"
    )
    with pytest.raises(Invalid, match="cannot have pools at other sites"):
        template_version_add(actor=as_olga, template=template, document={**BURST, "settings": {}})


@pytest.mark.parametrize("kind", ["kubernetes", "slurm"])
def test_both_kinds_on_openstack_may_have_pools_at_other_clouds(
    as_olga: Actor, bursting: ClusterTemplate, kind: str
) -> None:
    Site.objects.update(driver="openstack")
    site = Site.objects.get(slug="ber-1")
    template = template_create(
        actor=as_olga, slug="hybrid", name="x", kind=kind, site=site, driver="openstack"
    )
    releases = {"slurm": ["25.05.3"]}.get(kind, BURST["releases"])
    head = {**BURST["control_plane"], "counts": [1]}
    document = {**BURST, "releases": releases, "control_plane": head, "settings": {"image": "ubuntu-24.04"}}
    assert template_version_add(actor=as_olga, template=template, document=document).number == 1
