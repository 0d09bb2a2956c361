"""What a head does with the jobs of an answer, with Slurm's programs played: each is submitted once, however often the head is killed,
and nothing that people write is run by root."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuaas.providers.openstack.clusters import slurm_jobs
from gpuaas.providers.openstack.clusters.slurm_jobs import JSON_MOST, LOG_MOST, TOGETHER_MOST
from tests.clusters.test_queue_reports import queue_run

ID, OTHER = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
EVIL = "#!/bin/sh\necho $(touch /pwned) `id` '\"; rm -rf ~\n"
ORDER: dict[str, Any] = {
    "id": ID,
    "slurm_id": None,
    "login": "bob",
    "since": 1_700_000_000,
    "submit": True,
    "cancel": False,
    "name": "train",
    "script": EVIL,
    "partition": "gpu",
    "nodes": 2,
    "tasks": 4,
    "gpus_per_node": 1,
    "cpus_per_task": 3,
    "memory_gib": 8,
    "minutes": None,
}
SBATCH = """n=$(ls {root} | grep -c '^script')
for each; do case $each in --comment=*) comment=${{each#--comment=}};; esac; done
cat > {root}/script.$n
printf '%s\\n' "$@" > {root}/options.$n
env > {root}/around.$n
echo "$n|PENDING|N/A|Resources|$comment" >> {root}/queue.$USER
echo $n"""

# by the format that it is given: a mark, and what comes behind it; `raw` is what comments have put in between
SQUEUE = """for file in {root}/queue.*; do
  [ -e "$file" ] && sed "s/^[0-9]*|/${{SQUEUE_FORMAT%%|*}}|&${{file##*.}}|/" "$file"
done
cat {root}/raw 2> /dev/null
true"""


class Machine:
    """A head below a folder; does: what each program does instead."""

    def __init__(self, root: Path) -> None:
        self.root, self.etc, self.tools = root, root / "etc", root / "tools"
        for folder in (self.etc, self.tools):
            folder.mkdir()
        self.does = {
            "setpriv": f'echo "$*" >> {root}/users; shift 3; exec "$@"',
            "squeue": SQUEUE.format(root=root),
            "sacct": f'cat {root}/account."${{1#--user=}}" 2> /dev/null; true',
            "scancel": f'echo "$*" >> {root}/cancelled',
            "mkdir": f'echo "$*" >> {root}/folders',
            "tail": f'cat {root}/log."${{3##*-}}"',
            "sbatch": SBATCH.format(root=root),
            "install": f'echo "$*" >> {root}/installed; for path; do :; done; cat > "$path"',
        }
        (self.etc / "logins.json").write_text('["bob", "carol"]')

    def write(self, name: str, *lines: str) -> None:
        (self.root / name).write_text("".join(f"{line}\n" for line in lines))

    def lines(self, name: str) -> list[str]:
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []

    @property
    def scripts(self) -> list[str]:
        return [path.read_text() for path in sorted(self.root.glob("script.*"))]

    def run(self, deed: str, given: str = "") -> subprocess.CompletedProcess[str]:
        for name, words in self.does.items():
            (self.tools / name).write_text(f"#!/bin/sh\n{words}\n")
            (self.tools / name).chmod(0o755)
        around = {"PATH": f"{self.tools}:{os.environ['PATH']}", "SECRET": "of root's"}
        command = [sys.executable, slurm_jobs.__file__, deed, str(self.etc), str(self.root / "keys")]
        return subprocess.run(command, input=given, env=around, text=True, capture_output=True, check=False)

    def take(self, *orders: Mapping[str, Any]) -> str:
        return self.run("take", json.dumps({"jobs": orders})).stdout.strip()

    def report(self) -> list[dict[str, Any]]:
        done = self.run("report")
        assert done.returncode == 0, done.stderr
        parts = json.loads(f"{{{done.stdout.rstrip(', ')}}}")
        assert parts["moves"] is True
        found: list[dict[str, Any]] = parts["jobs"]
        return found

    @property
    def keys(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.root.glob("keys/*")}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_job_is_submitted_as_its_user_with_its_script_as_it_is(machine: Machine) -> None:
    assert machine.take(ORDER) == "1"
    assert machine.scripts == [EVIL]
    assert machine.lines("options.0") == [
        "--parsable",
        "--ignore-pbs",
        f"--comment=gpuaas:{ID}",
        "--job-name=train",
        "--chdir=/home/bob",
        "--output=/home/bob/gpuaas-jobs/train-%j.log",
        "--partition=gpu",
        "--nodes=2",
        "--ntasks=4",
        "--cpus-per-task=3",
        "--gpus-per-node=1",
        "--mem=8G",
    ]
    assert all(
        line.startswith("--reuid=bob --regid=bob --init-groups env") for line in machine.lines("users")
    )
    around = machine.lines("around.0")
    assert {"HOME=/home/bob", "USER=bob"} <= set(around)
    assert not any(line.startswith(("SECRET", "SBATCH", "SLURM")) for line in around)
    assert machine.lines("folders") == ["--parents -- /home/bob/gpuaas-jobs"]
    kept = (machine.etc / "jobs.json").read_text()
    assert "script" not in kept, "what people write is not kept where it is not needed"


def test_what_is_there_already_is_submitted_by_no_repetition(machine: Machine) -> None:
    machine.take(ORDER)
    assert machine.take(ORDER) == ""
    machine.write("queue.bob", f"0|COMPLETED|1700000000|None|gpuaas:{ID}")
    assert machine.take(ORDER) == "", "its accounting is behind its controller"
    assert machine.report() == [], "how it ended is in the account"
    machine.write("queue.bob")
    machine.write("account.bob", f"0|COMPLETED|0:0|1700000000|1700000060|gpuaas:{ID}")
    assert machine.take(ORDER) == ""
    assert len(machine.scripts) == 1


def test_a_head_that_is_killed_while_it_submits_does_so_once(machine: Machine) -> None:
    machine.does["sbatch"] = SBATCH.format(root=machine.root) + "; kill -9 $PPID"
    assert machine.run("take", json.dumps({"jobs": [ORDER]})).returncode == -9
    machine.does["sbatch"] = SBATCH.format(root=machine.root)
    assert machine.report() == [{"id": ID, "state": "PENDING", "slurm_id": 0, "reason": "Resources"}]
    assert machine.take(ORDER) == ""
    assert len(machine.scripts) == 1


@pytest.mark.parametrize("program", ["squeue", "sacct"])
def test_nothing_is_submitted_while_slurm_does_not_say_what_it_has(machine: Machine, program: str) -> None:
    answers = machine.does[program]
    machine.does[program] = "exit 1"
    assert machine.take(ORDER) == ""
    done = machine.run("report")
    assert done.stdout in {"", '"jobs": [], "moves": true, '}
    machine.does[program] = answers
    assert machine.take(ORDER) == "1"


def test_a_comment_of_somebody_else_is_not_believed(machine: Machine) -> None:
    machine.write("queue.carol", f"7|RUNNING|1700000000|None|gpuaas:{ID}")
    machine.write("queue.bob", f"8|RUNNING|1700000000|None|x|gpuaas:{ID}")
    assert machine.take(ORDER) == "1"


def test_a_comment_with_lines_names_nobody_elses_job(machine: Machine) -> None:
    cancel = {**ORDER, "submit": False, "cancel": True}
    forged = f"7|bob|RUNNING|1700000000|None|gpuaas:{ID}"
    machine.write("raw", forged, f"{'0' * 32}|{forged}", f"|{forged}")
    machine.write("queue.bob", f"8|RUNNING|1700000000|None|x\x85{'0' * 32}|{forged}")
    assert machine.take(cancel) == ""
    assert machine.lines("cancelled") == []
    assert machine.report() == [{"id": ID, "state": "GONE"}]


@pytest.mark.parametrize(
    "wrong", [{"login": "root;id"}, {"login": "olga"}, {"name": "../../etc/passwd"}, {"login": "-u0"}]
)
def test_who_may_not_enter_or_is_no_user_submits_nothing(machine: Machine, wrong: dict[str, str]) -> None:
    assert machine.take({**ORDER, **wrong}) == ""
    assert machine.scripts == []


def test_what_slurm_never_takes_is_told_and_not_tried_again(machine: Machine) -> None:
    machine.does["sbatch"] = (
        "echo 'sbatch: error: Batch job submission failed: Requested node configuration is not available' >&2; exit 1"
    )
    assert machine.take(ORDER) == "1"
    machine.write("queue.bob", f"4|FAILED|1700000000|BadConstraints|gpuaas:{ID}")
    words = "Batch job submission failed: Requested node configuration is not available"
    assert machine.report() == [{"id": ID, "state": "REFUSED", "reason": words}]
    assert machine.take(ORDER) == ""
    machine.take()
    assert json.loads((machine.etc / "jobs.refused").read_text()) == {}, "forgotten with the job"


def test_what_may_be_otherwise_the_next_time_is_tried_again(machine: Machine) -> None:
    taken = machine.does["sbatch"]
    machine.does["sbatch"] = "echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2; exit 1"
    assert machine.take(ORDER) == ""
    words = "Batch job submission failed: Socket timed out"
    assert machine.report() == [{"id": ID, "state": "ERROR", "error": words}]
    machine.does["sbatch"] = taken
    assert machine.take(ORDER) == "1"


def test_jobs_of_one_person_are_submitted_as_they_were_ordered(machine: Machine) -> None:
    orders = [
        {**ORDER, "id": str(uuid.UUID(int=number)), "login": login, "script": f"{login} {number}"}
        for number, login in enumerate(["bob", "carol", "bob", "carol", "bob"], 1)
    ]
    assert machine.take(*orders) == "5"
    found = [one for one in machine.scripts if one.startswith("bob")]
    assert found == ["bob 1", "bob 3", "bob 5"]


def test_what_fails_for_one_order_leaves_the_others_alone(machine: Machine) -> None:
    carols, cancel = {**ORDER, "id": OTHER, "login": "carol"}, str(uuid.UUID(int=3))
    machine.write("queue.bob", f"8|PENDING|N/A|Resources|gpuaas:{cancel}")
    machine.does["mkdir"] = "case $* in *bob*) exit 1;; esac"
    assert machine.take(ORDER, carols, {**ORDER, "id": cancel, "submit": False, "cancel": True}) == "2"
    assert machine.lines("cancelled") == ["--user=bob 8"]
    found = {one["id"]: one for one in machine.report()}
    assert found[ID] == {
        "id": ID,
        "state": "ERROR",
        "error": "the folder gpuaas-jobs in the home cannot be made",
    }
    assert found[OTHER]["state"] == "PENDING"


def test_an_account_that_does_not_answer_for_one_is_asked_for_the_others(machine: Machine) -> None:
    machine.does["sacct"] = "case $* in *bob*) exit 1;; esac"
    assert machine.take(ORDER, {**ORDER, "id": OTHER, "login": "carol"}) == "1"
    assert [one["id"] for one in machine.report()] == [OTHER], "nothing is said of what is not known"


def test_what_the_account_has_running_and_the_controller_has_not_is_gone(machine: Machine) -> None:
    machine.write("account.bob", f"4|RUNNING|0:0|1700000000|Unknown|gpuaas:{ID}")
    assert machine.take(ORDER) == "", "it was submitted"
    assert machine.report() == [{"id": ID, "state": "GONE"}]


def test_files_that_a_power_cut_has_halved_are_written_anew(machine: Machine) -> None:
    for name in ("jobs.json", "jobs.refused", "jobs.lacking"):
        (machine.etc / name).write_text("")
    assert machine.report() == []
    assert machine.take(ORDER) == "1"
    assert [one["id"] for one in machine.report()] == [ID]


def test_a_full_disk_keeps_nothing_from_its_end(machine: Machine) -> None:
    for name in ("jobs.json", "jobs.refused", "jobs.lacking"):
        (machine.etc / f".{name}.half").mkdir()
    machine.write("queue.bob", f"8|PENDING|N/A|Resources|gpuaas:{ID}")
    assert machine.take({**ORDER, "submit": False, "cancel": True}, {**ORDER, "id": OTHER}) == "1"
    assert machine.lines("cancelled") == ["--user=bob 8"]
    assert machine.scripts == []


def test_it_tells_how_jobs_are(machine: Machine) -> None:
    ended = {**ORDER, "id": OTHER, "slurm_id": 9}
    machine.write("queue.bob", f"8|RUNNING|1700000000|None|gpuaas:{ID}")
    machine.write(
        "account.bob",
        f"4|COMPLETED|0:0|1700000000|1700000060|gpuaas:{OTHER}",
        f"9|CANCELLED by 0|0:15|1700000000|1700000060|gpuaas:{OTHER}",
    )
    (machine.root / "log.8.log").write_bytes(b"one\x00two\xff\x1b[1m\n")
    machine.take({**ORDER, "submit": False}, {**ended, "submit": False})
    assert machine.report() == [
        {
            "id": ID,
            "state": "RUNNING",
            "slurm_id": 8,
            "reason": "",
            "started_at": 1_700_000_000,
            "log": "onetwo\ufffd\x1b[1m\n",
        },
        {
            "id": OTHER,
            "state": "CANCELLED",
            "slurm_id": 9,
            "reason": "",
            "exit_code": 143,
            "started_at": 1_700_000_000,
            "ended_at": 1_700_000_060,
        },
    ], "of two of one comment it is the one that was told before; a log that cannot be read is left out"


@pytest.mark.parametrize("text", ["x", "\x1b"])
def test_what_jobs_write_never_makes_a_report_too_long(machine: Machine, text: str) -> None:
    orders = [{**ORDER, "id": str(uuid.UUID(int=number)), "submit": False} for number in range(30)]
    machine.write(
        "account.bob", *(f"{at}|COMPLETED|0:0|1|2|gpuaas:{each['id']}" for at, each in enumerate(orders))
    )
    for number in range(30):
        (machine.root / f"log.{number}.log").write_text(text * 100_000)
    machine.take(*orders)
    seen = set()
    for _ in range(10):
        done = machine.report()
        assert len(json.dumps(done, ensure_ascii=False)) < TOGETHER_MOST + 30 * 300
        assert all(0 < len(one["log"]) <= LOG_MOST for one in done)
        assert all(len(json.dumps(one["log"])) <= JSON_MOST for one in done)
        seen |= {one["id"] for one in done}
        machine.take(*(each for each in orders if each["id"] not in seen))
    assert len(seen) == 30, "ends that did not fit are told the next time, with their logs"


def test_what_is_to_be_cancelled_is_cancelled_while_slurm_has_it(machine: Machine) -> None:
    cancel = {**ORDER, "submit": False, "cancel": True}
    assert machine.take(cancel) == ""
    assert machine.report() == [{"id": ID, "state": "GONE"}]
    machine.write("queue.bob", f"8|PENDING|N/A|Resources|gpuaas:{ID}", "9|PENDING|N/A|Resources|of his own")
    (machine.etc / "logins.json").write_text("[]")
    assert machine.take(cancel) == "1"
    assert machine.lines("cancelled") == ["--user=bob 8"], "also of somebody who may not enter any more"


def test_an_answer_of_an_older_portal_changes_nothing(machine: Machine) -> None:
    machine.take(ORDER)
    for answer in ('{"pools": []}', '{"jobs": null}'):
        assert machine.run("take", answer).returncode == 0
    assert [one["id"] for one in machine.report()] == [ID]


@pytest.mark.parametrize("refuses", [":", "if grep --quiet '\"jobs\"'; then exit 22; fi"])
def test_the_queue_is_reported_though_the_portal_refuses_what_is_of_jobs(
    tmp_path: Path, refuses: str
) -> None:
    (tmp_path / "states").write_text('"jobs": [], ')
    queue_run(tmp_path, "", {"pools": []}, refuses=refuses)
    report = json.loads((tmp_path / "told").read_text())
    assert "pools" in report
    assert ("jobs" in report) == (refuses == ":")
