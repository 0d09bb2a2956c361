"""Environments by REST: ordered, watched, stopped, started, cloned, read and deleted; and the catalog of operators."""

from datetime import datetime, timedelta

import pytest
import time_machine

from gpuaas.core.clock import now
from gpuaas.environments.models import Environment
from gpuaas.environments.reconcile import log_fetch
from gpuaas.environments.tokens import counts_look
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.api.caller import Caller
from tests.environments.conftest import lab_at_start, start, travel, unused, workspace
from tests.environments.stage import DOCUMENT, START, at, kind, ready, row_in, run_now, settle

__all__ = ["lab_at_start", "start", "travel", "unused", "workspace"]

pytestmark = pytest.mark.django_db
HERE = "/api/v1/projects/weather-lm/environments"
KINDS = "/api/v1/platform/environment-kinds"


def test_a_whole_life(alices: Caller, workspace: Workspace) -> None:
    kind()
    (offered,) = alices.get("/api/v1/projects/weather-lm/environment-kinds").json["results"]
    assert (offered["slug"], offered["number"], offered["sizes"]["vcpus"]) == ("notebook", 1, 4)
    assert list(offered["schema"]["properties"]) == ["folder"]
    asked = {"workspace": str(workspace.pk), "kind": "notebook", "name": "lab", "gpus": 2}
    made = alices.post(HERE, asked)
    assert (made.status, made.json["state"], made.json["gpu"]) == (202, "requested", "h100-sxm-80gb")
    place = made.headers["Location"]
    row = settle(Environment.objects.get())
    found = alices.get(place).json
    assert (found["state"], found["gpus"], found["parameters"]) == ("ready", 2, {"folder": "work"})
    (operation,) = alices.get(f"{place}/operations").json["results"]
    assert [step["state"] for step in operation["steps"]] == ["done", "done", "done"]

    stopped = alices.post(f"{place}/stop", {})
    assert (stopped.status, stopped.json["state"]) == (202, "stopping")
    settle(row)
    assert [each["name"] for each in alices.get(f"{HERE}?state=stopped").json["results"]] == ["lab"]
    assert alices.get(f"{HERE}?state=ready").json["results"] == []
    assert alices.post(f"{place}/start", {}).json["state"] == "starting"
    settle(row)
    assert alices.post(f"{place}/restart", {}).status == 202
    settle(row)
    clone = alices.post(f"{place}/clone", {"name": "two"})
    assert (clone.status, clone.json["name"], clone.json["gpus"]) == (202, "two", 2)
    gone = alices.delete(place)
    assert (gone.status, gone.json["state"]) == (202, "deleting")
    settle(row)
    assert alices.get(place).json["state"] == "deleted"


def test_workers(alices: Caller, workspace: Workspace) -> None:
    kind("cluster", gpus=0, workers={"most": 4, "count": 2, "vcpus": 4})
    (offered,) = alices.get("/api/v1/projects/weather-lm/environment-kinds").json["results"]
    sizes = {"gpus": 0, "vcpus": 4, "memory_gib": 8}
    expected = {"most": 4, "count": 2, "sizes": sizes, "open": ["gpus", "memory_gib"], "memory_gib_least": 1}
    assert offered["workers"] == expected
    asked = {"workspace": str(workspace.pk), "kind": "cluster", "name": "lab"}
    for wrong, status in (({"workers": 5}, 400), ({"worker_vcpus": 2}, 400), ({"worker_gpus": 3}, 409)):
        refused = alices.post(HERE, {**asked, **wrong})
        fields = refused.json["error"].get("fields") or {}
        name = "workers" if status == 409 else next(iter(wrong))
        assert (refused.status, list(fields)) == (status, [name]), refused.json
    made = alices.post(HERE, {**asked, "worker_gpus": 1, "worker_memory_gib": 16})
    place = made.headers["Location"]
    row = settle(Environment.objects.get())
    run_now(row)
    found = alices.get(place).json
    names = ("workers", "worker_gpus", "worker_vcpus", "worker_memory_gib", "workers_running", "gpu")
    assert [found[name] for name in names] == [2, 1, 4, 16, 2, "h100-sxm-80gb"]
    assert alices.post(f"{place}/log", {"worker": 3}).status == 400
    log = alices.post(f"{place}/log", {"worker": 2}).json
    assert (log["worker"], log["asked"], log["fetching"]) == (0, 2, True)


def test_use_of_it(alices: Caller, as_alice: Actor, workspace: Workspace) -> None:
    row = ready(as_alice, workspace, gpus=0)
    place = f"{HERE}/{row.pk}"
    found = alices.get(place).json
    assert (found["idle_hours"], found["stops_after_hours"], found["kept_until"]) == (None, None, None)
    assert (found["use"]["stops_at"], found["use"]["unknown"]) == (None, "")
    changed = alices.patch(place, {"idle_hours": 8})
    assert (changed.status, changed.json["idle_hours"], changed.json["stops_after_hours"]) == (202, 8, 8)
    until = (now() + timedelta(days=2)).replace(microsecond=0)
    kept = alices.post(f"{place}/keep", {"until": until.isoformat()})
    assert (kept.status, datetime.fromisoformat(kept.json["kept_until"])) == (202, until)
    for wrong in ({"idle_hours": 0}, {"idle_hours": 721}, {"idle_hours": "8"}, {}, {"more": 1}):
        assert alices.patch(place, wrong).status == 400, wrong
    for wrong in (
        {"until": "tomorrow"},
        {"until": "2020-01-01T00:00:00Z"},
        {"until": "9999-12-31T23:59:59Z"},
        {},
    ):
        assert alices.post(f"{place}/keep", wrong).status == 400, wrong
    assert alices.patch(place, {"idle_hours": None}).json["stops_after_hours"] is None
    assert alices.patch(place, {"idle_hours": 5}, If_Match='"1"').status == 412


def test_polling_shows_that_it_is_about_to_be_stopped(
    travel: time_machine.Traveller, unused: Environment, alices: Caller
) -> None:
    """That changes no version, so a change by what was read before is still taken."""
    place = f"{HERE}/{unused.pk}"
    first = alices.get(place)
    tag, version = first.headers["ETag"], first.json["version"]
    same = alices.get(place, If_None_Match=f'"0", W/{tag}')
    assert (same.status, same.headers["ETag"], same.content) == (304, tag, b"")
    at(travel, unused, hours=3)
    second = alices.get(place, If_None_Match=tag)
    assert (second.status, second.json["version"], second.headers["ETag"] == tag) == (200, version, False)
    assert second.json["use"]["stops_at"]
    assert alices.get(place, If_None_Match=f'"{version}"').status == 200
    assert alices.patch(place, {"idle_hours": 3}, If_Match=tag).status == 202
    assert alices.patch(place, {"idle_hours": 2}, If_Match=second.headers["ETag"]).status == 412
    assert alices.patch(place, {"idle_hours": 2}, If_Match=f'"{version + 1}"').status == 202
    assert alices.patch(place, {"idle_hours": 4}, If_Match=f'"{version}-nonsense"').status == 400


def test_the_log(alices: Caller, as_alice: Actor, workspace: Workspace) -> None:
    row = ready(as_alice, workspace)
    address = f"{HERE}/{row.pk}/log"
    nothing = {"text": "", "worker": 0, "asked": 0, "failure": "", "taken_at": None, "fetching": False}
    assert alices.get(address).json == nothing
    assert alices.post(address, {}).json["fetching"] is True
    log_fetch(row.pk)
    assert "listening at port 8888" in alices.get(address).json["text"]


@pytest.mark.parametrize("what", ["log", "keys", "keys/{key}"])
def test_its_log_and_keys_are_for_those_who_use_its_workspace(
    what: str, alices: Caller, bobs: Caller, charlies: Caller, workspace: Workspace
) -> None:
    """bob is of the project, and not in the workspace."""
    row = row_in(workspace)
    address = f"{HERE}/{row.pk}/{what.format(key=row.keys.get().pk)}"
    refused = bobs.get(address)
    assert refused.status == 403
    assert "only admins and editors of the workspace can use environments" in refused.error["message"]
    assert (alices.get(address).status, charlies.get(address).status) == (200, 404)


@pytest.mark.parametrize(
    ("wrong", "status", "field"),
    [
        ({"gpus": 5}, 409, "gpus"),
        ({"name": "Not A Name"}, 400, "name"),
        ({"kind": "nothing"}, 400, "kind"),
        ({"workspace": "01a217b0-2b69-76ca-882c-cd2c6d04cabc"}, 400, "workspace"),
        ({"gpus": "1"}, 400, "gpus"),
        ({"parameters": {"folder": 1}}, 400, "parameters.folder"),
        ({"parameters": []}, 400, "parameters"),
        ({"secret": "x"}, 400, "secret"),
    ],
)
def test_refusals_name_their_field(
    alices: Caller, workspace: Workspace, wrong: dict[str, object], status: int, field: str
) -> None:
    kind()
    asked = {"workspace": str(workspace.pk), "kind": "notebook", "name": "lab", **wrong}
    refused = alices.post(HERE, asked)
    assert refused.status == status, refused.json
    assert f'"{field}"' in str(refused.json).replace("'", '"')
    assert not Environment.objects.exists()


def test_a_workspace_of_another_project_is_none(
    charlies: Caller, workspace: Workspace, other_project: Project
) -> None:
    kind()
    asked = {"workspace": str(workspace.pk), "kind": "notebook", "name": "lab"}
    assert charlies.post(HERE, asked).status == 404
    refused = charlies.post(f"/api/v1/projects/{other_project.slug}/environments", asked)
    assert (refused.status, Environment.objects.exists()) == (400, False)


def test_a_stale_version_changes_nothing(alices: Caller, as_alice: Actor, workspace: Workspace) -> None:
    row = ready(as_alice, workspace)
    place = f"{HERE}/{row.pk}"
    assert alices.post(f"{place}/stop", {}, If_Match='"1"').status == 412
    assert alices.get(place).json["state"] == "ready"


def test_olga_keeps_the_catalog(olgas: Caller, alices: Caller) -> None:
    made = olgas.post(KINDS, {"slug": "notebook", "name": "Notebook", "document": DOCUMENT})
    assert (made.status, made.json["number"], made.json["state"]) == (201, 1, "active")
    wrong = olgas.post(f"{KINDS}/notebook/versions", {"document": {**DOCUMENT, "port": 22}})
    assert (wrong.status, "port" in str(wrong.json)) == (400, True)
    newer = olgas.post(f"{KINDS}/notebook/versions", {"document": DOCUMENT, "note": "newer"})
    assert (newer.status, newer.json["number"]) == (201, 2)
    assert [each["number"] for each in olgas.get(f"{KINDS}/notebook/versions").json["results"]] == [2, 1]
    retired = olgas.patch(f"{KINDS}/notebook", {"state": "retired"})
    assert (retired.status, retired.json["state"]) == (200, "retired")
    assert alices.get(KINDS).status == 404


def test_requests_and_tokens_by_day(
    travel: time_machine.Traveller, alices: Caller, bobs: Caller, as_alice: Actor, workspace: Workspace
) -> None:
    kind(metrics="vllm")
    row = ready(as_alice, workspace, gpus=0)
    place = f"{HERE}/{row.pk}/tokens"
    assert alices.get(place).json == {"next": None, "results": []}
    for minutes in (10, 20, 60 * 17):
        travel.move_to(START + timedelta(minutes=minutes))
        counts_look(row.pk)
    travel.move_to(START)
    first, second = alices.get(place).json["results"]
    assert (first["day"], second["day"]) == ("2027-03-02", "2027-03-01")
    counts = {"requests": 60, "tokens_in": 21000, "tokens_out": 7200}
    assert second == {"day": "2027-03-01", "time_zone": "Europe/Berlin", **counts}
    page = alices.get(f"{place}?page_size=1").json
    assert [each["day"] for each in page["results"]] == ["2027-03-02"]
    assert alices.get(page["next"]).json == {"next": None, "results": [second]}
    assert bobs.get(place).status == 200, "as the environment itself"
