"""A workspace is opened to its project by REST, and jobs of others that run in it say so; to those who may see them."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.jobs.models import Job
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import member_set
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.api.caller import Caller
from tests.jobs.conftest import workspace
from tests.jobs.stage import LONG, lender_ready, running, settle
from tests.workspaces.stage import ready

__all__ = ["workspace"]

pytestmark = pytest.mark.django_db
HERE = "/api/v1/projects/weather-lm"


def test_a_workspace_is_opened_and_closed(
    alices: Caller, bobs: Caller, charlies: Caller, workspace: Workspace
) -> None:
    place = f"{HERE}/workspaces/{workspace.pk}"
    assert alices.get(place).json["open_to_project"] is False
    version = alices.get(place).json["version"]
    assert alices.patch(place, {"open_to_project": "yes"}).status == 400
    assert charlies.patch(place, {"open_to_project": True}).status == 404
    opened = alices.patch(place, {"open_to_project": True}, If_Match=f'"{version}"')
    assert (opened.status, opened.json["open_to_project"], opened.json["version"]) == (202, True, version + 1)
    assert alices.patch(place, {"open_to_project": True}).json["version"] == version + 1
    entry = AuditEntry.objects.get(action="workspace.lend")
    assert (entry.before, entry.after) == ({"open_to_project": False}, {"open_to_project": True})
    assert alices.patch(place, {"open_to_project": False}, If_Match=f'"{version}"').status == 412
    assert alices.patch(place, {"open_to_project": False}).json["open_to_project"] is False


def test_a_job_says_where_it_runs(
    alices: Caller, as_alice: Actor, workspace: Workspace, project: Project, site: Site
) -> None:
    lender = lender_ready(as_alice, project, site)
    running(as_alice, workspace, "own", gpus=4)
    order = {"workspace": str(workspace.pk), "name": "guest", "image": "train:1", "command": LONG, "gpus": 1}
    made = alices.post(f"{HERE}/jobs", {**order, "borrow": True})
    assert (made.status, made.json["borrow"], made.json["place"]) == (202, True, None)
    row = settle(Job.objects.get(name="guest"), "ready")
    found = alices.get(made.headers["Location"]).json
    assert (found["workspace"], found["place"]) == (str(workspace.pk), str(lender.pk))
    assert "borrow: true" in alices.get(f"{made.headers['Location']}/file").content.decode()
    listed = alices.get(f"{HERE}/jobs?place={lender.pk}").json["results"]
    assert [each["id"] for each in listed] == [str(row.pk)]
    again = alices.post(f"{made.headers['Location']}/rerun", {})
    assert (again.json["borrow"], again.json["place"]) == (True, None)
    refused = alices.post(f"{HERE}/jobs", {**order, "borrow": True, "volume": "data", "mount": "/data"})
    assert (refused.status, list(refused.error["fields"])) == (400, ["borrow"])


def test_who_belongs_to_the_lender_alone_reads_no_log_and_outsiders_nothing(
    as_alice: Actor,
    bob: User,
    bobs: Caller,
    charlies: Caller,
    workspace: Workspace,
    project: Project,
    site: Site,
) -> None:
    lender = ready(as_alice, project, site, name="shared", h100s=4)
    member_set(actor=as_alice, workspace=lender, username=bob.username, role="admin")
    Workspace.objects.filter(pk=lender.pk).update(open_to_project=True)
    running(as_alice, workspace, "own", gpus=4)
    row = running(as_alice, workspace, "guest", gpus=1, borrow=True)
    assert row.place == lender
    place = f"{HERE}/jobs/{row.pk}"
    assert bobs.get(place).json["place"] == str(lender.pk)
    for deed in ("log", "tasks"):
        assert charlies.get(f"{place}/{deed}").status == 404
    assert bobs.get(f"{place}/log").status == 403
    assert bobs.post(f"{place}/cancel", {}).status == 403
    assert bobs.delete(place).status == 403
