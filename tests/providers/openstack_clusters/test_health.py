"""The check that Slurm runs on a worker, by bash, with the machine's programs played: what is wrong drains it, and no more than that."""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuaas.providers.base import ClusterKind
from tests.providers.openstack_clusters.stage import files, guest, installed, spec

TWO = "GPU 0: one\nGPU 1: two\n"
# what each program does where all is well
WELL = {
    "nvidia-smi": f"printf '{TWO}'".replace("\n", "\\n"),
    "findmnt": "echo /home",
    "mount": "exit 32",
    "stat": ":",
    "curl": "date --utc '+Date: %a, %d %b %Y %T GMT'",
}


@dataclass
class Worker:
    root: Path
    state: str = "idle"
    reason: str = "none"
    does: dict[str, str] = field(default_factory=dict)

    def check(self) -> list[str]:
        """What it then asked Slurm for."""
        made = spec(ClusterKind.SLURM)
        etc = installed(guest(made, made.pools[1]), self.root)
        tools, done = self.root / "tools", self.root / "done"
        tools.mkdir(exist_ok=True)
        done.write_text("")
        (self.root / "seen").write_text(f"{self.state:40}{self.reason}\n" * 2)
        slurm = {
            "sinfo": f"cat {self.root}/seen",
            "scontrol": f'echo "$@" >> {done}',
        }
        (etc / "node.env").write_text((etc / "node.env").read_text().replace("GPUS=8", "GPUS=2"))
        for name, words in {**WELL, **slurm, **self.does}.items():
            (tools / name).write_text(f"#!/bin/sh\n{words}\n")
            (tools / name).chmod(0o755)
        around = {"PATH": f"{tools}:{os.environ['PATH']}", "GPUAAS_ETC": str(etc)}
        subprocess.run([self.root / "usr/local/sbin/gpuaas-health"], env=around, check=True, timeout=60)
        return [line.replace(made.external_name, "{0}") for line in done.read_text().splitlines()]


WRONG = [
    ({"nvidia-smi": "printf 'GPU 0: one\\n'"}, "1 of 2 GPUs are seen"),
    ({"nvidia-smi": "echo 'No devices were found'; exit 6"}, "0 of 2 GPUs are seen"),
    ({"findmnt": "exit 1"}, "/home of the head is not mounted"),
    ({"stat": "exit 1"}, "/home of the head does not answer"),
    (
        {"curl": "date --utc --date '5 minutes 30 seconds' '+Date: %a, %d %b %Y %T GMT'"},
        "the clock is wrong: it is 5 minutes behind the portal's",
    ),
]


@pytest.mark.parametrize(("does", "words"), WRONG)
def test_what_is_wrong_drains_it_and_what_is_mended_lets_it_work_again(
    does: dict[str, str], words: str, tmp_path: Path
) -> None:
    drained = [f"update nodename={{0}}-big-1 state=drain reason=unhealthy: {words}"]
    assert Worker(tmp_path, does=does).check() == drained
    assert Worker(tmp_path, "draining", f"unhealthy: {words}", does).check() == [], "it is drained already"
    assert Worker(tmp_path, "drained", "unhealthy: something else", does).check() == drained
    assert Worker(tmp_path, "drained*", f"unhealthy: {words}").check() == [
        "update nodename={0}-big-1 state=resume"
    ]


def test_a_driver_that_hangs_holds_up_no_check(tmp_path: Path) -> None:
    """Its program cannot be killed: here another one goes on in its place. The next check does not start one more."""
    begun, goes_on = tmp_path / "begun", f"echo $$ >> {tmp_path}/begun; /bin/sleep 20 & exec /bin/sleep 20"
    words = "the driver of the GPUs does not answer"
    drained = [f"update nodename={{0}}-big-1 state=drain reason=unhealthy: {words}"]
    for _ in range(2):
        assert (
            Worker(tmp_path, does={"nvidia-smi": goes_on, "sleep": "exec /bin/sleep 0.01"}).check() == drained
        )
    assert len(begun.read_text().splitlines()) == 1


def test_a_home_that_came_late_is_mounted(tmp_path: Path) -> None:
    """As after an outage of head and worker, of which the worker came back first."""
    late = {"findmnt": "exit 1", "mount": f'echo "$@" > {tmp_path}/mounted'}
    assert Worker(tmp_path, does=late).check() == []
    assert (tmp_path / "mounted").read_text() == "/home\n"


@pytest.mark.parametrize("reason", ["gpuaas", "the fan is loud", "none"])
@pytest.mark.parametrize("does", [{}, WRONG[0][0]])
def test_what_others_have_drained_stays_so(does: dict[str, str], reason: str, tmp_path: Path) -> None:
    assert Worker(tmp_path, "drained", reason, does).check() == []


def test_a_worker_where_all_is_well_is_left_alone(tmp_path: Path) -> None:
    for state in ("idle", "mixed", "allocated", "down*"):
        assert Worker(tmp_path, state).check() == []


def test_a_portal_that_is_away_drains_nobody(tmp_path: Path) -> None:
    assert Worker(tmp_path, does={"curl": "exit 7"}).check() == []


def test_slurm_runs_it_where_workers_have_it() -> None:
    made = spec(ClusterKind.SLURM)
    head, worker = files(guest(made)), files(guest(made, made.pools[1]))
    lines = head["/etc/gpuaas/slurm.conf"].splitlines()
    (program,) = (line.partition("=")[2] for line in lines if line.startswith("HealthCheckProgram="))
    assert program in worker
    assert program not in files(guest(spec(), spec().pools[0]))
