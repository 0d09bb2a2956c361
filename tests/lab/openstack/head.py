"""The head of a Slurm cluster that runs."""

import subprocess

from deploy.lab.openstack import Lab
from gpuaas.clusters.models import Cluster


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
