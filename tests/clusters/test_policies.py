"""A policy at work: what it sees, what it asks for, what is reserved, and what is written down."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any, ClassVar

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, PoolSample, ScalingDecision, ScalingPolicy
from gpuaas.clusters.policies import registry
from gpuaas.clusters.policies.facts import Pool, Recommendation, Signals
from gpuaas.clusters.policies.kinds import PendingPods
from gpuaas.clusters.reconcile import growth
from gpuaas.clusters.reconcile.policies import KEPT, policy_run, samples_prune
from gpuaas.clusters.selectors import clusters_loaded
from gpuaas.clusters.services import (
    cluster_delete,
    cluster_scale,
    cluster_suspend,
    policy_delete,
    policy_switch,
    policy_update,
)
from gpuaas.core import claims
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, Invalid, NotFound, StaleVersion
from gpuaas.providers.sandbox.clusters.driver import SandboxClusterDriver
from gpuaas.providers.sandbox.dials import dials_set, failure_plan
from quotas.holds import HoldScope, hold_set
from quotas.selectors import reservations_held
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.clusters.policy_stage import demand, free, quick, round_now, scaled_by
from tests.clusters.stage import settle, workers
from tests.factories.quotas import counters_must_match, limits_give

pytestmark = pytest.mark.django_db
GPUS = "gpu:h100-sxm-80gb"


def count_of(cluster: Cluster) -> int:
    return clusters_loaded().get(pk=cluster.pk).pools.get(name="gpu").count


def log_of(cluster: Cluster) -> list[tuple[str, int, int]]:
    rows = ScalingDecision.objects.filter(cluster=cluster).order_by("pk")
    return list(rows.values_list("outcome", "before", "after"))


def test_demand_is_followed_up_and_down(as_alice: Actor, cluster: Cluster, site: Site) -> None:
    policy = scaled_by(as_alice, cluster)
    demand(site, cluster, 7)
    round_now(policy)
    held = reservations_held(holder_kind="cluster", holder_id=cluster.pk)
    assert held[GPUS] == 8, "reserved in the moment of the decision, four workers of two"
    round_now(policy)
    assert count_of(cluster) == 4, "nothing is decided while it scales"
    assert len(workers(settle(cluster))["gpu"]) == 4
    demand(site, cluster, 0)
    round_now(policy)
    settle(cluster)
    assert log_of(cluster) == [("scaled", 1, 4), ("scaled", 4, 1)]
    assert PoolSample.objects.filter(pool=policy.pool).count() >= 1
    first = ScalingDecision.objects.earliest("pk")
    assert first.signals == {"used_gpus": 2, "pending_gpus": 5, "queued": 5}
    assert AuditEntry.objects.filter(action="cluster.scale", actor="portal").count() == 2
    counters_must_match()


def test_what_only_watches_records_and_changes_nothing(as_alice: Actor, cluster: Cluster, site: Site) -> None:
    policy = scaled_by(as_alice, cluster, enabled=False)
    demand(site, cluster, 9)
    round_now(policy)
    sample = PoolSample.objects.get()
    assert (sample.count, sample.used_gpus, sample.pending_gpus, sample.room) == (1, 2, 7, 6)
    assert (count_of(cluster), log_of(cluster)) == (1, [])


def test_a_limit_lets_it_grow_as_far_as_there_is_room_and_says_so_once(
    as_alice: Actor, cluster: Cluster, project: Project, site: Site
) -> None:
    limits_give(project, {GPUS: 7})
    policy = scaled_by(as_alice, cluster)
    demand(site, cluster, 12)
    round_now(policy)
    settle(cluster)
    for _ in range(3):
        round_now(policy)
    assert log_of(cluster) == [("scaled", 1, 3), ("refused", 3, 3)]
    refused = ScalingDecision.objects.latest("pk").refused
    assert "limit" in refused
    assert "weather-lm" in refused
    counters_must_match()


def test_a_hold_refuses_growth_and_lets_it_shrink(
    as_alice: Actor, cluster: Cluster, project: Project, site: Site
) -> None:
    policy = scaled_by(as_alice, cluster)
    demand(site, cluster, 4)
    round_now(policy)
    settle(cluster)
    hold_set(source="test", scope=HoldScope(project.organization_id), reason="the budget is spent")
    demand(site, cluster, 12)
    round_now(policy)
    assert ScalingDecision.objects.latest("pk").refused == "the budget is spent"
    demand(site, cluster, 0)
    round_now(policy)
    assert log_of(cluster) == [("scaled", 1, 2), ("refused", 2, 2), ("scaled", 2, 1)]


def test_a_growth_that_the_site_gives_up_on_is_taken_back_and_tried_again_later(
    as_alice: Actor, cluster: Cluster, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = scaled_by(as_alice, cluster)
    demand(site, cluster, 6)
    failure_plan(site.pk, verb="cluster:scale:pool:gpu", error="permanent", times=3)
    round_now(policy)
    failed = settle(cluster)
    assert failed.state == "failed"
    round_now(policy)
    row = settle(cluster)
    assert (row.state, count_of(cluster)) == ("ready", 1)
    assert reservations_held(holder_kind="cluster", holder_id=cluster.pk)[GPUS] == 2
    round_now(policy)
    assert log_of(cluster) == [("scaled", 1, 3), ("refused", 3, 1), ("refused", 1, 1)]
    given_up, waits = ScalingDecision.objects.filter(cluster=cluster, outcome="refused").order_by("pk")
    assert given_up.refused == failed.trouble["cause"]
    assert "asked again at" in waits.refused
    monkeypatch.setattr(growth, "AGAIN_AFTER", timedelta())
    round_now(policy)
    row = settle(cluster)
    assert (row.state, count_of(cluster)) == ("ready", 3)
    counters_must_match()


@pytest.mark.parametrize("somebody", [True, False], ids=["a person's", "switched off"])
def test_what_a_policy_did_not_ask_for_stays_failed(
    as_alice: Actor, cluster: Cluster, site: Site, somebody: bool
) -> None:
    policy = scaled_by(as_alice, cluster)
    failure_plan(site.pk, verb="cluster:scale:pool:gpu", error="permanent", times=3)
    if somebody:
        cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 3})
    else:
        demand(site, cluster, 6)
        round_now(policy)
        policy_switch(actor=as_alice, policy=policy, enabled=False)
    assert settle(cluster).state == "failed"
    round_now(policy)
    assert (settle(cluster).state, count_of(cluster)) == ("failed", 3)


def test_an_outage_decides_nothing_and_is_tried_again(as_alice: Actor, cluster: Cluster, site: Site) -> None:
    policy = scaled_by(as_alice, cluster)
    demand(site, cluster, 6)
    dials_set(site.pk, down=True)
    row = round_now(policy)
    assert row.due_at is not None
    assert row.due_at > now()
    assert (row.claim_token, count_of(cluster)) == (None, 1)
    dials_set(site.pk, down=False)
    failure_plan(site.pk, verb="cluster:signals", error="lost")
    round_now(policy)
    assert count_of(cluster) == 1
    round_now(policy)
    assert count_of(cluster) == 3


def test_what_somebody_else_works_on_is_left_alone(as_alice: Actor, cluster: Cluster, site: Site) -> None:
    policy = scaled_by(as_alice, cluster)
    demand(site, cluster, 6)
    ScalingPolicy.objects.filter(pk=policy.pk).update(due_at=now())
    assert claims.claim(ScalingPolicy, policy.pk, now=now(), seconds=60) is not None
    policy_run(policy.pk, purse=free)
    assert (count_of(cluster), PoolSample.objects.count()) == (1, 0)
    ScalingPolicy.objects.filter(pk=policy.pk).update(claim_until=now())
    policy_run(policy.pk, purse=free)
    assert count_of(cluster) == 3, "a dead worker's claim runs out"


def test_terms_that_changed_during_a_round_are_not_overrun(
    as_alice: Actor, cluster: Cluster, site: Site
) -> None:
    """The purse is asked between the look at the site and the decision: there somebody switches the policy off."""
    policy = scaled_by(as_alice, cluster)
    demand(site, cluster, 6)

    def switched(row: ScalingPolicy, at: Any) -> Any:
        policy_switch(actor=as_alice, policy=row, enabled=False)
        return free(row, at)

    policy_run(policy.pk, purse=switched)
    row = ScalingPolicy.objects.get()
    assert (count_of(cluster), row.enabled, row.claim_token) == (1, False, None)
    assert row.due_at is not None
    assert row.due_at <= now(), "what was asked for meanwhile is not slept over"


def test_asleep_nothing_is_asked_and_deleted_it_rests(as_alice: Actor, cluster: Cluster, site: Site) -> None:
    policy = scaled_by(as_alice, cluster)
    demand(site, cluster, 6)
    settle(cluster_suspend(actor=as_alice, cluster=cluster))
    assert round_now(policy).due_at is not None
    assert PoolSample.objects.count() == 0
    settle(cluster_delete(actor=as_alice, cluster=cluster))
    assert round_now(policy).due_at is None


def test_hours_of_the_week_need_no_signals(
    as_alice: Actor, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SandboxClusterDriver, "has_signals", lambda driver, kind: False)
    with pytest.raises(Invalid, match="hours of the week"):
        scaled_by(as_alice, cluster)
    always = {"hours": ["Mon-Sun 00:00-00:00 3"], "time_zone": "Europe/Berlin"}
    round_now(scaled_by(as_alice, cluster, kind="schedule", settings=always))
    assert count_of(cluster) == 3


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "none"}, "kind"),
        ({"minimum": 0}, "minimum"),
        ({"maximum": 9}, "maximum"),
        ({"minimum": 5, "maximum": 4}, "maximum"),
        ({"step": 0}, "step"),
        ({"up_delay": -1}, "up_delay"),
        ({"cool_down": 86_401}, "cool_down"),
        ({"gpu_hours_month": 0}, "gpu_hours_month"),
        ({"settings": {"spare_workers": -1}}, "settings.spare_workers"),
        ({"settings": {"other": 1}}, "settings"),
        ({"settings": []}, "settings"),
        (
            {"kind": "schedule", "settings": {"hours": ["Mon 08:00-18:00 2"], "time_zone": "X"}},
            "settings.time_zone",
        ),
    ],
)
def test_wrong_terms_are_refused_beside_their_field(
    as_alice: Actor, cluster: Cluster, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        scaled_by(as_alice, cluster, **changes)
    assert list(caught.value.fields) == [field]
    assert not ScalingPolicy.objects.exists()


def test_policies_are_written_by_who_may_scale(
    as_alice: Actor, as_bob: Actor, as_charlie: Actor, cluster: Cluster
) -> None:
    with pytest.raises(NotFound):
        scaled_by(as_charlie, cluster)
    policy = scaled_by(as_bob, cluster)
    with pytest.raises(Conflict, match="already"):
        scaled_by(as_alice, cluster)
    with pytest.raises(Invalid, match="no pool"):
        scaled_by(as_alice, cluster, pool="none")
    for attempt in (
        lambda: policy_update(actor=as_charlie, policy=policy, terms=quick()),
        lambda: policy_switch(actor=as_charlie, policy=policy, enabled=False),
        lambda: policy_delete(actor=as_charlie, policy=policy),
    ):
        with pytest.raises(NotFound):
            attempt()
    changed = policy_update(actor=as_alice, policy=policy, terms=quick(maximum=3), expected_version=1)
    assert (changed.version, changed.maximum) == (2, 3)
    with pytest.raises(StaleVersion):
        policy_switch(actor=as_alice, policy=policy, enabled=False, expected_version=1)
    policy_delete(actor=as_alice, policy=policy)
    told = AuditEntry.objects.filter(action__startswith="cluster_policy.")
    assert sorted(told.values_list("action", flat=True)) == [
        "cluster_policy.create",
        "cluster_policy.delete",
        "cluster_policy.update",
    ]


def test_samples_are_kept_for_a_time(as_alice: Actor, cluster: Cluster) -> None:
    policy = scaled_by(as_alice, cluster, enabled=False)
    round_now(policy)
    assert samples_prune(now=now()) == 0
    assert samples_prune(now=now() + KEPT + timedelta(minutes=1)) == 1


# -- policies of others -----------------------------------------------------------------------------------------------


class Doubling(PendingPods):
    """What an operator may write."""

    label: ClassVar[str] = "Twice what waits"

    def decide(self, signals: Signals, pool: Pool, now: Any, memory: Mapping[str, Any]) -> Recommendation:
        return Recommendation(
            2 * super().decide(signals, pool, now, memory).count, "twice", {"asked": signals.demand_gpus}
        )


class Raising(PendingPods):
    def decide(self, signals: Signals, pool: Pool, now: Any, memory: Mapping[str, Any]) -> Recommendation:
        raise ZeroDivisionError("no worker left to divide by")


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    here = f"{__name__}:"
    found = EntryPoints(
        EntryPoint(name, value, registry.GROUP)
        for name, value in {
            "doubling": f"{here}Doubling",
            "raising": f"{here}Raising",
            "missing": "no.such.module:Policy",
            "shapeless": "builtins:object",
            "pending": f"{here}Raising",
        }.items()
    )
    monkeypatch.setattr(registry, "entry_points", lambda group: found.select(group=group))
    registry.kinds.cache_clear()
    yield
    monkeypatch.undo()
    registry.kinds.cache_clear()


@pytest.mark.usefixtures("plugged")
def test_a_policy_of_an_operators_own_is_used_and_broken_ones_are_left_out(
    as_alice: Actor, cluster: Cluster, site: Site
) -> None:
    assert list(registry.kinds()) == ["pending", "queue", "use", "schedule", "doubling", "raising"]
    assert registry.kinds()["pending"].made is PendingPods
    policy = scaled_by(as_alice, cluster, kind="doubling")
    demand(site, cluster, 4)
    assert round_now(policy).memory["own"] == {"asked": 4}
    assert count_of(cluster) == 4


@pytest.mark.usefixtures("plugged")
def test_one_that_breaks_changes_nothing_says_so_once_and_stops_nobody(
    as_alice: Actor, cluster: Cluster, site: Site
) -> None:
    broken = scaled_by(as_alice, cluster, kind="raising")
    other = scaled_by(as_alice, cluster, pool="small", minimum=0, maximum=2)
    demand(site, cluster, 2, pool="small")
    for _ in range(2):
        round_now(broken)
    assert log_of(cluster) == [("broken", 1, 1)]
    assert "no worker left to divide by" in ScalingDecision.objects.get().reason
    round_now(other)
    assert clusters_loaded().get().pools.get(name="small").count == 2


def test_one_whose_plug_in_is_gone_says_so(as_alice: Actor, cluster: Cluster) -> None:
    policy = scaled_by(as_alice, cluster)
    ScalingPolicy.objects.update(kind="gone")
    round_now(policy)
    assert log_of(cluster) == [("broken", 1, 1)]
    assert "unknown policy 'gone'" in ScalingDecision.objects.get().reason
