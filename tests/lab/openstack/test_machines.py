"""Slurm as people have it: ordered at the portal, made by Nova, booted from its own user data, told to a portal that runs, and grown by
what its queue says."""

from typing import Any

import pytest

from billing.policies import policy_allowance
from deploy.lab.guest import network
from deploy.lab.guest.keeper import lab_name
from deploy.lab.guest.machine import Machine
from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, ClusterQueue, ScalingPolicy
from gpuaas.clusters.reconcile.policies import policy_run
from gpuaas.clusters.services import cluster_delete
from gpuaas.clusters.services.policies import PolicyTerms, policy_create
from gpuaas.clusters.spec import nodes_of
from gpuaas.core import clock
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.selectors import actor_for
from tests.clusters.policy_stage import round_now
from tests.factories.tenants import ProjectMembershipFactory, UserFactory
from tests.lab.fixtures import until
from tests.lab.openstack.applications import applications_are_shared
from tests.lab.openstack.booting import BOOTING, BOOTS, rested, slurm_ordered
from tests.lab.openstack.head import Slurm
from tests.lab.openstack.pages import page_of
from tests.lab.openstack.people import (
    members_work_as_themselves,
    the_portal_agrees_with_sacct,
    who_leaves_is_out,
)

pytestmark = BOOTING


@pytest.fixture
def carol(project: Project, bob: User) -> User:
    """A second member, after bob."""
    user = UserFactory.create(username="carol")
    ProjectMembershipFactory.create(project=project, user=user, role="member")
    return user


@pytest.fixture
def cluster(booting: Lab, as_olga: Actor, as_alice: Actor, project: Project, sold: Flavor) -> Cluster:
    """Ordered, of a head and two workers."""
    return slurm_ordered(as_alice, as_olga, project, sold, 2)


def names(cluster: Cluster, workers: int) -> list[str]:
    return [f"{cluster.external_name}-gpu-{number}" for number in range(1, workers + 1)]


def test_a_cluster_boots_works_grows_by_its_queue_and_leaves_nothing(
    machine_lab: Lab, cluster: Cluster, as_alice: Actor, as_bob: Actor, carol: User
) -> None:
    row = rested(cluster)
    slurm = Slurm(machine_lab, row)
    assert slurm.idle() == names(row, 2), "ready is what Slurm itself says"
    assert "2 of 2 ready" in page_of(row)
    keeps_its_secrets(slurm)
    works(slurm)
    keeps_accounts(slurm)
    comes_back_after_reboots(machine_lab, row, slurm)
    drains_what_is_unhealthy(machine_lab, row, slurm)
    as_carol = actor_for(user=carol)
    members_work_as_themselves(slurm, row, as_bob, as_carol)
    applications_are_shared(slurm, row, as_bob, as_carol)
    who_leaves_is_out(slurm, row, as_alice, as_carol, carol)
    the_portal_agrees_with_sacct(slurm, row)
    row = grows_by_its_queue(row, slurm, as_alice)
    row = shrinks_and_ends_no_job(row, slurm)
    assert {wish.name for wish in machine_lab.wishes.all().values()} == {
        f"{row.external_name}-control-1",
        *names(row, 1),
    }

    row = rested(cluster_delete(actor=as_alice, cluster=row))
    assert "confirmed gone" in page_of(row)
    assert machine_lab.wishes.all() == {}
    tag = lab_name(machine_lab.state_dir / "data/machines")
    until(lambda: not network.namespaces(tag), "its machines are gone with it")


def keeps_its_secrets(slurm: Slurm) -> None:
    """The user data holds the keys of the cluster: root's own processes read it, who comes in as a member does not."""
    ask = [
        "curl",
        "--silent",
        "--fail",
        "--max-time",
        "20",
        f"http://{network.METADATA}/openstack/latest/user_data",
    ]
    assert "munge.key" in slurm.says(*ask)
    done = slurm.tries("runuser", "--user", "bob", "--", *ask)
    assert (done.returncode, done.stdout) == (7, ""), "no connection is made"


def works(slurm: Slurm) -> None:
    """Three jobs of one GPU run together: none takes the memory of a whole machine."""
    who = ["runuser", "--user", "bob", "--"]
    seen = slurm.lines(*who, "srun", "--chdir=/tmp", "--gpus=h100:2", "sh", "-c", "echo $SLURM_GPUS_ON_NODE")
    assert seen == ["2"]
    jobs = [slurm.submit(1) for _ in range(3)]
    until(lambda: slurm.states() == ["R", "R", "R"], "three jobs run on two machines of two GPUs")
    slurm.says("scancel", *jobs)
    until(lambda: slurm.states() == [], "they end")


def keeps_accounts(slurm: Slurm) -> None:
    """Of the one job of two GPUs and the three of one. The controller hands them to the account a while later."""
    account = ["sacct", "--allusers", "--allocations", "--noheader", "--parsable2", "--format=alloctres"]

    def gpus() -> list[str]:
        told = [dict(part.partition("=")[::2] for part in line.split(",")) for line in slurm.lines(*account)]
        return sorted(f"{one.get('gres/gpu')} {one.get('gres/gpu:h100')}" for one in told)

    until(lambda: gpus() == ["1 1", "1 1", "1 1", "2 2"], "sacct knows what each job had")


def comes_back_after_reboots(lab: Lab, row: Cluster, slurm: Slurm) -> None:
    """The job on the first worker outlives its head. The second worker has jobs again once it has come in, which one waits for."""
    first, second = names(row, 2)
    job = slurm.submit(1, f"--nodelist={first}")
    until(lambda: slurm.states() == ["R"], "it runs")
    waits = slurm.submit(2, f"--nodelist={second}", "--begin=now+10")
    reboots(lab.machine(f"{row.external_name}-control-1"))
    reboots(lab.machine(second))
    until(lambda: slurm.tries("scontrol", "ping").stdout.endswith("is UP\n"), "the head is up", seconds=BOOTS)
    assert sorted(slurm.lines("squeue", "--noheader", "--format=%i|%t")) == [f"{job}|R", f"{waits}|PD"]
    until(lambda: slurm.states() == ["R", "R"], "so is the worker", seconds=BOOTS)
    slurm.says("scancel", waits)
    until(lambda: slurm.idle() == [second], "its GPUs are free again")
    asks = ["srun", "--chdir=/home/shared", f"--nodelist={second}", "--gpus=h100:2"]
    shows = ["sh", "-c", "echo $SLURM_GPUS_ON_NODE; pwd"]

    def seen() -> list[str]:
        return slurm.tries("timeout", "60", "runuser", "--user", "bob", "--", *asks, *shows).stdout.split()

    until(lambda: seen() == ["2", "/home/shared"], "jobs have its GPUs and the home again", seconds=BOOTS)
    slurm.says("scancel", job)
    until(lambda: slurm.states() == [], "it has ended")


def reboots(machine: Machine) -> None:
    before = machine.reboot()
    until(lambda: machine.boot() not in {"", before}, f"{machine.wish.name} boots again", seconds=BOOTS)


def drains_what_is_unhealthy(lab: Lab, row: Cluster, slurm: Slurm) -> None:
    """A card that is gone drains its worker, and the portal says why; once it is back, the worker has jobs again."""
    second = names(row, 2)[1]
    worker = lab.machine(second)

    def unhealthy() -> dict[str, str]:
        seen = Cluster.objects.get(pk=row.pk)
        return {node["name"]: node["reason"] for node in nodes_of(seen, clock.now()) if not node["ready"]}

    assert worker.run("mv", "/dev/nvidia1", "/dev/gone1").returncode == 0
    until(lambda: slurm.state_of(second) == "drained", "it is drained", seconds=BOOTS)
    until(lambda: unhealthy() == {second: "1 of 2 GPUs are seen"}, "the head has told why", seconds=BOOTS)
    assert "1 of 2 GPUs are seen" in page_of(row)
    assert worker.run("mv", "/dev/gone1", "/dev/nvidia1").returncode == 0
    until(lambda: slurm.idle() == names(row, 2), "it works again", seconds=BOOTS)
    until(lambda: not unhealthy(), "the head has told so", seconds=BOOTS)


def grows_by_its_queue(row: Cluster, slurm: Slurm, alice: Actor) -> Cluster:
    """Four GPUs are used and two more waited for, so a third worker comes."""
    terms = PolicyTerms(
        kind="pending", minimum=1, maximum=4, step=4, up_delay=0, down_delay=0, cool_down=0, enabled=True
    )
    policy = policy_create(actor=alice, cluster=row, pool="gpu", terms=terms)
    for _ in range(6):
        slurm.submit(1)
    waits = {"pool": "gpu", "used_gpus": 4, "pending_gpus": 2, "queued": 2}
    until(lambda: told(row) == [waits], "the head has told its queue")
    policy_run(policy.pk, purse=policy_allowance)
    row = rested(row)
    assert row.pools.get().count == 3
    assert row.scaling_decisions.get().signals == {"used_gpus": 4, "pending_gpus": 2, "queued": 2}
    until(lambda: slurm.states() == ["R"] * 6, "all six run")
    assert "3 of 3 ready" in page_of(row)
    log = page_of(row, name="cluster_policies")
    assert "2 → 3" in log
    assert "4 used, 2 pending" in log
    return row


def shrinks_and_ends_no_job(row: Cluster, slurm: Slurm) -> Cluster:
    """From three workers to one: as long as a job runs on the third it stays, and the job on the first runs on."""
    placed = dict(line.split("|") for line in slurm.lines("squeue", "--noheader", "--format=%N|%i"))
    first, _, third = (placed[name] for name in names(row, 3))
    others = set(slurm.lines("squeue", "--noheader", "--format=%i")) - {first, third}
    slurm.says("scancel", *others)
    policy = ScalingPolicy.objects.get(pool__cluster=row)
    until(lambda: busy(row) == ([1, 3], 3), "the head has told which workers are busy", seconds=BOOTS)
    round_now(policy)
    until(lambda: slurm.state_of(names(row, 2)[1]) == "drained", "the second is drained", seconds=BOOTS)
    until(lambda: ordered(row), "the head has told so", seconds=BOOTS)
    round_now(policy)
    assert row.pools.get().count == 3
    refused = row.scaling_decisions.filter(outcome="refused").latest("pk").refused
    assert refused == "work still runs on worker 3, so it stays until that has ended"
    assert refused in page_of(row, name="cluster_policies")

    slurm.says("scancel", third)
    until(lambda: busy(row) == ([1], 1), "the head has told that the third is idle", seconds=BOOTS)
    round_now(policy)
    row = rested(row)
    assert row.pools.get().count == 1
    assert "1 of 1 ready" in page_of(row)
    assert slurm.lines("squeue", "--noheader", "--format=%i|%t") == [f"{first}|R"]
    gone = "workers that are gone are not in sinfo"
    until(
        lambda: slurm.lines("sinfo", "--noheader", "--Node", "--format=%N") == names(row, 1),
        gone,
        seconds=BOOTS,
    )
    return row


def busy(cluster: Cluster) -> tuple[list[int], int]:
    found = ClusterQueue.objects.get(cluster=cluster).workers.get("gpu", {})
    return found.get("busy", []), found.get("least", 0)


def ordered(cluster: Cluster) -> bool:
    return bool(ClusterQueue.objects.get(cluster=cluster).workers["gpu"]["drain"])


def told(cluster: Cluster) -> list[dict[str, Any]]:
    found = ClusterQueue.objects.filter(cluster=cluster).first()
    return found.pools if found else []
