"""Files of a job: moved before it holds a GPU and after it has given all back, tried again where that fails, and ended with it."""

import json
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.crypto import decrypt_json, is_sealed
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.core.rotation import columns
from gpuaas.jobs.models import DataCredential, Job
from gpuaas.jobs.mover import TAKES
from gpuaas.jobs.selectors import credentials_for
from gpuaas.jobs.services import (
    JOB,
    credential_delete,
    job_cancel,
    job_delete,
    job_rerun,
    job_retry,
    queue_start,
)
from gpuaas.jobs.services.changes import end_begin
from gpuaas.jobs.states import JobState
from gpuaas.providers.sandbox import jobs as sandbox
from gpuaas.providers.sandbox.claims import claim_create
from gpuaas.providers.sandbox.dials import failure_plan
from gpuaas.providers.sandbox.models import SandboxJob, SandboxPod
from gpuaas.providers.sandbox.movers import BYTES, FILES
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import room_of
from gpuaas.workspaces.services import workspace_resume, workspace_suspend
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, Project
from tenants.selectors import actor_for
from tests.factories.tenants import ProjectMembershipFactory, UserFactory
from tests.jobs.stage import (
    FAILS,
    LONG,
    SECRET,
    credential,
    fresh,
    later,
    pods,
    run_now,
    running,
    settle,
    submitted,
)
from tests.workspaces import stage as workspaces

S3 = {"url": "s3://sets/digits", "credential": "archive", "volume": "data", "folder": "in/digits"}
HTTPS = {"url": "https://data.example.org/sets/one.tar", "volume": "data", "folder": ""}
RESULTS = {"url": "s3://results/run-1", "credential": "archive", "volume": "data", "folder": "out"}


@pytest.fixture
def volume(as_alice: Actor, project: Project, workspace: Workspace) -> Workspace:
    credential(as_alice, project)
    claim_create(workspace.site_id, workspace.external_name, "data", gib=10)
    return workspace


def files(way: str, wanted: list[dict[str, str]]) -> dict[str, Any]:
    return {f"{way}puts": wanted}


def gpus_taken(workspace: Workspace) -> int:
    return sum(each.taken for each in room_of(workspace=workspace).pools.values())


def test_inputs_come_before_the_queue_and_outputs_after_all_is_given_back(
    as_alice: Actor, volume: Workspace
) -> None:
    row = submitted(as_alice, volume, gpus=2, command=LONG, inputs=[S3, HTTPS], outputs=[RESULTS])
    assert (row.state, row.staging, row.moving) == ("staging_in", "in", False)
    row = run_now(row)
    assert (row.state, row.moving, row.holding, gpus_taken(volume)) == ("staging_in", True, False, 0)
    assert pods(volume) == [f"{row.external_name}-in-1"]
    assert SandboxPod.objects.get().gpus == 0
    assert room_of(workspace=volume).amounts["vcpus"].taken == TAKES["vcpus"]
    with time_machine.travel(clock.now() + timedelta(seconds=6)):
        row = run_now(row)
        first, second = (row.moved["in"][at] for at in "01")
        assert (first["files"], first["total_files"], first["bytes"]) == (FILES, FILES, BYTES)
        assert 0 < second["bytes"] < second["total_bytes"]

    row = later(row, "requested")
    assert (row.staging, row.moving, row.attempt, row.exit_code) == ("", False, 0, None)
    assert (pods(volume), row.moved["in"]["done"]) == ([], True)
    row = settle(row, "ready")
    assert gpus_taken(volume) == 2
    SandboxPod.objects.update(run_seconds=0)
    row = settle(row, "staging_out")
    assert (row.holding, gpus_taken(volume), row.outcome) == (False, 0, "succeeded")
    row = later(row, "succeeded")
    assert (row.moved["out"]["done"], row.staging, row.moving) == (True, "", False)
    assert row.exit_code == 0
    states = list(row.transitions.values_list("new", flat=True))
    assert states[:4] == ["staging_in", "requested", "provisioning", "ready"]
    assert states[4:] == ["suspending", "staging_out", "succeeded"]
    assert not SandboxJob.objects.exists()
    created = AuditEntry.objects.get(action="job.create")
    assert created.after is not None
    assert created.after["inputs"] == [S3["url"], HTTPS["url"]]


def test_a_run_that_failed_moves_no_outputs(as_alice: Actor, volume: Workspace) -> None:
    row = settle(submitted(as_alice, volume, command=FAILS, outputs=[RESULTS]))
    assert (row.state, row.cause, row.staging) == ("failed", "Error", "")
    with pytest.raises(Conflict, match="run it again"):
        job_retry(actor=as_alice, job=row)


@pytest.mark.parametrize("way", ["in", "out"])
def test_what_cannot_be_moved_fails_the_job_and_can_be_retried(
    as_alice: Actor, volume: Workspace, way: str
) -> None:
    bad = [{**S3, "url": "s3://missing/digits"}]
    row = later(submitted(as_alice, volume, gpus=1, **files(way, bad)), "failed")
    words = {"in": "its inputs could not be moved", "out": "its outputs could not be moved"}[way]
    assert (row.cause, row.staging, row.failure) == (
        "",
        way,
        f"{words}: directory not found",
    )
    assert (row.moving, row.holding, gpus_taken(volume), pods(volume)) == (False, False, 0, [])
    Job.objects.filter(pk=row.pk).update(**{f"{way}puts": [S3]})
    row = job_retry(actor=as_alice, job=fresh(row))
    assert (row.state, row.failure, row.finished_at) == (f"staging_{way}", "", None)
    with pytest.raises(Conflict):
        job_retry(actor=as_alice, job=row)
    row = later(row, "succeeded")
    assert row.moved[way]["done"] is True


def test_what_the_database_refuses_of_a_failure_ends_no_visit(
    as_alice: Actor, volume: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of a tenant's names what rclone cannot read."""
    line = json.dumps({"level": "error", "msg": "no object a\x00b"})
    monkeypatch.setattr(sandbox, "moves_log", lambda *_, **__: [line])
    row = later(submitted(as_alice, volume, inputs=[{**S3, "url": "s3://missing/digits"}]), "failed")
    assert row.failure == "its inputs could not be moved: no object ab"


@pytest.mark.parametrize("state", ["waits", "moves"])
@pytest.mark.parametrize("way", ["in", "out"])
def test_it_is_cancelled_while_its_files_are_moved(
    as_alice: Actor, volume: Workspace, way: str, state: str
) -> None:
    row = submitted(as_alice, volume, **files(way, [S3]))
    if way == "out":
        row = settle(row, "staging_out")
    row = fresh(row) if state == "waits" else run_now(row)
    assert (row.state, row.moving) == (f"staging_{way}", state == "moves")
    job_cancel(actor=as_alice, job=row)
    row = settle(row, "suspended")
    assert (row.moving, pods(volume)) == (False, [])
    assert row.failure == "cancelled by alice"
    job_delete(actor=as_alice, job=row)
    assert settle(row, "deleted").moving is False


def test_a_deadline_ends_the_mover_too(as_alice: Actor, volume: Workspace) -> None:
    row = run_now(submitted(as_alice, volume, inputs=[S3] * 4, deadline_seconds=5))
    row = later(row, "failed")
    assert (row.cause, row.staging) == ("DeadlineExceeded", "in")
    assert "not done within 5 seconds" in row.failure


def test_a_mover_waits_for_room_and_passes_only_what_it_does_not_keep_waiting(
    as_alice: Actor, volume: Workspace
) -> None:
    running(as_alice, volume, "big", gpus=4, vcpus=61)
    head = run_now(submitted(as_alice, volume, "head", gpus=1, vcpus=2))
    first = run_now(submitted(as_alice, volume, "first", inputs=[S3]))
    assert (fresh(head).state, first.moving) == ("requested", True)
    second = run_now(submitted(as_alice, volume, "second", inputs=[S3]))
    assert second.moving is False
    assert second.waiting == "waits for 1 vCPUs: 0 of 64 are free"
    assert "jobs before it" in run_now(submitted(as_alice, volume, "third")).waiting


def test_two_rounds_start_one_mover(as_alice: Actor, volume: Workspace) -> None:
    row = submitted(as_alice, volume, inputs=[S3])
    assert [queue_start(workspace_id=volume.pk) for _ in range(2)] == [1, 0]
    assert row.operations.count() == 1


@pytest.mark.parametrize("step", ["job-create:start", "job-suspend:stop", "job-observe"])
def test_answers_that_get_lost_move_nothing_twice(as_alice: Actor, volume: Workspace, step: str) -> None:
    row = submitted(as_alice, volume, inputs=[S3])
    for error in ("lost", "lost"):
        failure_plan(volume.site_id, verb=step, error=error)
    row = later(run_now(row), "succeeded")
    assert list(row.transitions.values_list("new", flat=True)).count("requested") == 1
    assert not SandboxJob.objects.exists()


def test_a_suspended_workspace_fails_what_is_moved_and_keeps_what_waits(
    as_alice: Actor, volume: Workspace
) -> None:
    moves = run_now(submitted(as_alice, volume, "moves", inputs=[S3]))
    waits = submitted(as_alice, volume, "waits", inputs=[S3])
    workspace_suspend(actor=as_alice, workspace=volume)
    assert fresh(waits).state == "staging_in"
    moves = settle(moves, "failed")
    assert (moves.staging, moves.failure) == ("in", "its workspace was suspended by alice")
    workspaces.settle(volume)
    workspace_resume(actor=as_alice, workspace=volume)
    workspaces.settle(volume)
    job_retry(actor=as_alice, job=moves)
    assert later(moves, "succeeded").state == "succeeded"
    assert later(waits, "succeeded").state == "succeeded"


def test_what_removes_the_mover_at_the_site_fails_it(as_alice: Actor, volume: Workspace) -> None:
    row = run_now(submitted(as_alice, volume, inputs=[S3]))
    SandboxJob.objects.all().delete()
    row = settle(row)
    assert (row.state, row.cause, row.staging) == ("failed", "Removed", "in")


def test_run_again_moves_the_same(as_alice: Actor, volume: Workspace) -> None:
    row = later(submitted(as_alice, volume, inputs=[S3], outputs=[RESULTS]), "succeeded")
    again = job_rerun(actor=as_alice, job=row)
    assert (again.state, again.inputs, again.outputs) == ("staging_in", row.inputs, row.outputs)
    assert job_rerun(actor=as_alice, job=row, inputs=[]).state == "requested"


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "given", "words"),
    [
        ("inputs.0.url", {"url": "ftp://sets/digits"}, "enter an address such as s3://bucket/prefix, or"),
        ("inputs.0.url", {"url": "s3://sets/../other"}, "may not contain .."),
        ("inputs.0.url", {"url": "s3://key:secret@sets/digits"}, "a user or a password"),
        ("inputs.0.url", {"url": "s3://S/digits"}, "the name of a bucket"),
        (
            "inputs.0.url",
            {"url": "https://me:pw@data.example.org/a", "credential": ""},
            "a user or a password",
        ),
        (
            "inputs.0.url",
            {"url": "https://data.example.org/%2e%2e/a", "credential": ""},
            "may not contain ..",
        ),
        (
            "inputs.0.url",
            {"url": "https://data.example.org/a?token=1", "credential": ""},
            "may not contain ?",
        ),
        ("inputs.0.url", {"url": "https://data.example.org/", "credential": ""}, "the address of one file"),
        (
            "inputs.0.url",
            {"url": "https://data.example.org/%2F", "credential": ""},
            "the address of one file",
        ),
        (
            "inputs.0.url",
            {"url": "https://data.example.org/a/%2e", "credential": ""},
            "the address of one file",
        ),
        ("inputs.0.url", {"url": "https://data.example.org/a%00b", "credential": ""}, "no text in UTF-8"),
        ("inputs.0.url", {"url": "https://data.example.org/a%FFb", "credential": ""}, "no text in UTF-8"),
        ("inputs.0.url", {"url": "https://169.254.169.254/a", "credential": ""}, "169.254.169.254"),
        ("inputs.0.url", {"url": "https://[fd00:ec2::254]/a", "credential": ""}, "fd00:ec2::254"),
        ("inputs.0.url", {"url": "https://127.1/a", "credential": ""}, "the mover itself"),
        ("inputs.0.url", {"url": "https://2130706433/a", "credential": ""}, "the mover itself"),
        ("inputs.0.url", {"url": "https://[::ffff:127.0.0.1]/a", "credential": ""}, "the mover itself"),
        ("inputs.0.url", {"url": "https://localhost/a", "credential": ""}, "the mover itself"),
        ("inputs.0.url", {"url": "s3://sets/a\nb"}, "a text of at most"),
        ("inputs.0.credential", {"credential": ""}, "name a data credential"),
        ("inputs.0.credential", {"credential": "theirs"}, "no data credential theirs"),
        ("inputs.0.credential", {"url": "https://data.example.org/a"}, "without a credential"),
        ("inputs.0.volume", {"volume": ""}, "enter the name of a volume"),
        ("inputs.0.volume", {"volume": "Data"}, "lower-case"),
        ("inputs.0.folder", {"folder": "/in"}, "from the root of the volume"),
        ("inputs.0.folder", {"folder": "in/../.."}, "may not contain .."),
        ("inputs.0.folder", {"folder": 3}, "a text of at most 200"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    as_alice: Actor, volume: Workspace, field: str, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(Invalid) as refused:
        submitted(as_alice, volume, inputs=[{**S3, **given}])
    assert list(refused.value.fields) == [field]
    assert words in refused.value.fields[field][0]


def test_all_that_is_wrong_is_named_at_once(as_alice: Actor, volume: Workspace) -> None:
    wrong = [S3, {**S3, "folder": "..", "volume": ""}]
    with pytest.raises(Invalid) as refused:
        submitted(as_alice, volume, name="No", inputs=wrong, outputs=[HTTPS])
    assert set(refused.value.fields) == {"name", "inputs.1.folder", "inputs.1.volume", "outputs.0.url"}


@pytest.mark.parametrize(
    ("given", "words"), [([S3] * 9, "at most 8 inputs"), ("s3://sets", "must be a list")]
)
def test_how_many_there_may_be(as_alice: Actor, volume: Workspace, given: Any, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        submitted(as_alice, volume, inputs=given)


# -- credentials ---------------------------------------------------------------------------------------------------


def test_a_credential_is_sealed_audited_and_of_one_project(
    as_alice: Actor, as_bob: Actor, as_charlie: Actor, project: Project
) -> None:
    row = credential(as_bob, project)
    assert is_sealed(row.secret)
    assert decrypt_json(row.secret) == {"secret": SECRET}
    assert "jobs.DataCredential.secret" in columns()
    with pytest.raises(Conflict, match="already"):
        credential(as_alice, project)
    with pytest.raises(NotFound):
        credential(as_charlie, project)
    with pytest.raises(NotFound):
        credentials_for(actor=as_charlie, project=project)
    with pytest.raises(NotFound):
        credential_delete(actor=as_charlie, credential=row)
    credential_delete(actor=as_alice, credential=row)
    credential_delete(actor=as_alice, credential=row)
    assert not DataCredential.objects.exists()
    entries = AuditEntry.objects.filter(action__startswith="data_credential.").order_by("pk")
    assert [each.action for each in entries] == ["data_credential.create", "data_credential.delete"]
    assert all(SECRET not in str((each.before, each.after)) for each in entries)


def test_viewers_add_no_credential(project: Project) -> None:
    vera = UserFactory.create(username="vera")
    ProjectMembershipFactory.create(project=project, user=vera, role="viewer")
    with pytest.raises(Forbidden):
        credential(actor_for(user=vera), project)


def test_a_credential_names_all_that_is_wrong(as_alice: Actor, project: Project) -> None:
    given = {"access_key_id": "a b", "secret": "", "endpoint": "https://127.0.0.1:9000", "region": "Ü"}
    with pytest.raises(Invalid) as refused:
        credential(as_alice, project, "No", **given)
    assert set(refused.value.fields) == {"name", *given}
    with pytest.raises(Invalid, match=r"169\.254"):
        credential(as_alice, project, endpoint="http://169.254.169.254")


def test_without_its_credential_nothing_is_moved_until_there_is_one_again(
    as_alice: Actor, project: Project, volume: Workspace
) -> None:
    row = submitted(as_alice, volume, inputs=[S3])
    credential_delete(actor=as_alice, credential=DataCredential.objects.get())
    row = later(row, "failed")
    assert (row.staging, pods(volume)) == ("in", [])
    assert "no data credential archive any more" in row.failure
    credential(as_alice, project)
    assert later(job_retry(actor=as_alice, job=row), "succeeded").moved["in"]["done"] is True


def test_cancelled_while_it_is_ended_its_outputs_stay_where_they_are(
    as_alice: Actor, volume: Workspace
) -> None:
    row = ended(running(as_alice, volume, outputs=[RESULTS]), JobState.SUCCEEDED)
    version = row.version
    row = job_cancel(actor=as_alice, job=row)
    assert (row.state, row.outcome, row.failure) == ("suspending", "suspended", "cancelled by alice")
    assert job_cancel(actor=as_alice, job=row).version == row.version >= version
    assert AuditEntry.objects.filter(action="job.cancel").count() == 1
    row = settle(row)
    assert (row.state, row.moved) == ("suspended", {})


@pytest.mark.parametrize(("outcome", "outputs"), [(JobState.FAILED, [RESULTS]), (JobState.SUCCEEDED, [])])
def test_what_has_ended_otherwise_is_not_cancelled(
    as_alice: Actor, volume: Workspace, outcome: JobState, outputs: list[dict[str, str]]
) -> None:
    row = ended(running(as_alice, volume, outputs=outputs), outcome)
    with pytest.raises(Conflict, match="it has ended already"):
        job_cancel(actor=as_alice, job=row)
    assert settle(row).state == outcome


def ended(row: Job, outcome: JobState) -> Job:
    """What is left of it at the site is still to be removed."""
    with transaction.atomic():
        end_begin(JOB.lock(row.pk), SYSTEM, outcome)
    return fresh(row)
