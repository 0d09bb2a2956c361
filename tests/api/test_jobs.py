"""Jobs by REST: submitted, watched, cancelled, run again, read and deleted."""

import pytest

from gpuaas.catalog.services import site_probe
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import queue_start
from gpuaas.providers.sandbox.claims import claim_create
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.jobs.conftest import workspace
from tests.jobs.stage import FAILS, LONG, SECRET, later, running, settle, submitted

__all__ = ["workspace"]

pytestmark = pytest.mark.django_db
HERE = "/api/v1/projects/weather-lm/jobs"
MPI = {"tasks": 2, "together": True, "launcher": "mpi", "command": ["mpirun", "true"]}


def asked(workspace: Workspace, **more: object) -> dict[str, object]:
    return {"workspace": str(workspace.pk), "name": "train", "image": "train:1", **more}


def test_a_whole_life(alices: Caller, workspace: Workspace) -> None:
    given = {"command": FAILS, "variables": {"EPOCHS": "3"}, "gpus": 2, "retries": 1, "deadline_seconds": 600}
    made = alices.post(HERE, asked(workspace, **given))
    assert (made.status, made.json["state"], made.json["gpu"]) == (202, "queued", "h100-sxm-80gb")
    assert {name: made.json[name] for name in given} == given
    place = made.headers["Location"]
    assert alices.get(f"{place}/log").json == {"task": 0, "text": "", "taken_at": None}
    settle(Job.objects.get())
    found = alices.get(place).json
    assert (found["state"], found["reason"], found["exit_code"], found["attempt"]) == (
        "failed",
        "Error",
        3,
        2,
    )
    assert "attempt 2" in alices.get(f"{place}/log").json["text"]
    assert [each["name"] for each in alices.get(f"{HERE}?state=failed").json["results"]] == ["train"]
    assert alices.get(f"{HERE}?state=queued").json["results"] == []
    assert len(alices.get(f"{HERE}?workspace={workspace.pk}").json["results"]) == 1

    again = alices.post(f"{place}/rerun", {"command": ["true"], "gpus": 1})
    assert (again.status, again.json["again"], again.json["gpus"]) == (202, found["id"], 1)
    assert again.json["variables"] == {"EPOCHS": "3"}
    row = settle(Job.objects.get(pk=again.json["id"]))
    assert alices.get(again.headers["Location"]).json["state"] == "succeeded"
    assert alices.post(f"{again.headers['Location']}/cancel", {}).status == 409
    gone = alices.delete(again.headers["Location"])
    assert (gone.status, gone.json["state"]) == (202, "deleting")
    settle(row, "deleted")
    assert alices.get(again.headers["Location"]).json["state"] == "deleted"


def test_it_is_cancelled(alices: Caller, as_alice: Actor, workspace: Workspace) -> None:
    row = running(as_alice, workspace)
    place = f"{HERE}/{row.pk}"
    assert alices.post(f"{place}/cancel", {}, If_Match='"1"').status == 412
    assert alices.post(f"{place}/cancel", {}).json["state"] == "ending"
    settle(row)
    found = alices.get(place).json
    assert (found["state"], found["failure"]) == ("cancelled", "cancelled by alice")


def test_the_same_key_submits_once(alices: Caller, workspace: Workspace) -> None:
    answers = [alices.post(HERE, asked(workspace), Idempotency_Key="one") for _ in range(2)]
    assert len({each.json["id"] for each in answers}) == Job.objects.count() == 1


@pytest.mark.parametrize(
    ("wrong", "status", "field"),
    [
        ({"gpus": 5}, 409, "gpus"),
        ({"name": "Not A Name"}, 400, "name"),
        ({"image": ""}, 400, "image"),
        ({"workspace": "01a217b0-2b69-76ca-882c-cd2c6d04cabc"}, 400, "workspace"),
        ({"gpus": "1"}, 400, "gpus"),
        ({"command": "true"}, 400, "command"),
        ({"command": [1]}, 400, "command.0"),
        ({"variables": []}, 400, "variables"),
        ({"variables": {"A": 1}}, 400, "variables.A"),
        ({"retries": 11}, 400, "retries"),
        ({"tasks": 1001}, 400, "tasks"),
        ({"tasks": 4, "at_once": 5}, 400, "at_once"),
        ({"together": True}, 400, "together"),
        ({"together": 1, "tasks": 2}, 400, "together"),
        ({"tasks": 2, "launcher": "mpi"}, 400, "launcher"),
        ({"tasks": 2, "together": True, "launcher": "pmi"}, 400, "launcher"),
        ({"tasks": 2, "together": True, "launcher": "mpi", "command": []}, 400, "command"),
        ({**MPI, "volume": "data", "mount": "/run/gpuaas"}, 400, "mount"),
        ({"tasks": 2, "runtime": "torch-distributed"}, 400, "runtime"),
        ({"tasks": 2, "together": True, "runtime": "mine"}, 400, "runtime"),
        ({"tasks": 2, "together": True, "runtime": ["mine"]}, 400, "runtime"),
        ({"tasks": 3, "together": True, "gpus": 2}, 409, "gpus"),
        ({"deadline_seconds": 0}, 400, "deadline_seconds"),
        ({"volume": "data"}, 400, "mount"),
        ({"secret": "x"}, 400, "secret"),
    ],
)
def test_refusals_name_their_field(
    alices: Caller, workspace: Workspace, wrong: dict[str, object], status: int, field: str
) -> None:
    refused = alices.post(HERE, {**asked(workspace), **wrong})
    assert refused.status == status, refused.json
    assert f'"{field}"' in str(refused.json).replace("'", '"')
    assert not Job.objects.exists()


def test_a_workspace_of_another_project_is_none(
    charlies: Caller, workspace: Workspace, other_project: Project
) -> None:
    assert charlies.post(HERE, asked(workspace)).status == 404
    refused = charlies.post(f"/api/v1/projects/{other_project.slug}/jobs", asked(workspace))
    assert (refused.status, Job.objects.exists()) == (400, False)


def test_waiting_is_said(alices: Caller, as_alice: Actor, workspace: Workspace) -> None:
    running(as_alice, workspace, gpus=3)
    made = alices.post(HERE, asked(workspace, gpus=2, command=LONG))
    row = Job.objects.get(pk=made.json["id"])
    queue_start(workspace_id=row.workspace_id)
    found = alices.get(made.headers["Location"]).json
    assert (found["state"], found["waiting"]) == ("queued", "waits for 2 H100 SXM 80 GB: 1 of 4 is free")


def test_its_priority_place_and_start_are_told_and_the_first_is_changed(
    alices: Caller, as_alice: Actor, workspace: Workspace
) -> None:
    row = running(as_alice, workspace, gpus=4, deadline_seconds=3600)
    waiting = submitted(as_alice, workspace, "first", gpus=4)
    made = alices.post(HERE, asked(workspace, name="second", gpus=1, priority="low"))
    place = made.headers["Location"]
    found = alices.get(place)
    assert (found.json["priority"], found.json["position"]) == ("low", 2)
    assert found.json["starts_by"] is None  # the one before it has no deadline
    assert "starts_by" not in alices.get(HERE).json["results"][0]
    assert alices.patch(place, {"priority": "high"}, If_Match='"7"').status == 412
    changed = alices.patch(place, {"priority": "high"}, If_Match=found.headers["ETag"])
    assert (changed.status, changed.json["priority"]) == (202, "high")
    assert alices.get(place).json["position"] == 1
    assert alices.get(place).json["starts_by"].endswith("Z")
    assert b"priority: high" in alices.get(f"{place}/file").content
    for wrong in ("urgent", 1, None, ["low"]):
        answer = alices.patch(f"{HERE}/{waiting.pk}", {"priority": wrong})
        assert (answer.status, list(answer.error["fields"])) == (400, ["priority"])
    assert alices.patch(f"{HERE}/{row.pk}", {"priority": "low"}).status == 409


def test_all_mistakes_are_named_at_once(alices: Caller, workspace: Workspace) -> None:
    wrong = {"name": "No", "image": "a b", "gpus": 5, "volume": "data", "mount": "/etc/x"}
    refused = alices.post(HERE, asked(workspace, **wrong))
    assert (refused.status, refused.code, set(refused.error["fields"])) == (
        400,
        "invalid",
        set(wrong) - {"volume"},
    )
    assert "Nothing may be mounted in /etc".lower() in refused.error["fields"]["mount"][0].lower()
    scarce = alices.post(HERE, asked(workspace, gpus=5, vcpus=999))
    assert (scarce.status, scarce.code) == (409, "quota_exceeded")
    assert set(scarce.error["fields"]) == {"gpus", "vcpus"}


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ('"command": ["python", "a\\u0000b"]', "command.1", "null characters"),
        ('"variables": {"EPOCHS": "3", "EPOCHS": "4"}', "variables.EPOCHS", "twice"),
        ('"variables": {"A\\ud800": "3"}', "variables", "surrogates"),
    ],
)
def test_what_json_can_and_a_job_cannot_have(
    alices: Caller, workspace: Workspace, body: str, field: str, words: str
) -> None:
    text = f'{{"workspace": "{workspace.pk}", "name": "train", "image": "train:1", {body}}}'
    refused = alices.post(HERE, text.encode())
    assert (refused.status, refused.code) == (400, "invalid")
    assert words in refused.error["fields"][field][0]


def test_a_task_that_a_job_does_not_have_has_no_log(alices: Caller, workspace: Workspace) -> None:
    for name, tasks, known in (("many", 30, "its tasks are 0 to 29"), ("one", 1, "its only task is 0")):
        place = alices.post(HERE, asked(workspace, tasks=tasks) | {"name": name}).headers["Location"]
        refused = alices.get(f"{place}/log?task=99")
        assert (refused.status, refused.code) == (400, "invalid")
        assert refused.error["fields"] == {"task": [known]}
        assert alices.get(f"{place}/log?task=0").status == 200
        for odd in ("1_0", "\u0663", "1.0"):  # Python reads a number of each of them
            assert alices.get(f"{place}/log?task={odd}").error["fields"]["task"], odd


def test_tasks_are_listed_and_their_logs_followed(alices: Caller, workspace: Workspace) -> None:
    fails = ["sh", "-c", "if [ $JOB_COMPLETION_INDEX = 3 ]; then exit 3; fi"]
    made = alices.post(HERE, asked(workspace, tasks=60, at_once=60, command=fails))
    assert [made.json[name] for name in ("tasks", "at_once", "together")] == [60, 60, False]
    place = made.headers["Location"]
    asks = alices.post(f"{place}/log", {"task": 7})
    assert (asks.status, asks.json) == (202, {"task": 7, "text": "", "taken_at": None})
    assert alices.post(f"{place}/log", {"task": 60}).error["fields"] == {"task": ["its tasks are 0 to 59"]}
    settle(Job.objects.get())
    found = alices.get(place).json
    assert (found["state"], found["failure"].partition(";")[0]) == ("failed", "1 of 60 tasks failed: 3")
    ranges = [found[f"tasks_{state}"] for state in ("running", "succeeded", "failed")]
    assert ranges == ["", "0-2,4-59", "3"]
    listed = alices.get(f"{place}/tasks?page_size=50").json
    assert [each["number"] for each in listed["results"]] == list(range(50))
    assert listed["results"][3] == {
        "number": 3,
        "state": "failed",
        "exit_code": 3,
        "reason": "Error",
        "attempt": 1,
        "node": listed["results"][3]["node"],
    }
    assert len(alices.get(listed["next"]).json["results"]) == 10
    logs = [alices.get(f"{place}/log{query}").json["task"] for query in ("", "?task=7")]
    assert logs == [3, 7]
    assert "JOB_COMPLETION_INDEX=3" in alices.get(f"{place}/log").json["text"]
    assert alices.post(f"{place}/log", {"task": 8}).status == 409
    again = alices.post(f"{place}/rerun", {"tasks": 2, "together": True})
    assert [again.json[name] for name in ("tasks", "at_once", "together", "launcher")] == [2, 2, True, ""]
    launched = alices.post(f"{place}/rerun", {"tasks": 2, "together": True, "launcher": "mpi"})
    assert (launched.status, launched.json["launcher"]) == (202, "mpi")


def test_a_runtime_of_its_site_makes_its_tasks(alices: Caller, workspace: Workspace) -> None:
    site_probe(workspace.site_id)
    order = asked(workspace, tasks=2, together=True, runtime="torch-distributed")
    made = alices.post(HERE, order)
    assert (made.status, made.json["runtime"]) == (202, "torch-distributed")
    place = made.headers["Location"]
    assert "runtime: torch-distributed\n" in alices.get(f"{place}/file").content.decode()
    again = alices.post(f"{place}/rerun", {"runtime": ""})
    assert (again.status, again.json["runtime"], again.json["together"]) == (202, "", True)
    refused = alices.post(HERE, {**order, "runtime": "mine"})
    assert "choose one of jax-distributed, torch-distributed, or none" in str(refused.json)


MOVES = {"url": "s3://sets/digits", "credential": "archive", "volume": "data", "folder": "in"}
CREDENTIALS = "/api/v1/projects/weather-lm/data-credentials"
CREDENTIAL = {"name": "archive", "access_key_id": "AKIDEXAMPLE", "secret": SECRET}


def test_credentials_are_added_and_deleted_and_never_shown(
    alices: Caller, charlies: Caller, workspace: Workspace
) -> None:
    made = alices.post(CREDENTIALS, {**CREDENTIAL, "endpoint": "https://s3.example.org"})
    assert (made.status, made.json["kind"], made.json["created_by"]) == (201, "s3", "alice")
    place = f"{CREDENTIALS}/{made.json['id']}"
    answers = [made.json, alices.get(place).json, *alices.get(CREDENTIALS).json["results"]]
    assert not [each for each in answers if SECRET in str(each) or "secret" in each]
    assert alices.post(CREDENTIALS, CREDENTIAL).status == 409
    assert charlies.get(place).status == charlies.delete(place).status == 404
    assert alices.delete(place).status == 204
    assert alices.get(CREDENTIALS).json["results"] == []


def test_files_are_moved_and_what_is_wrong_with_them_is_said_at_once(
    alices: Caller, as_alice: Actor, workspace: Workspace
) -> None:
    wrong = [{**MOVES, "credential": "theirs"}, {**MOVES, "url": "https://127.0.0.1/a", "folder": "../a"}]
    refused = alices.post(HERE, asked(workspace, inputs=wrong))
    assert (refused.status, refused.error["code"]) == (400, "invalid")
    fields = {"inputs.0.credential", "inputs.1.url", "inputs.1.credential", "inputs.1.folder"}
    assert set(refused.error["fields"]) == fields
    assert alices.post(CREDENTIALS, CREDENTIAL).status == 201
    claim_create(workspace.site_id, workspace.external_name, "data", 10)
    made = alices.post(HERE, asked(workspace, inputs=[MOVES], command=["true"]))
    assert (made.status, made.json["state"]) == (202, "staging_in")
    assert made.json["inputs"] == [{**MOVES, "files": 0, "total_files": 0, "bytes": 0, "total_bytes": 0}]
    later(Job.objects.get(), "succeeded")
    found = alices.get(made.headers["Location"]).json
    assert found["inputs"][0]["files"] == found["inputs"][0]["total_files"] > 0
    assert alices.post(f"{made.headers['Location']}/retry", {}).status == 409


def test_a_log_is_for_those_who_may_run_things_in_the_workspace(
    alices: Caller, bob: User, as_alice: Actor, workspace: Workspace
) -> None:
    """bob is a member of the project, and not of the workspace."""
    place = f"{HERE}/{settle(submitted(as_alice, workspace, command=FAILS)).pk}"
    bobs = Caller(bob)
    assert alices.get(f"{place}/log").json["text"]
    assert bobs.get(place).status == 200
    refused = bobs.get(f"{place}/log")
    assert (refused.status, refused.error["code"]) == (403, "forbidden")
    assert "you are not a member of this workspace" in refused.error["message"]
