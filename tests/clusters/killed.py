"""The lives of a cluster whose worker is killed: each comes to the same end as an undisturbed one, with one cluster and a ledger
that says what is at the site. `kill` chooses at which boundaries."""

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from django.conf import settings

from gpuaas.catalog.models import Site
from gpuaas.clusters.lease import leases_enforce
from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.clusters.services import (
    cluster_delete,
    cluster_extend,
    cluster_resume,
    cluster_scale,
    cluster_suspend,
    cluster_upgrade,
    template_version_add,
)
from gpuaas.core.clock import now
from gpuaas.providers.sandbox.clusters.driver import SandboxClusterDriver
from quotas.models import Limit
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.crashing_worker import life_of
from tests.clusters.stage import SLIM, at_site, in_ledger, order, ready, settle, workers
from tests.factories.quotas import limits_give
from tests.kills import Change, Kill

GPUS = "gpu:h100-sxm-80gb"
CREATE = ("network", "endpoint", "control-plane", "api", "pool:gpu", "addon:gpu-operator", "checks")
DELETE = ("access", "addons", "workers", "control-plane", "network", "gone")
LOOKS = ("observe", "inventory")


class Asked(Protocol):
    def __call__(self, *, actor: Actor, cluster: Cluster) -> Cluster: ...


def change_of(
    ask: Callable[[int], Cluster], check: Callable[[Cluster], object], *calls: str
) -> Change[Cluster]:
    return Change(
        ask=ask,
        life=lambda cluster, boundary: life_of(SandboxClusterDriver, cluster, boundary),
        settle=settle,
        check=check,
        calls=calls,
    )


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


def creation(kill: Kill, *, actor: Actor, project: Project, site: Site) -> None:
    limits_give(project, {GPUS: None})

    def ask(number: int) -> Cluster:
        return order(actor, project, name=f"n-{number}")

    def check(cluster: Cluster) -> None:
        whole(cluster, site, gpus=1)
        assert list(cluster.transitions.values_list("new", flat=True)) == [
            "requested",
            "provisioning",
            "ready",
        ]
        assert cluster.holdings.filter(meter="gpu_held").count() == 1

    made = kill(change_of(ask, check, *(f"create {key}" for key in CREATE), *LOOKS))

    assert held(project) == 2 * made


def scaling(kill: Kill, *, actor: Actor, project: Project, site: Site) -> None:
    cluster, sizes, asked = ready(actor, project), itertools.cycle([3, 1]), 0

    def ask(number: int) -> Cluster:
        nonlocal asked
        asked = next(sizes)
        cluster.refresh_from_db()
        return cluster_scale(actor=actor, cluster=cluster, counts={"gpu": asked})

    def check(row: Cluster) -> None:
        whole(row, site, gpus=asked)
        assert held(project) == 2 * asked

    kill(change_of(ask, check, "scale pool:gpu", "scale checks", *LOOKS))


def upgrade(kill: Kill, *, actor: Actor, olga: Actor, project: Project, template: ClusterTemplate) -> None:
    """One cluster, brought to the next patch release each time."""
    cluster = ready(actor, project, gpus=2)
    release = ""

    def ask(number: int) -> Cluster:
        nonlocal release
        release = f"1.36.{number}"
        words = {**SLIM, "releases": ["1.35.6", release]}
        template_version_add(actor=olga, template=template, document=words)
        row = Cluster.objects.get(pk=cluster.pk)
        return cluster_upgrade(actor=actor, cluster=row, release=release)

    def check(row: Cluster) -> None:
        whole(row, template.site, gpus=2, release=release)
        assert row.confirmed_release == release

    steps = ("upgrade control-plane", "upgrade pool:gpu", "upgrade checks")
    kill(change_of(ask, check, *steps, *LOOKS))


def sleep_and_waking(kill: Kill, *, actor: Actor, project: Project, site: Site) -> None:
    """One cluster, killed in all its suspensions, each undone by an unharmed waking; then the other way about."""
    cluster = ready(actor, project)

    def asleep(row: Cluster) -> None:
        assert row.state == "suspended"
        assert workers(row) == {"": ["1.35.6"]}
        assert held(project) == 0

    def turn(change: Asked, back: Asked, check: Callable[[Cluster], None], verb: str) -> None:
        def ask(number: int) -> Cluster:
            return change(actor=actor, cluster=Cluster.objects.get(pk=cluster.pk))

        def undo(row: Cluster) -> None:
            check(row)
            settle(back(actor=actor, cluster=row))

        kill(change_of(ask, undo, f"{verb} pool:gpu", *LOOKS))
        settle(ask(0))

    turn(cluster_suspend, cluster_resume, asleep, "suspend")
    turn(cluster_resume, cluster_suspend, lambda row: whole(row, site, gpus=1), "resume")


def end_of_lease(kill: Kill, *, actor: Actor, project: Project) -> None:
    """Put to sleep by its lease, extended and woken each time: its grace period begins once, with the sleep that happened."""
    cluster = ready(actor, project)

    def ask(number: int) -> Cluster:
        Cluster.objects.filter(pk=cluster.pk).update(lease_ends_at=now() - timedelta(days=30))
        leases_enforce(now=now())
        cluster.refresh_from_db()
        assert (cluster.state, cluster.deleted_after) == ("suspending", None)
        return Cluster.objects.get(pk=cluster.pk)

    def check(row: Cluster) -> None:
        operation = row.operations.first()
        assert operation is not None
        assert operation.finished_at is not None
        assert (row.state, held(project)) == ("suspended", 0)
        assert row.deleted_after == operation.finished_at + timedelta(days=settings.LEASE_GRACE_DAYS)
        leases_enforce(now=now())
        assert Cluster.objects.get(pk=cluster.pk).deleted_after == row.deleted_after
        cluster_extend(actor=actor, cluster=row, lease_ends_at=now() + timedelta(days=1))
        settle(cluster_resume(actor=actor, cluster=Cluster.objects.get(pk=cluster.pk)))

    kill(change_of(ask, check, "suspend pool:gpu", *LOOKS))


def deletion(kill: Kill, *, actor: Actor, project: Project, site: Site) -> None:
    def ask(number: int) -> Cluster:
        return cluster_delete(actor=actor, cluster=ready(actor, project, name=f"n-{number}"))

    def check(cluster: Cluster) -> None:
        assert cluster.state == "deleted"
        assert at_site(site) == []
        assert in_ledger(cluster) == set()
        assert held(project) == 0
        assert not cluster.holdings.filter(ended_at=None).exists()
        assert cluster.transitions.filter(new="deleted").count() == 1

    kill(change_of(ask, check, *(f"delete {key}" for key in DELETE), "inventory"))
