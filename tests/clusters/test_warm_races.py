"""Claims, keepers and kills at the same moment, on real connections: never two for one, never more than wanted, nothing half done."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from django.db import connections

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterHolding, ClusterTemplate, WarmPool
from gpuaas.clusters.reconcile import warm
from gpuaas.clusters.reconcile.warm import warm_keep
from gpuaas.clusters.services import handover, warm_pool_update
from gpuaas.clusters.services import order as orders
from gpuaas.core import claims
from gpuaas.core.clock import now
from gpuaas.providers.sandbox.clusters.driver import SandboxClusterDriver
from quotas.models import Limit, Reservation, SiteCapacity
from quotas.services import reservation_move
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.clusters.crashing_worker import life_of
from tests.clusters.stage import SLIM, offered, order, settle
from tests.clusters.test_races import at_once
from tests.clusters.warm_stage import H100, kept, owners, pool_of, waiting
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.crashing_worker import SURVIVED

pytestmark = pytest.mark.django_db(transaction=True)
CLAIMS = 50
BOUNDARIES_MAX = 100
Place = tuple[ModuleType, str]


@pytest.fixture
def template(as_olga: Actor, site: Site) -> ClusterTemplate:
    return offered(as_olga, site, words=SLIM)


def used(project: Project) -> int:
    return Limit.objects.get(project=project, resource=H100).used


def test_50_claims_for_one_that_waits(
    as_olga: Actor,
    as_alice: Actor,
    template: ClusterTemplate,
    project: Project,
    other_project: Project,
    site: Site,
) -> None:
    """One has it, two more are built as far as the site has room, and the others are told that it has none."""
    (warm_one,) = kept(pool_of(as_olga, template, other_project))
    limits_give(project, {H100: None})
    SiteCapacity.objects.filter(site=site, resource=H100).update(hard=6)
    audited = AuditEntry.objects.count()

    answers = at_once(CLAIMS, lambda number: order(as_alice, project, name=f"n-{number}"))

    assert answers == {"done": 3, "no_capacity": CLAIMS - 3}
    made = Cluster.objects.filter(project=project)
    assert sorted(made.values_list("state", flat=True)) == ["provisioning", "requested", "requested"]
    assert made.exclude(claimed_at=None).get().pk == warm_one.pk
    assert AuditEntry.objects.count() == audited + 4, "the claim tells both sides"
    assert (used(project), used(other_project)) == (6, 0)
    assert ClusterHolding.objects.filter(ended_at=None).exclude(project=project).count() == 0
    counters_must_match()


def test_each_of_many_that_wait_is_claimed_once(
    as_olga: Actor, as_alice: Actor, template: ClusterTemplate, project: Project, other_project: Project
) -> None:
    found = kept(pool_of(as_olga, template, other_project, wanted=3))
    limits_give(project, {H100: 6})
    answers = at_once(8, lambda number: order(as_alice, project, name=f"n-{number}"))
    assert answers == {"done": 3, "quota_exceeded": 5}
    assert set(Cluster.objects.filter(project=project)) == set(found)
    counters_must_match()


def test_many_keepers_never_make_more_than_is_wanted(
    as_olga: Actor, template: ClusterTemplate, other_project: Project
) -> None:
    pool = pool_of(as_olga, template, other_project, wanted=3, making_most=2)
    for most in (2, 2):
        WarmPool.objects.update(due_at=now())
        assert at_once(8, lambda _: warm_keep(pool.pk)) == {"done": 8}
        assert len(waiting(pool)) == most
    assert len(kept(pool)) == 3
    at_once(8, lambda _: warm_keep(pool.pk))
    assert len(waiting(pool)) == 3
    assert used(other_project) == 6
    counters_must_match()


def test_claimed_while_its_keeper_takes_it_away(
    as_olga: Actor, as_alice: Actor, template: ClusterTemplate, project: Project, other_project: Project
) -> None:
    """Whoever comes first: it is the tenant's and stays, or it goes and another one is built."""
    pool = pool_of(as_olga, template, other_project)
    limits_give(project, {H100: None})
    for turn in range(2):
        WarmPool.objects.update(wanted=1)
        (warm_one,) = kept(pool)
        WarmPool.objects.update(wanted=0)

        def work(number: int, name: str = f"n-{turn}") -> None:
            if number:
                warm_keep(pool.pk)
            else:
                order(as_alice, project, name=name)

        assert at_once(3, work) == {"done": 3}
        made = Cluster.objects.get(project=project, name=f"n-{turn}")
        warm_one.refresh_from_db()
        if made.pk == warm_one.pk:
            assert warm_one.state == "provisioning"
        else:
            assert (warm_one.state, warm_one.project) == ("deleting", other_project)
        counters_must_match()
        kept(pool)


# -- kills ------------------------------------------------------------------------------------------------------------


def killed_at(number: int, places: list[Place], work: Callable[[], object]) -> bool:
    """Whether `work`, in a process of its own, came to the boundary `number` around these and was killed there."""

    def live() -> None:
        left = number

        def around(call: Callable[..., Any]) -> Callable[..., Any]:
            def bounded(*args: Any, **kwargs: Any) -> Any:
                cross()
                answer = call(*args, **kwargs)
                cross()
                return answer

            return bounded

        def cross() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        for module, name in places:
            setattr(module, name, around(getattr(module, name)))
        work()
        connections.close_all()
        os._exit(SURVIVED)

    connections.close_all()
    process = multiprocessing.get_context("fork").Process(target=live)
    process.start()
    process.join(120)
    assert process.exitcode in {SURVIVED, -signal.SIGKILL}, process.exitcode
    WarmPool.objects.filter(claim_until__isnull=False).update(claim_until=now(), due_at=now())
    return process.exitcode != SURVIVED


def test_keeping_survives_a_kill_anywhere(
    as_olga: Actor, template: ClusterTemplate, other_project: Project, site: Site
) -> None:
    """One more is wanted each time; then fewer and fewer."""
    SiteCapacity.objects.update(hard=None)
    pool = pool_of(as_olga, template, other_project, wanted=0, making_most=20)
    growing: list[Place] = [
        (claims, "claim"),
        (claims, "apply"),
        (warm, "cluster_build"),
        (orders, "operation_start"),
        (orders, "reservation_reserve"),
    ]
    for places, wanted in (
        (growing, range(1, BOUNDARIES_MAX)),
        ([*growing[:2], (warm, "cluster_delete")], None),
    ):
        turns = iter(wanted or range(len(waiting(pool)) - 1, -1, -1))
        for number, count in enumerate(turns, start=1):
            pool = warm_pool_update(actor=as_olga, pool=pool, wanted=count)
            killed = killed_at(number, places, partial(warm_keep, pool.pk))
            assert len(waiting(pool)) in {count - 1, count, count + 1}
            warm_keep(pool.pk)
            assert len(waiting(pool)) == count
            held = Reservation.objects.filter(state="held").values("holder_id").distinct().count()
            assert held == Cluster.objects.exclude(state="deleted").count()
            counters_must_match()
            if not killed:
                break
        else:
            raise AssertionError("it never came to its end")
        assert number > 6


def test_a_claim_survives_a_kill_anywhere(
    as_olga: Actor, as_alice: Actor, template: ClusterTemplate, project: Project, other_project: Project
) -> None:
    """Before the commit nothing has happened; after it all has."""
    pool = pool_of(as_olga, template, other_project)
    (warm_one,) = kept(pool)
    limits_give(project, {H100: 2})
    places: list[Place] = [
        (orders, "cluster_claim"),
        (handover, "operation_start"),
        (handover, "audit_record"),
        (handover, "holdings_move"),
        (handover, "reservation_move"),
    ]
    for number in range(1, BOUNDARIES_MAX):
        if not killed_at(number, places, lambda: order(as_alice, project)):
            break
        assert waiting(pool) == [warm_one]
        assert (used(project), used(other_project)) == (0, 2)
        assert set(warm_one.holdings.values_list("project", "ended_at")) == {(other_project.pk, None)}
        counters_must_match()
    assert number == 2 * 6 + 1, "each, the audit twice, before and after"
    assert (used(project), used(other_project)) == (2, 0)
    counters_must_match()


def test_the_labeling_of_a_claim_survives_a_kill_anywhere(
    as_olga: Actor, as_alice: Actor, template: ClusterTemplate, project: Project, other_project: Project
) -> None:
    pool = pool_of(as_olga, template, other_project)
    (warm_one,) = kept(pool)
    limits_give(project, {H100: 2})
    for number in range(1, BOUNDARIES_MAX):
        made = order(as_alice, project, name=f"n-{number}")
        assert made.pk == warm_one.pk
        life = life_of(SandboxClusterDriver, made, number)
        made = settle(made)
        assert (made.state, owners(made)) == ("ready", {("weather-lm", "climate")})
        assert made.holdings.get(meter="gpu_held", ended_at=None).project == project
        counters_must_match()
        if not life.killed:
            break
        # for the next kill it waits once more
        reservation_move(holder_kind="cluster", holder_id=made.pk, project=other_project)
        made.holdings.filter(ended_at=None).update(project=other_project)
        Cluster.objects.filter(pk=made.pk).update(project=other_project, claimed_at=None, name="warm")
    assert number > 10
