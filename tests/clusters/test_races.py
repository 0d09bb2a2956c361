"""Orders, changes and workers at the same moment, on real connections."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import (
    Cluster,
    ClusterJob,
    ClusterOperation,
    ClusterPool,
    ClusterTemplate,
    ClusterTransition,
    LedgerEntry,
)
from gpuaas.clusters.reconcile import run
from gpuaas.clusters.services import cluster_delete, cluster_job_retry, cluster_scale
from gpuaas.core.errors import GpuaasError
from quotas.models import Limit, Reservation, SiteCapacity
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.clusters.slurm_stage import slurm_ready, submitted
from tests.clusters.stage import at_site, in_ledger, order, ready, settle
from tests.factories.quotas import counters_must_match, limits_give

pytestmark = pytest.mark.django_db(transaction=True)
H100 = "gpu:h100-sxm-80gb"
ORDERS = 50


def at_once(count: int, work: Callable[[int], object]) -> Counter[str]:
    """Answers or refusals of `work(number)` in that many threads, let go at the same moment."""
    gate = threading.Barrier(count)

    def one(number: int) -> str:
        try:
            connection.ensure_connection()
            gate.wait()
            work(number)
        except GpuaasError as error:
            return error.code if error.message else "without a word"
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(count) as pool:
        return Counter(pool.map(one, range(count)))


def test_50_orders_for_capacity_for_one(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project, {H100: None})
    SiteCapacity.objects.filter(site=site, resource=H100).update(hard=3)
    audited = AuditEntry.objects.count()

    answers = at_once(ORDERS, lambda number: order(as_alice, project, name=f"n-{number}"))

    assert answers == {"done": 1, "no_capacity": ORDERS - 1}
    counts = [rows.objects.count() for rows in (Cluster, ClusterOperation, ClusterTransition)]
    assert counts == [1, 1, 1]
    assert ClusterPool.objects.count() == 2
    assert set(Reservation.objects.values_list("holder_id", flat=True)) == {Cluster.objects.get().pk}
    assert AuditEntry.objects.count() == audited + 1
    assert not LedgerEntry.objects.exists()
    assert at_site(site) == []
    counters_must_match()


def test_of_many_orders_of_one_name_one_is_taken(
    as_alice: Actor, project: Project, template: ClusterTemplate
) -> None:
    limits_give(project)
    assert at_once(8, lambda _: order(as_alice, project)) == {"done": 1, "conflict": 7}
    counters_must_match()


def test_one_of_many_scalings_wins(as_alice: Actor, project: Project, template: ClusterTemplate) -> None:
    cluster = ready(as_alice, project)
    answers = at_once(
        5, lambda number: cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": 2 + number})
    )
    assert answers == {"done": 1, "conflict": 4}
    cluster = settle(cluster)
    gpu = cluster.pools.get(name="gpu")
    assert Limit.objects.get(project=project, resource=H100).used == 2 * gpu.confirmed
    counters_must_match()


def test_deleting_while_workers_make_it(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project)
    cluster = order(as_alice, project)

    def work(number: int) -> None:
        if number == 0:
            cluster_delete(actor=as_alice, cluster=cluster)
        else:
            run(cluster.pk)

    at_once(6, work)

    cluster = settle(cluster, runs=400)
    assert cluster.state == "deleted"
    assert (at_site(site), in_ledger(cluster)) == ([], set())
    assert Limit.objects.get(project=project, resource=H100).used == 0
    counters_must_match()


def test_many_deletions_and_workers_release_once(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    cluster = ready(as_alice, project)
    assert at_once(8, lambda _: cluster_delete(actor=as_alice, cluster=cluster)) == {"done": 8}
    assert cluster.operations.filter(kind="delete").count() == 1
    at_once(8, lambda _: run(cluster.pk))
    assert settle(cluster).state == "deleted"
    assert Limit.objects.get(project=project, resource=H100).used == 0
    counters_must_match()


def test_the_last_jobs_of_a_cluster_are_submitted_and_tried_again_once(
    as_alice: Actor,
    as_olga: Actor,
    as_bob: Actor,
    project: Project,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpuaas.clusters.services.jobs.MOST", 2)
    cluster = slurm_ready(as_alice, as_olga, project, site)
    assert at_once(8, lambda _: submitted(as_bob, cluster)) == {"done": 2, "conflict": 6}
    ClusterJob.objects.update(state="failed", staging="in")
    at_once(2, lambda _: submitted(as_bob, cluster))
    ClusterJob.objects.update(state="failed", staging="in")
    rows = list(ClusterJob.objects.all())
    answers = at_once(4, lambda number: cluster_job_retry(actor=as_bob, job=rows[number]))
    assert answers == {"done": 2, "conflict": 2}
