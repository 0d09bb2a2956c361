"""Clusters that wait in a warm pool: kept at their number, claimed whole, and nobody's in between."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from gpuaas.catalog.models import Site
from gpuaas.clusters.lease import leases_enforce
from gpuaas.clusters.models import Cluster, ClusterTemplate, WarmPool
from gpuaas.clusters.reconcile.warm import warm_keep
from gpuaas.clusters.selectors import cluster_get_for, clusters_for
from gpuaas.clusters.services import (
    cluster_credential,
    cluster_delete,
    cluster_plan,
    cluster_scale,
    template_update,
    template_version_add,
    warm_pool_end,
    warm_pool_update,
)
from gpuaas.clusters.states import ClusterState
from gpuaas.clusters.waiting import warm_pools
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, Invalid, NotFound, QuotaRefused, StaleVersion
from quotas.holds import HoldScope, hold_set
from quotas.models import Limit, SiteCapacity
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.clusters.stage import document, order, run_now, settle, workers
from tests.clusters.warm_stage import CHOICE, H100, kept, owners, pool_of, waiting
from tests.factories.quotas import counters_must_match, limits_give
from tests.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def pool(template: ClusterTemplate, as_olga: Actor, other_project: Project) -> WarmPool:
    """Of one cluster, which waits."""
    made = pool_of(as_olga, template, other_project)
    kept(made)
    return made


def used(project: Project) -> int:
    return Limit.objects.get(project=project, resource=H100).used


def at_the_site(site: Site) -> int:
    return SiteCapacity.objects.get(site=site, resource=H100).used


# -- keeping ----------------------------------------------------------------------------------------------------------


def test_so_many_are_made_at_once_until_enough_wait(
    as_olga: Actor, template: ClusterTemplate, other_project: Project, site: Site
) -> None:
    pool = pool_of(as_olga, template, other_project, wanted=3, making_most=2)
    warm_keep(pool.pk)
    warm_keep(pool.pk)
    assert [row.state for row in waiting(pool)] == ["requested"] * 2
    found = kept(pool)
    assert [row.state for row in found] == ["ready"] * 3
    assert {row.project for row in found} == {other_project}
    assert used(other_project) == at_the_site(site) == 6
    pool.refresh_from_db()
    assert (pool.trouble, pool.claim_token) == ("", None)
    warm_pool_update(actor=as_olga, pool=pool, wanted=1)
    assert kept(pool) == found[:1]
    warm_pool_end(actor=as_olga, pool=WarmPool.objects.get())
    assert kept(pool) == []
    assert used(other_project) == 0
    assert WarmPool.objects.get().due_at is None
    counters_must_match()


def test_a_refusal_is_said_and_tried_again(
    as_olga: Actor, template: ClusterTemplate, other_project: Project
) -> None:
    pool = pool_of(as_olga, template, other_project, wanted=2)
    limits_give(other_project, {H100: 2})
    assert len(kept(pool)) == 1
    pool.refresh_from_db()
    assert "Requested: 2." in pool.trouble
    assert pool.attempts > 0
    limits_give(other_project, {H100: 4})
    assert len(kept(pool)) == 2
    pool.refresh_from_db()
    assert (pool.trouble, pool.attempts) == ("", 0)


def test_those_of_an_old_version_go_when_a_newer_one_is_ready(
    as_olga: Actor, template: ClusterTemplate, pool: WarmPool
) -> None:
    (old,) = waiting(pool)
    template_version_add(actor=as_olga, template=template, document=document())
    warm_keep(pool.pk)
    warm_keep(pool.pk)
    assert [row.template_version.number for row in waiting(pool)] == [1, 2]
    (new,) = kept(pool)
    assert new.template_version.number == 2
    old.refresh_from_db()
    assert old.state == "deleted"


def test_without_room_for_both_the_old_one_goes_first(
    as_olga: Actor, template: ClusterTemplate, other_project: Project, pool: WarmPool
) -> None:
    limits_give(other_project, {H100: 2})
    template_version_add(actor=as_olga, template=template, document=document())
    (new,) = kept(pool)
    assert new.template_version.number == 2


def test_a_version_that_takes_no_such_order_leaves_what_waits(
    as_olga: Actor, template: ClusterTemplate, pool: WarmPool
) -> None:
    found = waiting(pool)
    template_version_add(actor=as_olga, template=template, document=document(releases=["1.36.3"]))
    assert kept(pool) == found
    pool.refresh_from_db()
    assert "1.36.3" in pool.trouble
    template_update(actor=as_olga, template=template, state="retired")
    assert kept(pool) == []


def test_leases_pass_what_waits(pool: WarmPool) -> None:
    (row,) = waiting(pool)
    with time_machine.travel(row.lease_ends_at + timedelta(days=90)):
        assert leases_enforce(now=now()) == 0


# -- claiming ---------------------------------------------------------------------------------------------------------


def test_an_order_that_equals_it_is_served_by_it(
    as_alice: Actor,
    template: ClusterTemplate,
    project: Project,
    other_project: Project,
    site: Site,
    pool: WarmPool,
) -> None:
    (warm,) = waiting(pool)
    machines, name = workers(warm), warm.external_name
    assert owners(warm) == {("protein-fold", "biology")}
    limits_give(project, {H100: 2})
    SiteCapacity.objects.filter(site=site, resource=H100).update(hard=2)
    plan = cluster_plan(actor=as_alice, project=project, template="k8s", document=CHOICE)
    assert (plan.waiting, plan.fits, plan.usual) == (1, True, None), "nothing was ever claimed"
    until = now() + timedelta(days=3)

    made = order(as_alice, project, name="train")

    assert (made.pk, made.project, made.name, made.state) == (warm.pk, project, "train", "provisioning")
    assert (made.created_by.username, made.external_name) == ("alice", name)
    assert made.lease_ends_at > until
    assert (used(project), used(other_project), at_the_site(site)) == (2, 0, 2)
    counters_must_match()
    made = settle(made)
    assert made.state == "ready"
    assert workers(made) == machines, "the same machines"
    assert owners(made) == {("weather-lm", "climate")}


def test_a_claim_is_written_down_on_both_sides_and_the_giver_loses_sight(
    as_alice: Actor, as_charlie: Actor, project: Project, other_project: Project, pool: WarmPool
) -> None:
    limits_give(project)
    made = settle(order(as_alice, project))
    last = made.transitions.order_by("pk").values_list("old", "new", "reason")
    assert list(last)[-2:] == [
        ("ready", "provisioning", "claimed from a warm pool"),
        ("provisioning", "ready", ""),
    ]
    operation = made.operations.first()
    assert operation is not None
    assert (operation.kind, operation.succeeded, operation.requested_by) == ("claim", True, "alice")
    entry = AuditEntry.objects.get(action="cluster.claim")
    assert (entry.actor, entry.project_id, entry.target_id) == ("alice", project.pk, str(made.pk))
    told = AuditEntry.objects.get(action="warm_pool.claimed")
    assert (told.actor, told.project_id) == ("portal", other_project.pk)
    with pytest.raises(NotFound):
        cluster_get_for(actor=as_charlie, cluster_id=made.pk)
    assert not clusters_for(actor=as_charlie).exists()


def test_the_plan_says_how_long_claims_take(as_alice: Actor, project: Project, pool: WarmPool) -> None:
    limits_give(project, {H100: None})
    settle(order(as_alice, project))
    usual = cluster_plan(actor=as_alice, project=project, template="k8s", document=CHOICE).usual
    assert usual is not None, "of creations"
    assert len(kept(pool)) == 1, "the next one is made"
    plan = cluster_plan(actor=as_alice, project=project, template="k8s", document=CHOICE)
    assert plan.usual is not None
    assert plan.usual.samples == 1, "of claims"


@pytest.mark.parametrize(
    "choice",
    [
        {"release": "1.36.3"},
        {"gpus": 2},
        {"small": 1},
        {"control_plane": 3},
        {"addons": {"monitoring": False}},
        {"parameters": {"pod_network": "calico"}},
        {"parameters": {"boot_seconds": 30}},
    ],
    ids=str,
)
def test_another_choice_is_built(
    as_alice: Actor, project: Project, choice: dict[str, Any], pool: WarmPool
) -> None:
    (warm,) = waiting(pool)
    limits_give(project)
    made = order(as_alice, project, **choice)
    assert (made.state, made.warm_pool) == ("requested", None)
    assert waiting(pool) == [warm]


def test_whatever_is_not_sound_is_never_handed_out(
    as_olga: Actor, as_alice: Actor, project: Project, pool: WarmPool
) -> None:
    (warm,) = waiting(pool)
    limits_give(project, {H100: None})
    SiteCapacity.objects.update(hard=None)
    sound = {name: getattr(warm, name) for name in ("state", "conditions", "release")}
    ill = {kind: {**held, "status": "False"} for kind, held in warm.conditions.items()}
    changes: list[dict[str, Any]] = [
        *({"state": state} for state in ClusterState if state != "ready"),
        {"conditions": {**warm.conditions, "Healthy": ill["Healthy"]}},
        {"conditions": {**warm.conditions, "Reachable": ill["Reachable"]}},
        {"conditions": {**warm.conditions, "Reachable:far-1": ill["Reachable"]}},
        {"conditions": {}},
        {"release": "1.34.9"},
    ]
    for number, change in enumerate(changes):
        Cluster.objects.filter(pk=warm.pk).update(**{**sound, **change})
        made = order(as_alice, project, name=f"n-{number}")
        assert made.pk != warm.pk, change
        shown = vars(warm_pools(actor=as_olga).get())
        assert shown["ready"] == int("release" in change), change
    Cluster.objects.filter(pk=warm.pk).update(**sound)
    warm.pools.filter(name="gpu").update(release="1.34.9")
    assert order(as_alice, project, name="behind").pk != warm.pk


def test_a_claim_is_refused_as_an_order_is_and_leaves_it_waiting(
    as_alice: Actor, project: Project, other_project: Project, pool: WarmPool
) -> None:
    (warm,) = waiting(pool)
    before = AuditEntry.objects.count()
    limits_give(project, {H100: 1})
    with pytest.raises(QuotaRefused, match="Project weather-lm"):
        order(as_alice, project)
    limits_give(project, {H100: 2})
    hold_set(source="test", scope=HoldScope(project.organization_id), reason="The budget autumn is spent.")
    with pytest.raises(Conflict, match="autumn"):
        order(as_alice, project)
    assert waiting(pool) == [warm]
    assert (used(project), used(other_project)) == (0, 2)
    assert AuditEntry.objects.count() == before
    assert not warm.operations.filter(kind="claim").exists()
    assert {row.project_id for row in warm.holdings.filter(ended_at=None)} == {other_project.pk}
    counters_must_match()


def test_a_taken_name_is_refused_and_leaves_it_waiting(
    as_alice: Actor, project: Project, pool: WarmPool
) -> None:
    limits_give(project, {H100: None})
    order(as_alice, project, gpus=2)
    found = waiting(pool)
    with pytest.raises(Conflict, match="already has a cluster called train"):
        order(as_alice, project)
    assert waiting(pool) == found


def test_nobody_touches_what_waits(as_olga: Actor, as_charlie: Actor, pool: WarmPool) -> None:
    (warm,) = waiting(pool)
    assert list(clusters_for(actor=as_charlie)) == [warm]
    for actor in (as_charlie, as_olga):
        with pytest.raises(Conflict, match="is in a warm pool"):
            cluster_delete(actor=actor, cluster=warm)
        with pytest.raises(Conflict, match="is in a warm pool"):
            cluster_scale(actor=actor, cluster=warm, counts={"gpu": 2})
        with pytest.raises(Conflict, match="is in a warm pool"):
            cluster_credential(actor=actor, cluster=warm)


def test_what_was_read_before_the_claim_changes_nothing_after_it(
    as_olga: Actor, as_alice: Actor, as_charlie: Actor, project: Project, pool: WarmPool
) -> None:
    (stale,) = waiting(pool)
    limits_give(project)
    made = settle(order(as_alice, project))
    with pytest.raises(Conflict, match="is in a warm pool"):
        cluster_delete(actor=as_charlie, cluster=stale)
    warm_pool_end(actor=as_olga, pool=pool)
    kept(pool)
    assert run_now(made).state == "ready", "what was claimed is the tenant's"


# -- who may say ------------------------------------------------------------------------------------------------------


def test_only_operators_say_what_is_kept(
    as_olga: Actor, as_alice: Actor, template: ClusterTemplate, other_project: Project
) -> None:
    with pytest.raises(NotFound):
        pool_of(as_alice, template, other_project)
    pool = pool_of(as_olga, template, other_project)
    with pytest.raises(NotFound):
        warm_pool_update(actor=as_alice, pool=pool, wanted=2)
    with pytest.raises(NotFound):
        warm_pool_end(actor=as_alice, pool=pool)
    with pytest.raises(StaleVersion):
        warm_pool_update(actor=as_olga, pool=pool, wanted=2, expected_version=9)
    with pytest.raises(Conflict, match="already has a warm pool called small"):
        pool_of(as_olga, template, other_project)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"wanted": -1}, "wanted"),
        ({"wanted": True}, "wanted"),
        ({"wanted": 101}, "wanted"),
        ({"making_most": 0}, "making_most"),
        ({"name": "Big"}, "name"),
        ({"document": {"release": "0.1"}}, "release"),
        ({"document": {"pools": {"gpu": {"count": 99}}}}, "pools.gpu.count"),
        ({"document": []}, ""),
    ],
    ids=str,
)
def test_wrong_words_are_refused_beside_their_field(
    as_olga: Actor,
    template: ClusterTemplate,
    other_project: Project,
    changes: dict[str, Any],
    field: str,
) -> None:
    with pytest.raises(Invalid) as refused:
        pool_of(as_olga, template, other_project, **changes)
    assert field in str(refused.value.detail)
    assert not WarmPool.objects.exists()
