"""Templates of jobs by REST: kept, changed, named by orders in JSON and YAML, and refused in the one shape."""

from typing import Any

import pytest

from gpuaas.jobs.models import Job, JobTemplate
from gpuaas.workspaces.models import Workspace
from tests.api.caller import Caller
from tests.jobs.conftest import workspace

__all__ = ["workspace"]

pytestmark = pytest.mark.django_db
JOBS = "/api/v1/projects/weather-lm/jobs"
HERE = "/api/v1/projects/weather-lm/job-templates"
MINE: dict[str, Any] = {
    "name": "training",
    "description": "Nightly",
    "order": {"image": "train:7", "gpus": 2, "retries": 0, "command": ["train"]},
    "locked": ["gpus", "image"],
}


def test_it_is_kept_changed_and_deleted(alices: Caller, workspace: Workspace) -> None:
    made = alices.post(HERE, MINE)
    assert made.status == 201
    shown = {name: made.json[name] for name in MINE}
    order = {"image": "train:7", "command": ["train"], "gpus": 2}
    assert shown == MINE | {"order": order, "locked": ["image", "gpus"]}
    assert made.json["created_by"] == "alice"
    at = f"{HERE}/{made.json['id']}"
    changed = alices.patch(at, {"description": ""})
    assert (changed.status, changed.json) == (200, made.json | {"description": "", "version": 2})
    assert alices.patch(at, {"description": ""}).json["version"] == 2
    read = alices.get(at)
    assert (read.json, changed.headers["ETag"]) == (changed.json, '"2"')
    late = alices.patch(at, {"description": "Late"}, If_Match='"1"')
    assert (late.status, late.error["code"]) == (412, "precondition_failed")
    assert alices.patch(at, {"description": ""}, If_Match=read.headers["ETag"]).status == 200
    assert alices.get(HERE).json["results"] == [changed.json]
    assert alices.patch(at, {}).error["code"] == "invalid"
    place = {"workspace": str(workspace.pk)}
    assert alices.patch(at, {"order": place, "locked": ["workspace"]}).json["order"] == place
    assert alices.delete(at).status == 204
    assert {alices.get(at).status, alices.patch(at, {"name": "x"}).status, alices.delete(at).status} == {404}


def test_refusals_name_their_fields(alices: Caller, workspace: Workspace) -> None:
    wrong = MINE | {"order": {"gpus": "2", "actor": "olga"}, "locked": ["actor"], "extra": 1}
    assert alices.post(HERE, wrong).error["fields"].keys() == {"extra"}
    del wrong["extra"]
    assert alices.post(HERE, wrong).error["fields"].keys() == {"order.actor", "locked.0"}
    bad = alices.post(HERE, MINE | {"order": {"gpu": "h900", "volume": "No"}})
    assert (bad.status, bad.error["code"]) == (400, "invalid")
    assert bad.error["fields"].keys() == {"order.gpu", "order.volume", "order.mount", "locked"}
    assert alices.post(HERE, MINE).status == 201
    taken = alices.post(HERE, MINE)
    assert (taken.status, taken.error["code"], [*taken.error["fields"]]) == (409, "conflict", ["name"])
    assert JobTemplate.objects.count() == 1


def test_an_order_names_it(alices: Caller, workspace: Workspace) -> None:
    alices.post(HERE, MINE)
    given = {"template": "training", "workspace": str(workspace.pk), "name": "one"}
    made = alices.post(JOBS, given)
    assert made.status == 202
    found = {name: made.json[name] for name in ("template", "image", "gpus", "gpu", "command")}
    usual = {"template": "training", "image": "train:7", "gpus": 2, "gpu": "h100-sxm-80gb"}
    assert found == {**usual, "command": ["train"]}
    assert alices.post(JOBS, {**given, "gpus": 2, "command": []}).json["command"] == []
    refused = alices.post(JOBS, {**given, "gpus": 1, "image": "x:1"})
    assert (refused.status, refused.error["code"]) == (400, "invalid")
    words = ["the template training locks this field: leave it out"]
    assert refused.error["fields"] == {"gpus": words, "image": words}
    assert alices.post(JOBS, {**given, "template": "gone"}).error["fields"] == {
        "template": ["the project has no template gone"],
        "image": ["enter the name of a container image, such as ghcr.io/lab/train:3"],
    }
    assert alices.post(JOBS, {}).error["fields"].keys() == {"workspace", "name", "image"}
    again = alices.post(f"{JOBS}/{made.json['id']}/rerun", {"gpus": 1})
    assert (again.status, again.json["gpus"], again.json["template"]) == (202, 1, "")
    assert Job.objects.count() == 3


def test_a_document_names_it(alices: Caller, workspace: Workspace) -> None:
    alices.post(HERE, MINE)
    text = f"template: training\nworkspace: {workspace.pk}\nname: one\n"
    made = alices.client.post(JOBS, text, content_type="application/yaml")
    assert (made.status_code, made.json()["template"], made.json()["gpus"]) == (202, "training", 2)
    refused = alices.client.post(JOBS, f"{text}gpus: 1\n", content_type="application/yaml")
    assert list(refused.json()["error"]["fields"]) == ["gpus"]
    kept = alices.get(f"{made.headers['Location']}/file").content.decode()
    assert "template" not in kept
    assert "gpus: 2" in kept
