"""One queue over two sites: a partition of a Slurm cluster is at another cloud, and its machines come in through a tunnel to the head."""

import uuid

import pytest

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_delete, cluster_scale
from gpuaas.providers.openstack.client import shared
from tenants.actors import Actor
from tenants.models import Project
from tests.lab.fixtures import until
from tests.lab.openstack.booting import (
    BOOTING,
    BOOTS,
    credentials_of,
    flavor_sold,
    rested,
    site_made,
    slurm_ordered,
)
from tests.lab.openstack.head import Slurm

pytestmark = BOOTING
# as bob: two tasks that the head starts, and two that a job on one of the machines starts
TALK = "srun --partition far --nodes=2 --ntasks=2 --gpus-per-node=1 --chdir=/tmp sh -c 'echo $SLURM_PROCID $(hostname)'"
WITHIN = "sbatch --wait --parsable --partition far --nodes=2 --gpus-per-node=1 --chdir=/home/shared --output=both --wrap='srun hostname'"


@pytest.fixture
def far_away(booting: Lab, as_olga: Actor) -> Flavor:
    """Of the same cards, at a site of a domain of its own."""
    cloud = shared(credentials_of(booting))
    name = f"elsewhere-{uuid.uuid4().hex[:8]}"
    domain = cloud.post("identity", "/domains", {"domain": {"name": name}})["domain"]["id"]
    return flavor_sold(as_olga, site_made(as_olga, booting, "cloud-2", domain=domain), "h100.far")


@pytest.fixture
def cluster(
    booting: Lab,
    as_olga: Actor,
    as_alice: Actor,
    as_bob: Actor,
    project: Project,
    sold: Flavor,
    far_away: Flavor,
) -> Cluster:
    """A head and a worker at home, two workers elsewhere; bob is a member."""
    pools = [{"name": "far", "flavors": [far_away.slug], "min": 0, "max": 4, "default": 2}]
    return slurm_ordered(as_alice, as_olga, project, sold, 1, more=pools, burst=["cloud-2"])


def test_a_partition_at_another_cloud(booting: Lab, cluster: Cluster, as_alice: Actor) -> None:
    row = rested(cluster)
    slurm = Slurm(booting, row)
    far = [f"{row.external_name}-far-{number}" for number in (1, 2)]
    assert slurm.idle() == [*far, f"{row.external_name}-gpu-1"]
    comes_through_the_tunnel(booting, slurm, far)
    works_there(slurm, far)
    stays_at_home(slurm, row)
    takes_what_is_free(slurm, far)
    row = grows_there(slurm, row, as_alice)
    rested(cluster_delete(actor=as_alice, cluster=row))
    assert booting.wishes.all() == {}


def comes_through_the_tunnel(lab: Lab, slurm: Slurm, far: list[str]) -> None:
    """The controller knows the workers by their addresses in it, and without it there is no way."""
    for number, name in enumerate(far, start=1):
        address = f"10.64.4.{number}"
        assert f"NodeAddr={address} " in slurm.says("scontrol", "--oneliner", "show", "node", name)
        assert slurm.lines("wg", "show", "gpuaas", "allowed-ips").count(f"{address}/32") == 1
    machine = lab.machine(far[0])

    def reaches() -> bool:
        return machine.run("timeout", "10", "bash", "-c", "exec 3<> /dev/tcp/10.0.0.11/6817").returncode == 0

    assert reaches()
    assert machine.run("systemctl", "stop", "wg-quick@gpuaas").returncode == 0
    assert not reaches()
    assert machine.run("systemctl", "start", "wg-quick@gpuaas").returncode == 0
    until(reaches, "it comes in again")
    assert machine.run("wg", "show", "gpuaas", "peers").stdout.split() == slurm.lines(
        "wg", "show", "gpuaas", "public-key"
    )


def works_there(slurm: Slurm, far: list[str]) -> None:
    """From the head, and from one of the workers to the other; with the homes of the head."""
    said = slurm.as_bob(TALK).splitlines()
    assert sorted(said) == [f"{number} {name}" for number, name in enumerate(far)]
    slurm.as_bob(WITHIN)
    assert sorted(slurm.lines("cat", "/home/shared/both")) == far


def stays_at_home(slurm: Slurm, row: Cluster) -> None:
    """A job that names no partition waits at home while workers elsewhere have nothing to do."""
    jobs = [slurm.submit(2), slurm.submit(2)]
    until(lambda: slurm.states() == ["PD", "R"], "one runs and one waits")
    assert set(slurm.lines("squeue", "--noheader", "--format=%P")) == {"gpu"}
    assert slurm.lines("squeue", "--noheader", "--states=R", "--format=%N") == [f"{row.external_name}-gpu-1"]
    slurm.says("scancel", *jobs)
    until(lambda: slurm.states() == [], "they end")


def takes_what_is_free(slurm: Slurm, far: list[str]) -> None:
    """Of several partitions."""
    jobs = [slurm.submit(2, "--partition=gpu,far") for _ in range(3)]
    until(lambda: slurm.states() == ["R"] * 3, "three jobs of two GPUs run on three machines of two GPUs")
    assert sorted(slurm.lines("squeue", "--noheader", "--format=%P")) == ["far", "far", "gpu"]
    slurm.says("scancel", *jobs)
    until(lambda: slurm.idle()[:2] == far, "they end")


def grows_there(slurm: Slurm, row: Cluster, alice: Actor) -> Cluster:
    row = rested(cluster_scale(actor=alice, cluster=row, counts={"far": 3}))
    third = f"{row.external_name}-far-3"
    until(
        lambda: third in slurm.idle(),
        "the third has come in by a key that the head has had from the start",
        seconds=BOOTS,
    )
    return row
