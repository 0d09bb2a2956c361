"""Files of a job on a real kubelet, from and to a real S3 server: byte-equal both ways, resumed after the mover was killed, and no
GPU is held meanwhile."""

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from deploy.lab.node import Lab, images
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import credential_create, job_create
from gpuaas.jobs.states import JobState
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.jobs.stage import SECRET, run_now
from tests.lab.fixtures import LabSite, until
from tests.lab.kubernetes.kubectl import Kubectl
from tests.lab.node.place import TOOLS, Place, pod
from tests.lab.node.test_workspace import L4, free
from tests.providers.kubernetes.conftest import Room, forget, make_room, make_spec
from tests.providers.kubernetes.test_warden import stage as workspace_row

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600), pytest.mark.django_db(transaction=True)]

RCLONE, KEY = images.reference("rclone"), "AKIDEXAMPLE"
FILES, BIG = 10_000, 2 * 1024**3  # bytes
STAGED_GIB = 5  # both ways
KILLED_AFTER = 500  # files
SERVES = (
    "mkdir -p /tmp/data/sets/digits/deep /tmp/data/results && cd /tmp/data/sets/digits && "
    f"for each in $(seq {FILES}); do head -c 3000 /dev/urandom > deep/f$each; done && "
    f"head -c {BIG} /dev/urandom > zz-big && "
    f"exec rclone serve s3 /tmp/data --addr :9000 --auth-key {KEY},{SECRET}"
)
SUM = "find . -type f | sort | xargs sha256sum | sha256sum"


@dataclasses.dataclass(frozen=True)
class Stage:
    room: Room
    place: Place
    workspace: Workspace
    claim: str

    def pods(self, name: str) -> list[dict[str, Any]]:
        return self.room.admin.items(self.room.path("pods"), labelSelector=f"job-name={name}")

    def secrets(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.room.admin.items(self.room.path("secrets"))]


@pytest.fixture
def staged(
    node_lab: Lab, project: Project, alice: User, as_alice: Actor, settings: Settings
) -> Iterator[Stage]:
    """A workspace with a volume, an S3 server in it, and the credential for that."""
    settings.MOVER_IMAGE = RCLONE
    site, spec = LabSite(node_lab.kubeconfig), make_spec(gpus=(L4,), vcpus=4, memory_gib=4, closed=())
    room = make_room(site, spec)
    place = Place(Kubectl(node_lab.control), spec.external_name)
    claim = f"data-{uuid.uuid4().hex[:8]}"
    node_lab.machine.run("mkdir", "-p", "-m", "777", f"/tmp/{claim}")
    room.admin.create("/api/v1/persistentvolumes", _volume(claim, spec.external_name))
    room.admin.create(room.path("persistentvolumeclaims"), _claim(claim))
    server = pod("s3", SERVES, limits={"cpu": "1", "memory": "1Gi"})
    server["spec"]["containers"][0]["image"] = RCLONE
    place.create(server)
    address = place.phase("s3", "Running")["status"]["podIP"]
    until(lambda: "Starting s3 server" in place.logs("s3"), "the S3 server answers")
    credential_create(
        actor=as_alice,
        project=project,
        name="archive",
        access_key_id=KEY,
        secret=SECRET,
        endpoint=f"http://{address}:9000",
    )
    yield Stage(room, place, workspace_row(site, room, project, alice, L4), claim)
    forget(site, spec)
    room.admin.delete(f"/api/v1/persistentvolumes/{claim}")


def _volume(name: str, namespace: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": f"{STAGED_GIB}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": f"/tmp/{name}", "type": "DirectoryOrCreate"},
            "claimRef": {"namespace": namespace, "name": name},
        },
    }


def _claim(name: str) -> dict[str, Any]:
    wanted = {"requests": {"storage": f"{STAGED_GIB}Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": wanted}
    return {"metadata": {"name": name}, "spec": spec}


def moved_until(row: Job, state: JobState) -> Job:
    found = [row]

    def look() -> bool:
        found[0] = run_now(row)
        assert found[0].state != JobState.FAILED, found[0].failure
        return found[0].state == state

    until(look, f"it is {state.label.lower()}", seconds=300)
    return found[0]


def ordered(actor: Actor, staged: Stage) -> Job:
    each = {"credential": "archive", "volume": staged.claim}
    return job_create(
        actor=actor,
        workspace=staged.workspace,
        name="train",
        image=TOOLS,
        gpus=1,
        memory_gib=1,
        command=["sh", "-c", "ls /run/gpuaas || echo no credentials; cp -r /data/in /data/out"],
        volume=staged.claim,
        mount="/data",
        inputs=[{**each, "url": "s3://sets/digits", "folder": "in"}],
        outputs=[{**each, "url": "s3://results/run-1", "folder": "out"}],
    )


def test_files_come_and_go_whole_and_a_killed_mover_goes_on(as_alice: Actor, staged: Stage) -> None:
    before, row = free(staged.room.admin), ordered(as_alice, staged)
    name = f"{row.external_name}-in"

    def far() -> bool:
        return bool(run_now(row).moved.get("in", {}).get("0", {}).get("files", 0) > KILLED_AFTER)

    until(far, "some of its files are there")
    assert (free(staged.room.admin), name in staged.secrets()) == (before, True)
    (first,) = staged.pods(name)
    staged.place.run("delete", "pod", first["metadata"]["name"], "--grace-period=0", "--force")

    row = moved_until(row, JobState.QUEUED)
    counts = row.moved["in"]["0"]
    assert counts["checked"] > KILLED_AFTER
    assert counts["files"] < FILES + 1 - KILLED_AFTER
    assert (free(staged.room.admin), staged.pods(name)) == (before, [])
    assert not [each for each in staged.secrets() if each.startswith("job-")]

    row = moved_until(row, JobState.STAGING_OUT)
    assert "no credentials" in row.log.text
    assert free(staged.room.admin) == before
    row = moved_until(row, JobState.SUCCEEDED)
    assert row.moved["out"]["0"]["files"] == FILES + 1
    sums = [
        staged.place.execute("s3", f"cd /tmp/data/{each} && {SUM}")
        for each in ("sets/digits", "results/run-1")
    ]
    assert sums[0] == sums[1]
    assert staged.place.execute("s3", "find /tmp/data/results/run-1 -type f | wc -l").strip() == str(
        FILES + 1
    )
    assert not [each for each in staged.secrets() if each.startswith("job-")]


def test_a_server_that_refuses_says_so(as_alice: Actor, staged: Stage) -> None:
    each = {"credential": "archive", "volume": staged.claim, "url": "s3://nowhere/digits"}
    row = job_create(actor=as_alice, workspace=staged.workspace, name="train", image=TOOLS, inputs=[each])
    until(lambda: run_now(row).state == JobState.FAILED, "it fails")
    row.refresh_from_db()
    assert (row.cause, row.staging) == ("", "in")
    assert row.failure.startswith("its inputs could not be moved: ")
    assert SECRET not in row.failure
