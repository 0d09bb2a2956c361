"""The head of a Slurm cluster that runs."""

import subprocess
from collections.abc import Callable

from deploy.lab.openstack import Lab
from gpuaas.clusters.models import Cluster, ClusterJob
from tests.lab.fixtures import until

WRAPPED = '#!/bin/sh\n/usr/bin/sbatch "$@"; sleep 3600\n'
SBATCH, QUEUE = "/usr/local/bin/sbatch", "gpuaas-queue"
COUNTED = ("sacct", "--user=bob", "--allocations", "--noheader", "--parsable2", "--format=jobname,state")


class Slurm:
    """Spoken to on its head, as root."""

    def __init__(self, lab: Lab, cluster: Cluster) -> None:
        self.machine = lab.machine(f"{cluster.external_name}-control-1")

    def tries(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self.machine.run(*command)

    def says(self, *command: str) -> str:
        done = self.tries(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def lines(self, *command: str) -> list[str]:
        return self.says(*command).split()

    def as_bob(self, command: str) -> str:
        return self.says("runuser", "--user", "bob", "--", "sh", "-c", command).strip()

    def submit(self, gpus: int, *options: str) -> str:
        """As a member; it sleeps until it is canceled."""
        return self.as_bob(
            f"sbatch --parsable --chdir=/tmp --gpus={gpus} {' '.join(options)} --wrap='sleep infinity'"
        )

    def states(self) -> list[str]:
        return sorted(self.lines("squeue", "--noheader", "--format=%t"))

    def state_of(self, worker: str) -> str:
        return self.says("sinfo", "--noheader", "--Node", "--nodes", worker, "--format=%T").strip()

    def idle(self) -> list[str]:
        found = self.lines("sinfo", "--noheader", "--Node", "--format=%N|%T")
        return sorted(one.partition("|")[0] for one in found if one.endswith("|idle"))

    def dies_while_it_submits(
        self, submit: Callable[[], ClusterJob], name: str, seconds: float
    ) -> ClusterJob:
        """Its report, of which nobody hears: Slurm has the job of this name by then."""
        self.says("systemctl", "stop", f"{QUEUE}.timer")
        self.says("sh", "-c", f"printf '%s' '{WRAPPED}' > {SBATCH}; chmod 755 {SBATCH}")
        job = submit()
        self.says("systemctl", "start", "--no-block", f"{QUEUE}.service")
        until(lambda: name in self.names(), "Slurm has it", seconds=seconds)
        self.says("systemctl", "kill", "--signal=KILL", f"{QUEUE}.service")
        self.says("rm", SBATCH)
        return job

    def names(self) -> list[str]:
        """Of bob's jobs, whatever became of them."""
        return [line.partition("|")[0] for line in self.says(*COUNTED).splitlines()]
