"""Helpers of the jobs' tests: submit one to a ready workspace, and drive queue and reconciler by hand."""

from datetime import timedelta
from typing import Any

import time_machine

from gpuaas.catalog.models import Site
from gpuaas.core.clock import now
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.ids import uuid7
from gpuaas.jobs.models import DataCredential, Job, JobLog, JobTemplate
from gpuaas.jobs.reconcile import run
from gpuaas.jobs.services import credential_create, job_create, queue_start, template_create
from gpuaas.jobs.states import ENDED, JobState
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_lend
from tenants.actors import Actor
from tenants.models import Project
from tests.environments.stage import workspace_ready
from tests.workspaces import stage as workspaces

__all__ = ["workspace_ready"]

RESTING = {*ENDED, JobState.DELETED}
SECRET = "wJalrXUtnFEMI/K7MDENG"
QUICK, LONG, FAILS = ["true"], ["sleep", "9999"], ["sh", "-c", "exit 3"]

# what the API is sent by those who may not, and what names nothing
NOBODYS = {"job": uuid7(), "credential": uuid7(), "job_template": uuid7()}
BODIES: dict[tuple[str, str], Any] = {
    ("jobs", "POST"): {"workspace": str(uuid7()), "name": "mine", "image": "train:1"},
    ("job", "PATCH"): {"priority": "high"},
    ("job-cancel", "POST"): {},
    ("job-rerun", "POST"): {},
    ("job-log", "POST"): {"task": 0},
    ("job-retry", "POST"): {},
    ("data-credentials", "POST"): {"name": "mine", "access_key_id": "AKID", "secret": "sealed"},
    ("job-templates", "POST"): {"name": "mine", "order": {"image": "train:1"}},
    ("job-template", "PATCH"): {"name": "mine"},
}


def credential(actor: Actor, project: Project, name: str = "archive", **given: Any) -> DataCredential:
    usual = {"access_key_id": "AKIDEXAMPLE", "secret": SECRET, "endpoint": "https://s3.example.org"}
    return credential_create(actor=actor, project=project, name=name, **{**usual, **given})


def template(actor: Actor, project: Project, name: str = "training", **given: Any) -> JobTemplate:
    return template_create(
        actor=actor, project=project, name=name, **{"order": {"image": "train:7"}, **given}
    )


def submitted(actor: Actor, workspace: Workspace, name: str = "train", **wanted: Any) -> Job:
    return job_create(
        actor=actor, workspace=workspace, name=name, **{"image": "train:1", "command": QUICK, **wanted}
    )


def row_in(workspace: Workspace, name: str = "train", **changes: Any) -> Job:
    """As the database has one, whatever its workspace does; with an operation, a step and a log."""
    moment = now()
    about = {"project": workspace.project, "site": workspace.site, "created_by": workspace.created_by}
    sizes = {"gpus": 0, "vcpus": 1, "memory_gib": 1, "image": "train:1"}
    made = {**about, **sizes, "state": JobState.QUEUED, **changes}
    row = Job.objects.create(workspace=workspace, name=name, created_at=moment, **made)
    operation = row.operations.create(
        kind="create", requested_by="alice", requested_at=moment, finished_at=moment, succeeded=True
    )
    operation.steps.create(position=0, key="start", label="Create the job", state="done")
    JobLog.objects.create(job=row, text="epoch 1", taken_at=moment)
    return row


def credential_in(workspace: Workspace, name: str = "archive") -> DataCredential:
    return DataCredential.objects.create(
        project=workspace.project,
        name=name,
        access_key_id="AKIDEXAMPLE",
        secret=encrypt_json({"secret": SECRET}),
        created_by=workspace.created_by,
        created_at=now(),
    )


def template_in(workspace: Workspace, name: str = "training") -> JobTemplate:
    return JobTemplate.objects.create(
        project=workspace.project,
        name=name,
        description="Usual",
        order={"image": "train:7", "gpus": 1},
        locked=["image"],
        created_by=workspace.created_by,
        created_at=now(),
    )


def first() -> dict[str, Any]:
    """Of all that there are, as addresses name them."""
    return {
        "job": Job.objects.earliest("pk").pk,
        "credential": DataCredential.objects.earliest("pk").pk,
        "job_template": JobTemplate.objects.earliest("pk").pk,
    }


def named(workspace: Workspace) -> dict[str, Any]:
    """What addresses name."""
    return {
        "job": row_in(workspace).pk,
        "credential": credential_in(workspace).pk,
        "job_template": template_in(workspace).pk,
    }


def run_now(row: Job) -> Job:
    """A round of its queue and one visit, whenever they would have been due."""
    queue_start(workspace_id=row.workspace_id)
    Job.objects.filter(pk=row.pk).update(due_at=now())
    run(row.pk)
    return fresh(row)


def lender_ready(
    actor: Actor, project: Project, site: Site, name: str = "shared", h100s: int = 4
) -> Workspace:
    """Another workspace of the project, open to it."""
    found = workspaces.ready(actor, project, site, name=name, h100s=h100s)
    return workspace_lend(actor=actor, workspace=found, open_to_project=True)


def visited(row: Job, *, runs: int = 1) -> Job:
    """Without a round of any queue."""
    for _ in range(runs):
        Job.objects.filter(pk=row.pk).update(due_at=now())
        run(row.pk)
    return fresh(row)


def ended(row: Job) -> None:
    """Its program is done."""
    SandboxPod.objects.filter(name__startswith=row.external_name).update(run_seconds=0)


def fresh(row: Job) -> Job:
    rows = Job.objects.select_related("workspace__project__organization", "workspace__site", "site", "place")
    return rows.get(pk=row.pk)


def settle(row: Job, state: str = "", *, runs: int = 20) -> Job:
    """Until it is in that state, or rests."""
    for _ in range(runs):
        row = run_now(row)
        if row.state == state or (not state and row.state in RESTING):
            return row
    raise AssertionError(f"still {row.state} after {runs} runs: {row.waiting} {row.conditions} {steps(row)}")


def later(row: Job, state: str, seconds: int = 10) -> Job:
    """As `settle`, with so many seconds between the visits, and none of them over after it."""
    begun = now()
    for visit in range(1, 25):
        with time_machine.travel(begun + timedelta(seconds=seconds * visit)):
            row = run_now(row)
        if row.state == state:
            return row
    raise AssertionError(f"still {row.state}: {row.waiting} {row.conditions} {steps(row)}")


def running(actor: Actor, workspace: Workspace, name: str = "train", **wanted: Any) -> Job:
    return settle(submitted(actor, workspace, name, **{"command": LONG, **wanted}), JobState.RUNNING)


def steps(row: Job) -> list[tuple[str, str]]:
    """Of its last operation."""
    newest = row.operations.first()
    return list(newest.steps.values_list("key", "state")) if newest else []


def pods(workspace: Workspace) -> list[str]:
    rows = SandboxPod.objects.filter(namespace__name=workspace.external_name)
    return sorted(rows.values_list("name", flat=True))


def log(row: Job) -> str:
    found = JobLog.objects.filter(job=row).first()
    return found.text if found else ""
