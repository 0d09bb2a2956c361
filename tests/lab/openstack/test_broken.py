"""Machines that cannot be set up: the portal says in one sentence which command failed and why, and who mends the cause and retries
gets another machine."""

from datetime import timedelta

import pytest
import time_machine

from deploy.lab.guest.wishes import Flaws
from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, ClusterOperationStep, NodeBoot
from gpuaas.clusters.services import cluster_delete, cluster_retry
from gpuaas.core import clock
from gpuaas.lifecycle.visits import REFUSALS_MAX
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import run_now
from tests.lab.fixtures import until
from tests.lab.openstack.booting import BOOTING, BOOTS, rested, slurm_ordered

pytestmark = BOOTING
UNREPORTED = "the stage packages could not be reported"
OVERDUE = timedelta(minutes=31)  # one more than a template gives machines


def sentence(row: Cluster) -> str:
    """What the head wrote last; its page shows the first line as the cause."""
    (last,) = NodeBoot.objects.filter(cluster=row, stage="failed").order_by("-pk")[:1]
    line = last.message.splitlines()[0]
    assert row.trouble["cause"].endswith(f": {line}")
    return line


def mended(row: Cluster, alice: Actor, lab: Lab) -> None:
    """By another machine; and nothing stays of either."""
    broken = {wish.uuid for wish in lab.wishes.all().values()}
    row = rested(cluster_retry(actor=alice, cluster=row))
    assert not broken & lab.wishes.all().keys()
    assert row.trouble == {}
    rested(cluster_delete(actor=alice, cluster=row))
    assert lab.wishes.all() == {}


@pytest.mark.parametrize(
    ("flaws", "words"),
    [
        (Flaws(disk_mib=100), "at the stage packages: the disk is full, so apt-get install failed"),
        (
            Flaws(ahead_s=3600),
            "at the stage booted: the clock has not come right within 120 s: it is 60 minutes behind the portal's",
        ),
    ],
    ids=["disk", "clock"],
)
def test_a_cause_that_can_be_mended(
    flaws: Flaws,
    words: str,
    booting: Lab,
    as_olga: Actor,
    as_alice: Actor,
    project: Project,
    sold: Flavor,
) -> None:
    booting.wishes.flaws_set(flaws)
    row = rested(slurm_ordered(as_alice, as_olga, project, sold, 0), state="failed")
    assert sentence(row) == words
    booting.wishes.flaws_set(Flaws())
    mended(row, as_alice, booting)


def test_a_package_that_does_not_exist(
    booting: Lab, as_olga: Actor, as_alice: Actor, project: Project, sold: Flavor
) -> None:
    order = slurm_ordered(as_alice, as_olga, project, sold, 0, packages=["no-such-package"])
    row = rested(order, state="failed")
    cause = "apt-get install failed: E: Unable to locate package no-such-package"
    assert sentence(row) == f"at the stage packages: {cause}"
    rested(cluster_delete(actor=as_alice, cluster=row))
    assert booting.wishes.all() == {}


def test_machines_that_lose_their_network(
    booting: Lab, as_olga: Actor, as_alice: Actor, project: Project, sold: Flavor
) -> None:
    """They cannot report: each is made anew after its time, and of the last the page shows what it wrote to its console."""
    row = slurm_ordered(as_alice, as_olga, project, sold, 0)
    head, late = (
        f"{row.external_name}-control-1",
        "is not ready after 30 minutes: the last stage that it reported is booted",
    )
    for attempt in range(1, REFUSALS_MAX + 1):
        until(lambda: booted(row) == attempt, "it has reported that it booted", seconds=BOOTS)  # noqa: B023
        booting.machine(head).unplug()
        if attempt == REFUSALS_MAX:
            until(
                lambda: UNREPORTED in booting.machine(head).console.read_text(errors="replace"),
                "it says so",
                seconds=BOOTS,
            )
        with time_machine.travel(clock.now() + OVERDUE, tick=True):
            row = run_now(row)
        step = ClusterOperationStep.objects.get(operation__cluster=row, key="control-plane")
        assert step.detail.startswith(f"{head} {late}")
    assert (row.state, row.trouble["cause"]) == ("failed", f"{head} {late}")
    assert any(f"the setup wrote: {UNREPORTED}" in one for one in row.trouble["evidence"])
    mended(row, as_alice, booting)


def booted(row: Cluster) -> int:
    """How many machines have got so far and no further."""
    run_now(row)
    return NodeBoot.objects.filter(cluster=row, stage="booted").count()
