"""Real launchers in jobs of several tasks on a real kubelet: their processes are in different pods, and add up over the network."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from deploy.lab.node import Lab
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import MPI, Change, JobPhase, JobSpec, ObservedJob
from gpuaas.providers.kubernetes.launcher import secret_name
from gpuaas.providers.kubernetes.tasks import INDEX
from tests.lab.fixtures import LabSite, carry_out, until
from tests.lab.jobs import seen
from tests.lab.kubernetes.kubectl import Kubectl
from tests.lab.node.place import Place
from tests.lab.node.test_jobs import spec_of as shell_of
from tests.lab.node.test_workspace import L4, free
from tests.providers.kubernetes.conftest import Room, forget, make_room, make_spec

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

OVER = {JobPhase.SUCCEEDED, JobPhase.FAILED}
# each process adds its rank + 1 to those of the others; torchrun starts them without a buffer, so a line is whole only in one write
TORCH = """
import os, socket, torch, torch.distributed as group
group.init_process_group("gloo")
number = torch.tensor([group.get_rank() + 1])
group.all_reduce(number)
line = f"rank {group.get_rank()} of {group.get_world_size()} on {socket.gethostname()} sum {number.item()}\\n"
os.write(1, line.encode())
"""

OPENMPI = """
import socket
from mpi4py.MPI import COMM_WORLD as group
print("rank", group.rank, "of", group.size, "on", socket.gethostname(), "sum", group.allreduce(group.rank + 1), flush=True)
"""
# mpi4py is built for OpenMPI: MPICH's own library by its numbers for COMM_WORLD, INT and SUM. All of them talk for a second before
# they end: MPI_Finalize of MPICH 4.0 waits for connections that are only half made, whose other side no longer answers by then
MPICH = """
import ctypes, socket, time
mpi, rank, size, number = ctypes.CDLL("libmpich.so.12"), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(0x44000000, ctypes.byref(rank))
mpi.MPI_Comm_size(0x44000000, ctypes.byref(size))
own = ctypes.c_int(rank.value + 1)
assert mpi.MPI_Allreduce(ctypes.byref(own), ctypes.byref(number), 1, 0x4C000405, 0x58000003, 0x44000000) == 0
print("rank", rank.value, "of", size.value, "on", socket.gethostname(), "sum", number.value, flush=True)
for _ in range(50):
    assert mpi.MPI_Barrier(0x44000000) == 0
    time.sleep(0.02)
mpi.MPI_Finalize()
"""


@pytest.fixture
def bought(node_lab: Lab) -> Iterator[Room]:
    site = LabSite(node_lab.kubeconfig)
    spec = make_spec(gpus=(replace(L4, count=4),), vcpus=2, memory_gib=4, closed=())
    yield make_room(site, spec)
    forget(site, spec)


def spec_of(bought: Room, image: str, script: str = "", /, **changes: object) -> JobSpec:
    return shell_of(bought, script, image=image, tasks=2, at_once=2, together=True, **changes)


def mpi_of(bought: Room, image: str, *command: str, gpus: int = 0, **changes: object) -> JobSpec:
    return spec_of(bought, image, command=command, launcher=MPI, gpus=gpus, **changes)


def ended(bought: Room, spec: JobSpec) -> tuple[ObservedJob, list[str]]:
    """With what its tasks have said, if it has not succeeded, as far as the site has not removed their pods after the first that
    failed."""
    site, logs = bought.driver.jobs, []
    found = seen(site, spec, lambda each: each.phase in OVER, "it has ended")
    for task in () if found.phase is JobPhase.SUCCEEDED else range(2):
        with suppress(NotFound):
            logs.append(site.log(spec, lines=50, task=task))
    return found, logs


def said(bought: Room, spec: JobSpec, task: int = 0) -> list[str]:
    """The lines of its program in the log of a task."""
    log = bought.driver.jobs.log(spec, lines=50, task=task)
    return sorted(line for line in log.splitlines() if line.startswith("rank"))


def lines_of(spec: JobSpec, processes: int) -> list[str]:
    """As each process writes one: as many in each of two tasks."""
    total = sum(range(1, processes + 1))
    each = processes // 2
    return [
        f"rank {rank} of {processes} on {spec.name}-{rank // each} sum {total}" for rank in range(processes)
    ]


@pytest.mark.parametrize("gpus", [0, 2])
def test_torchrun_needs_no_option(node_lab: Lab, bought: Room, gpus: int) -> None:
    """A process for each GPU, one without any."""
    image, site = node_lab.load_system("torch"), bought.driver.jobs
    script = f"cat > /tmp/train.py <<'END'\n{TORCH}\nEND\nexec torchrun /tmp/train.py"
    spec = spec_of(bought, image, script, gpus=gpus, memory_gib=2)
    carry_out(site, Change.CREATE, spec)
    found, logs = ended(bought, spec)
    assert (found.phase, found.succeeded) == (JobPhase.SUCCEEDED, "0-1"), logs
    wanted = lines_of(spec, 2 * max(gpus, 1))
    assert said(bought, spec) + said(bought, spec, task=1) == wanted
    carry_out(site, Change.DELETE, spec)


@pytest.mark.parametrize(
    ("launch", "program", "gpus"),
    [("mpirun", OPENMPI, 0), ("mpirun", OPENMPI, 2), ("mpiexec.hydra", MPICH, 2)],
)
def test_mpi_starts_a_process_for_each_gpu(
    node_lab: Lab, bought: Room, launch: str, program: str, gpus: int
) -> None:
    """Without an option. Task 0 has what all have written; the other one ends with it."""
    site, before = bought.driver.jobs, free(bought.admin)
    spec = mpi_of(bought, node_lab.load_system("mpi"), launch, "python3", "-c", program, gpus=gpus)
    carry_out(site, Change.CREATE, spec)
    found, logs = ended(bought, spec)
    assert (found.phase, found.succeeded) == (JobPhase.SUCCEEDED, "0-1"), logs
    assert said(bought, spec) == lines_of(spec, 2 * max(gpus, 1))
    assert "KEY" not in "".join(site.log(spec, lines=50, task=each) for each in range(2))
    carry_out(site, Change.SUSPEND, spec)
    assert [each["metadata"]["name"] for each in bought.admin.items(bought.path("secrets"))] == []
    assert free(bought.admin) == before


def test_what_the_order_sets_is_in_the_processes_of_all_tasks(node_lab: Lab, bought: Room) -> None:
    """SSH would give them none of it. A word with quotes comes as it is."""
    script = 'echo "rank $OMPI_COMM_WORLD_RANK $NODE_RANK $WORD $(basename "$PWD")"'
    spec = mpi_of(
        bought, node_lab.load_system("mpi"), "mpirun", "sh", "-c", script, variables={"WORD": 'it\'s "here"'}
    )
    carry_out(bought.driver.jobs, Change.CREATE, spec)
    found, logs = ended(bought, spec)
    assert found.phase is JobPhase.SUCCEEDED, logs
    assert said(bought, spec) == [f'rank {each} {each} it\'s "here" /' for each in range(2)]
    carry_out(bought.driver.jobs, Change.DELETE, spec)


def test_a_program_that_fails_is_the_failure_of_the_job(node_lab: Lab, bought: Room) -> None:
    """The next attempt has a key of its own."""
    site, image = bought.driver.jobs, node_lab.load_system("mpi")
    spec = mpi_of(bought, image, "sh", "-c", "mpirun hostname && exit 5", retries=1)
    carry_out(site, Change.CREATE, spec)
    found, logs = ended(bought, spec)
    assert (found.phase, found.failed, found.exit_code) == (JobPhase.FAILED, "0", 5), logs
    secrets = bought.path("secrets")
    first = bought.admin.get(f"{secrets}/{secret_name(spec)}")
    again = replace(spec, attempt=2, command=("mpirun", "hostname"))
    carry_out(site, Change.CREATE, again)
    second = bought.admin.get(f"{secrets}/{secret_name(again)}")
    assert first["data"]["key"] != second["data"]["key"]
    found, logs = ended(bought, again)
    assert (found.phase, found.attempt) == (JobPhase.SUCCEEDED, 2), logs
    carry_out(site, Change.DELETE, again)
    until(lambda: bought.admin.items(secrets) == [], "the site has removed the Secret of the first attempt")


@pytest.mark.parametrize("how", ["its processes", "the pod"])
def test_a_worker_that_is_killed_ends_the_job(node_lab: Lab, bought: Room, how: str) -> None:
    site, place = bought.driver.jobs, Place(Kubectl(node_lab.control), bought.spec.external_name)
    script = 'echo "rank $OMPI_COMM_WORLD_RANK"; sleep 86400'
    spec = mpi_of(bought, node_lab.load_system("mpi"), "mpirun", "sh", "-c", script)
    carry_out(site, Change.CREATE, spec)
    seen(site, spec, lambda each: each.phase is JobPhase.RUNNING, "both run")
    until(lambda: said(bought, spec) == ["rank 0", "rank 1"], "each has its process")
    (worker,) = (
        each["metadata"]["name"]
        for each in bought.admin.items(bought.path("pods"), labelSelector=f"{INDEX}=1")
    )
    if how == "the pod":
        place.run("delete", "pod", worker, "--wait=false")
    else:
        place.execute(worker, "kill -9 -1")
    found = seen(site, spec, lambda each: each.phase is JobPhase.FAILED, "the job has failed")
    assert found.reason in {"Error", "Evicted"}
    carry_out(site, Change.DELETE, spec)
