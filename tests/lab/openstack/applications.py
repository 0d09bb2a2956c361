"""What one member installs on a Slurm cluster, another loads by `module` and starts on two machines, by MPI."""

import shlex
from datetime import timedelta

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_credential
from tenants.actors import Actor
from tests.lab.openstack.people import Head, enters

# MPI without a compiler: each rank gives its number plus one, and all get the sum
PROGRAM = """\
#!/usr/bin/python3
from ctypes import CDLL, RTLD_GLOBAL, addressof, byref, c_char, c_int, c_void_p
mpi = CDLL("libmpi.so.40", mode=RTLD_GLOBAL)
world, kind, add = (
    c_void_p(addressof(c_char.in_dll(mpi, name))) for name in ("ompi_mpi_comm_world", "ompi_mpi_int", "ompi_mpi_op_sum")
)
rank, size, total = c_int(), c_int(), c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, byref(rank))
mpi.MPI_Comm_size(world, byref(size))
mpi.MPI_Allreduce(byref(c_int(rank.value + 1)), byref(total), 1, kind, add, world)
mpi.MPI_Finalize()
print(f"{rank.value}/{size.value}={total.value}")
"""
INSTALL = f"""
set -e
mkdir /home/apps/total /home/apps/modules/total
printf %s {shlex.quote(PROGRAM)} > /home/apps/total/total
chmod 755 /home/apps/total/total
printf '#%%Module\nprepend-path PATH /home/apps/total\n' > /home/apps/modules/total/1.0
"""
LOAD = "bash -lc 'module use /home/apps/modules && module load total/1.0 && srun --nodes=2 --ntasks-per-node=1 --gpus-per-node=1 total'"
TAKE_AWAY = "rm --recursive --force /home/apps/total"


def applications_are_shared(head: Head, row: Cluster, bob: Actor, carol: Actor) -> None:
    has = {
        actor.name: cluster_credential(actor=actor, cluster=row, lifetime=timedelta(hours=1))
        for actor in (bob, carol)
    }
    done = enters(head, has["bob"], INSTALL)
    assert done.returncode == 0, done.stdout + done.stderr
    done = enters(head, has["carol"], LOAD)
    assert sorted(done.stdout.split()) == ["0/2=3", "1/2=3"], done.stdout + done.stderr
    done = enters(head, has["carol"], TAKE_AWAY)
    assert "Operation not permitted" in done.stderr or "Permission denied" in done.stderr, (
        done.stdout + done.stderr
    )
    assert enters(head, has["bob"], f"{TAKE_AWAY} && ls /home/apps").stdout.split() == ["modules"]
