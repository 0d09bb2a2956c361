"""The keys of movers on the head of a Slurm cluster: in a file of their user's while Slurm has the mover, and in nothing that Slurm
keeps or prints."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuaas.clusters.services.movers import SHELL
from gpuaas.staging.rclone import failure_of, script_of
from gpuaas.staging.transfers import Way
from tests.providers.openstack_clusters.test_slurm_jobs import ID, ORDER, OTHER, Machine

SECRET = "[t0]\ntype = s3\nsecret_access_key = wJalrXUtnFEMI/K7MDENG\n"
MOVER: dict[str, Any] = {**ORDER, "name": "train-in", "gpus_per_node": 0, "keys": SECRET}
ENDED = f"0|FAILED|3:0|1700000000|1700000060|gpuaas:{ID}"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def everywhere(machine: Machine) -> list[str]:
    """Files that have what is secret."""
    found = [path for path in machine.root.rglob("*") if path.is_file() and "wJalr" in path.read_text()]
    return [str(path.relative_to(machine.root)) for path in found]


def test_keys_are_in_a_file_of_their_user_and_nowhere_else(machine: Machine) -> None:
    assert machine.take(MOVER) == "1"
    assert machine.keys == {ID: SECRET}
    path = f"{machine.root}/keys/{ID}"
    assert machine.lines("installed") == [f"--owner=bob --group=bob --mode=0600 /dev/stdin {path}"]
    assert (machine.root / "keys").stat().st_mode & 0o777 == 0o711, "nobody but root makes files there"
    assert f"RCLONE_CONFIG={path}" in machine.lines("around.0")
    assert not [line for line in machine.lines("options.0") if line.startswith("--gpus")]
    machine.report()
    assert everywhere(machine) == [f"keys/{ID}"]


def test_they_are_there_as_long_as_slurm_has_the_mover(machine: Machine) -> None:
    machine.take(MOVER)
    for state in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED"):
        machine.write("queue.bob", f"0|{state}|1700000000|None|gpuaas:{ID}")
        machine.report()
        assert machine.keys == {ID: SECRET}, state
    answers, machine.does["squeue"] = machine.does["squeue"], "exit 1"
    assert machine.run("report").returncode == 1
    assert machine.keys == {ID: SECRET}, "Slurm does not say"
    machine.does["squeue"] = answers
    machine.write("queue.bob", f"0|FAILED|1700000000|None|gpuaas:{ID}")
    machine.report()
    assert machine.keys == {}, "its accounting may be behind"


@pytest.mark.parametrize("account", [[ENDED], []])
def test_whatever_came_of_a_mover_its_keys_are_removed(machine: Machine, account: list[str]) -> None:
    machine.take(MOVER)
    machine.write("queue.bob")
    machine.write("account.bob", *account)
    machine.report()
    assert machine.keys == {}


def test_they_are_removed_with_a_job_that_the_portal_names_no_more(machine: Machine) -> None:
    machine.take(MOVER)
    machine.take({**ORDER, "id": OTHER, "login": "carol"})
    machine.report()
    assert machine.keys == {}


def test_those_of_one_that_slurm_refuses_are_removed(machine: Machine) -> None:
    machine.does["sbatch"] = "echo 'sbatch: error: Invalid partition name specified' >&2; exit 1"
    assert machine.take(MOVER) == "1"
    assert machine.report()[0]["state"] == "REFUSED"
    assert machine.keys == {}


@pytest.mark.parametrize("killed", ["install", "sbatch"])
def test_a_head_that_is_killed_meanwhile_submits_once_and_leaves_none(machine: Machine, killed: str) -> None:
    does = dict(machine.does)
    machine.does[killed] = f"{does[killed]}; kill -9 $PPID"
    assert machine.run("take", json.dumps({"jobs": [MOVER]})).returncode == -9
    machine.does = does
    machine.report()
    submitted = killed == "sbatch"
    assert machine.keys == ({ID: SECRET} if submitted else {})
    assert machine.take(MOVER) == ("" if submitted else "1")
    assert machine.keys == {ID: SECRET}
    assert len(machine.scripts) == 1


def test_without_them_nothing_is_submitted(machine: Machine) -> None:
    machine.does["install"] = "echo 'no space left on device' >&2; exit 1"
    assert machine.take(MOVER) == ""
    assert machine.scripts == []


def test_an_id_leads_to_no_other_file(machine: Machine) -> None:
    assert machine.take({**MOVER, "id": "../etc/passwd"}) == ""
    assert machine.scripts == []


# -- the script of a mover, in a shell ------------------------------------------------------------------------------


def moved(root: Path, rclone: str, folder: str = "in") -> subprocess.CompletedProcess[str]:
    """In a home that is empty but for a link that leads out."""
    for name in ("home", "tools", "secret"):
        (root / name).mkdir()
    (root / "home/out").symlink_to(root / "secret")
    (root / "keys").write_text(SECRET)
    for name in ("sh", "mkdir", "cat", "env"):
        (root / "tools" / name).symlink_to(f"/bin/{name}")
    if rclone:
        (root / "tools/rclone").write_text(f"#!/bin/sh\n{rclone}\n")
        (root / "tools/rclone").chmod(0o755)
    transfer = {"url": "s3://sets/digits", "credential": "archive", "volume": "", "folder": folder}
    script = SHELL + script_of(Way.IN, [transfer], {"": '"$HOME"'}, "the home")
    around = {"HOME": f"{root}/home", "PATH": f"{root}/tools", "RCLONE_CONFIG": f"{root}/keys"}
    around["SLURMD_NODENAME"] = "train-gpu-1"
    return subprocess.run(
        ["/bin/sh"], input=script, env=around, cwd=root, text=True, capture_output=True, check=False
    )


@pytest.mark.parametrize("code", [0, 7])
def test_a_mover_empties_its_keys_when_it_ends(tmp_path: Path, code: int) -> None:
    done = moved(tmp_path, f'cat "$RCLONE_CONFIG"; env; echo "$@"; exit {code}')
    assert done.returncode == code, done.stderr
    assert SECRET in done.stdout
    assert "copy t0:sets/digits /proc/self/cwd" in done.stdout
    assert {"RCLONE_CHECKSUM=true", "RCLONE_USE_JSON_LOG=true"} <= set(done.stdout.splitlines())
    assert (tmp_path / "keys").read_text() == ""
    assert (tmp_path / "home/in").is_dir()


def test_a_link_leads_it_nowhere_but_into_the_home(tmp_path: Path) -> None:
    done = moved(tmp_path, "echo copied", "out")
    assert (done.returncode, "copied" in done.stdout) == (1, False)
    assert failure_of(done.stdout, Way.IN, "").endswith("be moved: the folder leads out of the home")
    assert (tmp_path / "keys").read_text() == ""


def test_a_worker_without_rclone_says_so(tmp_path: Path) -> None:
    done = moved(tmp_path, "")
    assert done.returncode == 1
    assert failure_of(done.stdout, Way.IN, "").endswith("be moved: rclone is not on the worker train-gpu-1")
