"""Machines that cannot be set up: the portal says in one sentence which command failed and why, and who mends the cause and retries
gets another machine."""

import pytest

from deploy.lab.guest.wishes import Flaws
from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, NodeBoot
from gpuaas.clusters.services import cluster_delete, cluster_retry
from tenants.actors import Actor
from tenants.models import Project
from tests.lab.openstack.booting import BOOTING, rested, slurm_ordered

pytestmark = BOOTING


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
