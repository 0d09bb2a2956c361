"""kill -9 of the worker at every boundary of create, scale, upgrade, sleep and delete: the next worker comes to the same end, with one
cluster and a ledger that says what is at the site."""

import itertools
from collections.abc import Callable, Sequence

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.clusters.services import (
    cluster_delete,
    cluster_resume,
    cluster_scale,
    cluster_suspend,
    cluster_upgrade,
    template_version_add,
)
from gpuaas.providers.sandbox.clusters.driver import SandboxClusterDriver
from gpuaas.providers.sandbox.models import SandboxNode
from quotas.models import Limit, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.crashing_worker import life_of
from tests.clusters.stage import SLIM, at_site, in_ledger, offered, order, ready, settle, workers
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.crashing_worker import Life

pytestmark = pytest.mark.django_db(transaction=True)
BOUNDARIES_MAX = 200
# before a call is as after the last one, as far as anybody can see: the second tier takes each second, the night each
EVERY = pytest.mark.parametrize("every", [2, 1])
GPUS = "gpu:h100-sxm-80gb"
CREATE = ("network", "endpoint", "control-plane", "api", "pool:gpu", "addon:gpu-operator", "checks")
DELETE = ("access", "addons", "workers", "control-plane", "network", "gone")
Change = Callable[..., Cluster]


@pytest.fixture
def template(as_olga: Actor, site: Site) -> ClusterTemplate:
    """Few steps, and a site with room for all that the killed workers have begun."""
    made = offered(as_olga, site, words=SLIM)
    SandboxNode.objects.filter(site=site.pk).update(capacity=10_000)
    SiteCapacity.objects.update(hard=None)
    return made


def until_it_survives(
    prepare: Callable[[int], Cluster],
    check: Callable[[Cluster], None],
    *,
    calls: Sequence[str],
    every: int = 1,
) -> int:
    """`prepare` a cluster, kill its worker at boundary 1, 2, 3 … (or each `every`-th); `check` what the next worker makes of it.
    How many it took; `calls` are those to the site that the change has at least."""
    lives: list[Life] = []
    while not lives or lives[-1].killed:
        assert len(lives) < BOUNDARIES_MAX
        cluster = prepare(len(lives) + 1)
        lives.append(life_of(SandboxClusterDriver, cluster, 1 + every * len(lives)))
        check(settle(cluster))
        counters_must_match()
    *killed, survivor = lives
    assert [life.crossed[-1] for life in killed] == list(survivor.crossed)[::every]
    for verb in ("claim", *calls, "apply"):
        assert {f"before {verb}", f"after {verb}"} <= set(survivor.crossed)
    return len(lives)


def whole(cluster: Cluster, site: Site, *, gpus: int, release: str = "1.35.6") -> None:
    """Exactly what an undisturbed worker leaves."""
    assert cluster.state == "ready"
    assert workers(cluster) == {"": [release], "gpu": [release] * gpus}
    assert {row for row in at_site(site) if cluster.external_name in row[1]} == in_ledger(cluster)
    assert cluster.holdings.get(meter="gpu_held", ended_at=None).quantity == 2 * gpus
    assert [pool.confirmed for pool in cluster.pools.all()] == [gpus]
    operation = cluster.operations.first()
    assert operation is not None
    assert operation.succeeded
    assert {step.state for step in operation.steps.all()} == {"done"}


def held(project: Project) -> int:
    return Limit.objects.get(project=project, resource=GPUS).used


@EVERY
def test_creation_survives_a_kill_anywhere(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site, every: int
) -> None:
    limits_give(project, {GPUS: None})

    def prepare(number: int) -> Cluster:
        return order(as_alice, project, name=f"n-{number}")

    def check(cluster: Cluster) -> None:
        whole(cluster, site, gpus=1)
        assert list(cluster.transitions.values_list("new", flat=True)) == [
            "requested",
            "provisioning",
            "ready",
        ]
        assert cluster.holdings.filter(meter="gpu_held").count() == 1

    calls = (*(f"create {key}" for key in CREATE), "observe", "inventory")
    made = until_it_survives(prepare, check, calls=calls, every=every)

    assert held(project) == 2 * made


def test_scaling_survives_a_kill_anywhere(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    cluster, sizes, asked = ready(as_alice, project), itertools.cycle([3, 1]), 0

    def prepare(number: int) -> Cluster:
        nonlocal asked
        asked = next(sizes)
        cluster.refresh_from_db()
        return cluster_scale(actor=as_alice, cluster=cluster, counts={"gpu": asked})

    def check(row: Cluster) -> None:
        whole(row, site, gpus=asked)
        assert held(project) == 2 * asked

    until_it_survives(prepare, check, calls=("scale pool:gpu", "scale checks", "observe", "inventory"))


def test_an_upgrade_survives_a_kill_anywhere(
    as_alice: Actor, as_olga: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    """One cluster, brought to the next patch release each time."""
    cluster = ready(as_alice, project, gpus=2)
    release = ""

    def prepare(number: int) -> Cluster:
        nonlocal release
        release = f"1.36.{number}"
        template_version_add(
            actor=as_olga, template=template, document={**SLIM, "releases": ["1.35.6", release]}
        )
        row = Cluster.objects.get(pk=cluster.pk)
        return cluster_upgrade(actor=as_alice, cluster=row, release=release)

    def check(row: Cluster) -> None:
        whole(row, site, gpus=2, release=release)
        assert row.confirmed_release == release

    steps = ("upgrade control-plane", "upgrade pool:gpu", "upgrade checks")
    until_it_survives(prepare, check, calls=(*steps, "observe", "inventory"))


@EVERY
def test_sleep_and_waking_survive_a_kill_anywhere(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site, every: int
) -> None:
    cluster = ready(as_alice, project)

    def asleep(row: Cluster) -> None:
        assert row.state == "suspended"
        assert workers(row) == {"": ["1.35.6"]}
        assert held(project) == 0

    def turn(change: Change, back: Change, check: Callable[[Cluster], None], verb: str) -> None:
        """Kill it at every boundary of `change`, undone by `back` each time; then change it for good."""

        def prepare(number: int) -> Cluster:
            return change(actor=as_alice, cluster=Cluster.objects.get(pk=cluster.pk))

        def undo(row: Cluster) -> None:
            check(row)
            settle(back(actor=as_alice, cluster=row))

        until_it_survives(prepare, undo, calls=(f"{verb} pool:gpu", "observe", "inventory"), every=every)
        settle(prepare(0))

    turn(cluster_suspend, cluster_resume, asleep, "suspend")
    turn(cluster_resume, cluster_suspend, lambda row: whole(row, site, gpus=1), "resume")


@EVERY
def test_deletion_survives_a_kill_anywhere(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site, every: int
) -> None:
    def prepare(number: int) -> Cluster:
        return cluster_delete(actor=as_alice, cluster=ready(as_alice, project, name=f"n-{number}"))

    def check(cluster: Cluster) -> None:
        assert cluster.state == "deleted"
        assert at_site(site) == []
        assert in_ledger(cluster) == set()
        assert held(project) == 0
        assert not cluster.holdings.filter(ended_at=None).exists()
        assert cluster.transitions.filter(new="deleted").count() == 1

    calls = (*(f"delete {key}" for key in DELETE), "inventory")
    until_it_survives(prepare, check, calls=calls, every=every)
