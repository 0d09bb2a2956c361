"""Files of jobs on a real Slurm, from and to a real S3 server beside the head: whole both ways, and nothing of the key stays."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.lab.node.programs import Programs
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.services import cluster_job_retry, cluster_job_submit
from gpuaas.jobs.services import credential_create
from tenants.actors import Actor
from tests.lab.fixtures import until
from tests.lab.openstack.booting import BOOTS
from tests.lab.openstack.head import Slurm

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMIK7MDENG"
KEYS, FILES = "/home/.gpuaas/keys", 300
# systemd lets a service be started a few times in ten seconds
LOOKS = ("sh", "-c", "systemctl reset-failed gpuaas-queue.service; systemctl start gpuaas-queue.service")
SUM = "find . -type f | sort | xargs sha256sum | sha256sum"
MAKES = (
    f"mkdir -p sets/digits/deep results && cd sets/digits && for each in $(seq {FILES}); do "
    "head -c 3000 /dev/urandom > deep/f$each; done && head -c 50000000 /dev/urandom > big"
)
TRAINS = f"""
if cat {KEYS}/* 2> /dev/null; then echo a key; fi
if ls {KEYS} 2> /dev/null; then echo names of keys; fi
env | grep RCLONE
cp -r data/digits out
"""
ACCOUNT = ("sacct", "--user=bob", "--allocations", "--noheader", "--parsable2")


@contextmanager
def s3(slurm: Slurm, folder: Path) -> Iterator[str]:
    """Of the newest rclone; its URL, for the machines."""
    programs = Programs()
    programs.ensure(print)
    subprocess.run(["sh", "-c", MAKES], cwd=folder, check=True)
    machine = slurm.machine
    command = [
        "ip",
        "netns",
        "exec",
        machine.namespace,
        str(programs.path("rclone")),
        "serve",
        "s3",
        str(folder),
    ]
    served = subprocess.Popen([*command, "--addr", ":9000", "--auth-key", f"{KEY},{SECRET}"])
    try:
        yield f"http://{machine.wish.address}:9000"
    finally:
        served.kill()
        served.wait()


def files_come_and_go(slurm: Slurm, row: Cluster, alice: Actor, bob: Actor, folder: Path) -> None:
    with s3(slurm, folder) as url:
        credential_create(
            actor=alice, project=row.project, name="archive", access_key_id=KEY, secret=SECRET, endpoint=url
        )
        waits_with_its_key_in_a_file_of_its_own(slurm, row, bob)
        comes_back_whole(slurm, folder)
        is_not_moved_twice(slurm, row, bob)
        is_never_run_without_its_inputs(slurm, row, bob)
        is_moved_once_though_its_head_was_killed(slurm, row, bob)


def ordered(bob: Actor, row: Cluster, name: str, bucket: str = "sets", **more: object) -> ClusterJob:
    files = {"inputs": [{"url": f"s3://{bucket}/digits", "credential": "archive", "folder": "data/digits"}]}
    given = {"name": name, "script": TRAINS, "gpus_per_node": 1, **files, **more}
    return cluster_job_submit(actor=bob, cluster=row, given=given)


def rests(slurm: Slurm, job: ClusterJob, state: str, seconds: float = BOOTS) -> ClusterJob:
    """The head reports at each look, so that nobody waits for its timer."""

    def look() -> bool:
        slurm.says(*LOOKS)
        job.refresh_from_db()
        return job.state == state or not job.is_open

    until(look, f"{job.name} is {state}", seconds=seconds)
    assert job.state == state, (job.state, job.reason, job.moved)
    return job


def waits_with_its_key_in_a_file_of_its_own(slurm: Slurm, row: Cluster, bob: Actor) -> None:
    worker = f"{row.external_name}-gpu-1"
    slurm.says("scontrol", "update", f"nodename={worker}", "state=drain", "reason=looked at")
    out = [{"url": "s3://results/run-1", "credential": "archive", "folder": "out"}]
    job = ordered(bob, row, "files", outputs=out)

    def waits() -> bool:
        slurm.says(*LOOKS)
        job.refresh_from_db()
        return job.mover_slurm_id is not None

    until(waits, "Slurm has its mover", seconds=BOOTS)
    assert (job.state, slurm.states()) == ("staging_in", ["PD"])
    assert slurm.lines("ls", KEYS) == [str(job.mover)]
    path = f"{KEYS}/{job.mover}"
    assert slurm.lines("stat", "--format=%U %G %a", path) == ["bob", "bob", "600"]
    assert slurm.tries("runuser", "--user", "nobody", "--", "cat", path).returncode != 0
    number = str(job.mover_slurm_id)
    for told in (
        slurm.says("scontrol", "--details", "show", "job", number),
        slurm.says("scontrol", "write", "batch_script", number, "-"),
        slurm.says("sacct", "--jobs", number, "--format=ALL", "--parsable2"),
        slurm.says("sh", "-c", "ps -ef; journalctl --no-pager"),
        slurm.tries("grep", "--recursive", "--text", SECRET, "/var/spool", "/var/log", "/home/bob").stdout,
    ):
        assert SECRET not in told
    assert SECRET in slurm.says("cat", path)
    slurm.says("scontrol", "update", f"nodename={worker}", "state=resume")
    rests(slurm, job, "succeeded", 2 * BOOTS)
    assert job.log == "", "neither a key nor a name of one, nor anything of rclone"
    assert (job.exit_code, job.moved["in"]["0"]["files"], job.moved["out"]["0"]["files"]) == (
        0,
        FILES + 1,
        FILES + 1,
    )


def comes_back_whole(slurm: Slurm, folder: Path) -> None:
    sums = [
        subprocess.check_output(["sh", "-c", SUM], cwd=folder / each)
        for each in ("sets/digits", "results/run-1")
    ]
    assert sums[0] == sums[1]
    slurm.says(*LOOKS)
    assert slurm.lines("ls", KEYS) == []
    rows = slurm.says(*ACCOUNT, "--format=jobname,state,alloctres").splitlines()
    mine = sorted(each.split("|") for each in rows if each.startswith("files"))
    assert [each[:2] for each in mine] == [[name, "COMPLETED"] for name in ("files", "files-in", "files-out")]
    assert ["gpu" in each[2] for each in mine] == [True, False, False]


def is_not_moved_twice(slurm: Slurm, row: Cluster, bob: Actor) -> None:
    job = rests(slurm, ordered(bob, row, "again"), "succeeded")
    counts = job.moved["in"]["0"]
    assert (counts["files"], counts["checked"]) == (0, FILES + 1)


def is_never_run_without_its_inputs(slurm: Slurm, row: Cluster, bob: Actor) -> None:
    job = rests(slurm, ordered(bob, row, "lacks", bucket="nowhere"), "failed")
    assert job.reason.startswith("its inputs could not be moved: ")
    assert SECRET not in job.reason
    cluster_job_retry(actor=bob, job=job)
    rests(slurm, job, "failed")
    names = slurm.names()
    assert (names.count("lacks-in"), names.count("lacks")) == (2, 0)
    slurm.says(*LOOKS)
    assert slurm.lines("ls", KEYS) == []


def is_moved_once_though_its_head_was_killed(slurm: Slurm, row: Cluster, bob: Actor) -> None:
    job = slurm.dies_while_it_submits(lambda: ordered(bob, row, "killed"), "killed-in", BOOTS)
    job.refresh_from_db()
    assert (job.state, job.mover_slurm_id) == ("staging_in", None), "the portal has no report of it"
    slurm.says("systemctl", "start", "gpuaas-queue.timer")
    rests(slurm, job, "succeeded")
    assert [slurm.names().count(name) for name in ("killed-in", "killed")] == [1, 1]
    slurm.says(*LOOKS)
    assert slurm.lines("ls", KEYS) == []
