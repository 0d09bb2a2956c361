"""A policy never ends a job that runs: workers are drained first, and go when they are idle."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from hypothesis import example, given
from hypothesis import strategies as st

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterQueue, ClusterTemplate, ScalingDecision, ScalingPolicy
from gpuaas.clusters.policies.decide import DRAIN_WITHIN, decide
from gpuaas.clusters.policies.facts import Cap, Drain, Memory, Pool, Rules, Signals
from gpuaas.clusters.policies.kinds import PendingPods
from gpuaas.clusters.policies.stored import memory_read, memory_stored
from gpuaas.clusters.services import cluster_scale, policy_switch, scale_warnings
from gpuaas.clusters.spec import spec_of
from gpuaas.core.clock import now
from gpuaas.providers.base import queue_token
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.policy_stage import demand, round_now, scaled_by
from tests.clusters.stage import ready, settle, workers
from tests.factories.quotas import counters_must_match
from tests.lasting import lasting

START = datetime(2026, 3, 1, tzinfo=UTC)
MOST = 6
NOTHING = {"used_gpus": 0, "pending_gpus": 0, "queued": 0}


@dataclass
class Modelled:
    """A pool of workers with one GPU each, its head and the portal. Each of their steps may come at any time."""

    count: int = 3
    busy: set[int] = field(default_factory=set)
    drained: set[int] = field(default_factory=set)
    memory: Memory = field(default_factory=Memory)
    told: Signals = field(default_factory=lambda: Signals(START))
    seen: list[tuple[int, int]] = field(default_factory=list)  # reports on their way: used GPUs, least
    answers: list[int] = field(default_factory=list)  # on their way back: workers that accept jobs
    at: datetime = START

    def job(self, number: int) -> None:
        """One starts where it may, or ends."""
        if number in self.busy:
            self.busy.remove(number)
        elif number <= self.count and number not in self.drained:
            self.busy.add(number)

    def look(self, _: int) -> None:
        if not self.seen and not self.answers:  # a head sends one report at a time
            up = [each for each in range(1, self.count + 1) if each in self.busy or each not in self.drained]
            self.seen.append((len(self.busy), max(up, default=0)))

    def store(self, lost: int) -> None:
        if self.seen:
            used, least = self.seen.pop()
            drain = self.memory.drain
            self.told = Signals(self.at, used, 0, 0, least, drain.key if drain else "")
            if lost:
                self.answers.append(min(self.count, drain.above) if drain else self.count)

    def apply(self, _: int) -> None:
        if self.answers:
            most = self.answers.pop()
            self.drained = {each for each in range(1, self.count + 1) if each > most}

    def report(self, _: int) -> None:
        for step in (self.look, self.store, self.apply):
            step(1)

    def round(self, wish: int) -> None:
        if self.told.least is None:  # the driver refuses to answer until the head has reported
            return
        self.at += timedelta(minutes=1)
        signals = replace(self.told, at=self.at, pending_gpus=wish)
        caps = (Cap(0, "money", binding=True),) if wish == 0 else ()
        pool = Pool("gpu", self.count, 1, 0, MOST)
        made = decide(
            PendingPods({"spare_workers": 0}),
            Rules(0, MOST, step=MOST),
            signals=signals,
            pool=pool,
            memory=memory_read(memory_stored(self.memory)),
            caps=caps,
            now=self.at,
        )
        ended = {each for each in self.busy if each > made.count}
        assert not ended, "a policy has ended a job"
        self.memory, self.count = made.memory, made.count
        self.drained = {each for each in self.drained if each <= made.count}


STEPS = ("job", "look", "store", "apply", "report", "round")
ORDERED = [("report", 1), ("round", 0), ("report", 1)]
LIFTED = [*ORDERED, ("look", 1), ("round", 3), ("store", 1), ("apply", 1), ("job", 3), ("round", 0)]
GROWN = [*ORDERED, ("report", 1), ("round", 3), ("round", 6), ("job", 5), ("round", 0)]


@example(LIFTED)  # the order is lifted while a report that saw it obeyed is on its way
@example(GROWN)  # the same order as before, of more workers
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, MOST)), max_size=120))
def test_whatever_comes_between_no_job_ends(steps: list[tuple[str, int]]) -> None:
    modelled = Modelled()
    for step, number in steps:
        getattr(modelled, step)(number)


def test_the_model_shrinks_to_its_last_busy_worker_and_then_to_nothing() -> None:
    modelled = Modelled(count=5)
    modelled.job(2)

    modelled.report(0)
    modelled.round(1)
    assert modelled.count == 5, "an order to drain is given first"
    for _ in range(2):
        modelled.report(0)
    modelled.round(1)
    assert modelled.count == 2
    modelled.job(2)
    for _ in range(3):
        modelled.report(0)
        modelled.round(0)
    assert modelled.count == 0


def ask(signals: Signals, memory: Memory, *, count: int = 4, after: timedelta = timedelta()) -> Any:
    pool, rules = Pool("gpu", count, 1, 0, MOST), Rules(0, MOST, step=MOST)
    at = START + after
    return decide(
        PendingPods({"spare_workers": 0}), rules, signals=signals, pool=pool, memory=memory, caps=(), now=at
    )


def test_what_keeps_a_worker_is_told() -> None:
    first = ask(Signals(START, 1, least=4), Memory())
    assert (first.count, first.refused, first.memory.drain) == (4, "", Drain(1, START))
    key = first.memory.drain.key
    kept = ask(Signals(START, 1, least=4, drain=key), first.memory)
    assert kept.refused == "work still runs on worker 4, so it stays until that has ended"
    some = ask(Signals(START, 1, least=3, drain=key), first.memory)
    assert (some.count, some.changes) == (3, True)
    silent = ask(Signals(START, 1, least=1), first.memory, after=DRAIN_WITHIN)
    assert silent.count == 4
    assert "has not confirmed" in silent.refused
    assert ask(Signals(START, 4, least=1, drain=key), first.memory).memory.drain is None, "it is wanted again"
    assert ask(Signals(START), Memory()).count == 0, "a cluster that cannot tell shrinks at once"


@pytest.fixture
@lasting
def cluster(as_alice: Actor, project: Project, template: ClusterTemplate, site: Site) -> Cluster:
    """Grown to four workers by its policy."""
    made = ready(as_alice, project)
    demand(site, made, 8)
    round_now(scaled_by(as_alice, made))
    return settle(made)


def report(cluster: Cluster, busy: list[int], least: int) -> dict[str, Any]:
    """As the head does; the answer about the pool."""
    told = {"pool": "gpu", **NOTHING, "busy": busy, "least": least}
    token = queue_token(spec_of(cluster).boots.seed, cluster=cluster.pk)
    answer = Client().post(
        "/api/v1/queue-reports",
        json.dumps({"pools": [told]}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code == 201
    order: dict[str, Any] = next(one for one in answer.json()["pools"] if one["pool"] == "gpu")
    return order


@pytest.mark.django_db
def test_workers_are_drained_and_those_with_jobs_stay_until_they_end(
    as_alice: Actor, cluster: Cluster, site: Site
) -> None:
    policy = ScalingPolicy.objects.get()
    demand(site, cluster, 2)
    assert report(cluster, [1, 3], 4)["workers"] == 4
    round_now(policy)
    assert report(cluster, [1, 3], 4) == {"pool": "gpu", "gpus": 2, "workers": 1, "machines": 4}
    round_now(policy)
    assert len(workers(settle(cluster))["gpu"]) == 4, "worker 4 was not drained yet when that was told"
    report(cluster, [1, 3], 3)
    round_now(policy)
    row = settle(cluster)
    assert len(workers(row)["gpu"]) == 3
    report(row, [1, 3], 3)
    round_now(policy)
    report(row, [1, 3], 3)
    round_now(policy)
    said = ScalingDecision.objects.filter(outcome="refused").latest("pk").refused
    assert said == "work still runs on worker 3, so it stays until that has ended"
    report(row, [1], 1)
    round_now(policy)
    assert len(workers(settle(row))["gpu"]) == 1
    counters_must_match()


@pytest.mark.django_db
def test_who_switches_a_policy_off_ends_its_draining(as_alice: Actor, cluster: Cluster, site: Site) -> None:
    policy = ScalingPolicy.objects.get()
    demand(site, cluster, 0)
    report(cluster, [], 4)
    round_now(policy)
    assert report(cluster, [], 4)["workers"] == 1
    policy_switch(actor=as_alice, policy=policy, enabled=False)
    assert report(cluster, [], 1)["workers"] == 4


@pytest.mark.django_db
def test_who_scales_by_hand_is_told_what_ends(as_alice: Actor, cluster: Cluster) -> None:
    assert scale_warnings(cluster=cluster, counts={"gpu": 1}) == []
    report(cluster, [1, 2, 4], 4)
    assert scale_warnings(cluster=cluster, counts={"gpu": 1}) == [
        "Work runs on workers 2 and 4 of the pool gpu: it ends when the pool shrinks."
    ]
    assert scale_warnings(cluster=cluster, counts={"gpu": 3}) == [
        "Work runs on worker 4 of the pool gpu: it ends when the pool shrinks."
    ]
    assert scale_warnings(cluster=cluster, counts={"gpu": 5, "small": 1}) == []
    cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 1})
    assert report(cluster, [1, 2, 4], 4) == {"pool": "gpu", "gpus": 2, "workers": 1, "machines": 4}, (
        "nothing new starts there"
    )
    ClusterQueue.objects.update(told_at=now() - timedelta(minutes=4))
    assert scale_warnings(cluster=cluster, counts={"gpu": 1}) == [], "that is no longer known"
