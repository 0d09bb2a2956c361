"""The main job by REST: ask, watch, resize, extend, delete; and be refused with numbers."""

from decimal import Decimal

import pytest

from billing.services import rate_set
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.ids import uuid7
from gpuaas.metering.models import Meter
from gpuaas.metering.services import held_sync
from gpuaas.workspaces.holdings import holdings_set
from gpuaas.workspaces.models import Workspace, WorkspaceMember
from gpuaas.workspaces.services import workspace_resize
from quotas.models import Limit, Reservation
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.stage import ready, settle

pytestmark = pytest.mark.django_db

HOME = "/projects/weather-lm/workspaces"
ASKED = {"name": "train-7b", "items": [{"flavor": "h100.1", "count": 2}], "storage_gib": 100}


def test_a_program_requests_a_workspace_and_follows_it(program: Caller, limits: None, alice: User) -> None:
    made = program.post(HOME, ASKED)
    assert made.status == 202, made.json
    assert made.json["state"] == "requested"
    assert made.json["project"] == "weather-lm"
    assert made.json["created_by"] == "alice"
    assert made.json["items"] == [
        {
            "flavor": "h100.1",
            "name": "H100 SXM",
            "gpu_type": "h100-sxm-80gb",
            "gpus": 1,
            "count": 2,
            "confirmed": 0,
        }
    ]
    found = program.get(made.headers["Location"])
    assert found.status == 200
    assert made.headers["ETag"] == f'"{found.json["version"]}"'
    assert found.headers["ETag"].startswith(f'"{found.json["version"]}-')
    operations = program.get(made.headers["Location"] + "/operations")
    assert operations.json["results"][0]["kind"] == "create"
    assert operations.json["results"][0]["steps"][0]["state"] == "done"
    assert [row["id"] for row in program.get(HOME).json["results"]] == [made.json["id"]]
    counters_must_match()


def test_a_request_over_the_limit_is_refused_with_the_numbers(
    program: Caller, project: Project, site: Site
) -> None:
    limits_give(project, {"gpu:h100-sxm-80gb": 1})
    refused = program.post(HOME, ASKED)
    assert refused.status == 409
    assert refused.code == "quota_exceeded"
    detail = refused.error["detail"]
    assert (detail["limit"], detail["used"], detail["asked"]) == (1, 0, 2)
    assert not Workspace.objects.exists()
    assert not Reservation.objects.exists()
    counters_must_match()


def test_a_request_beyond_the_site_is_refused_for_capacity(
    program: Caller, limits: None, project: Project
) -> None:
    Limit.objects.update(hard=None)
    refused = program.post(HOME, {"name": "big", "items": [{"flavor": "h100.1", "count": 17}]})
    assert (refused.status, refused.code) == (409, "no_capacity")
    assert refused.error["detail"]["limit"] == 16


def test_the_name_is_taken(program: Caller, workspace: Workspace) -> None:
    assert program.post(HOME, ASKED).status == 409


def test_bob_may_look_and_a_viewer_may_not_ask(
    bobs: Caller, bob: User, project: Project, workspace: Workspace
) -> None:
    assert bobs.get(f"{HOME}/{workspace.pk}").status == 200
    project.memberships.filter(user=bob).update(role="viewer")
    refused = bobs.post(HOME, ASKED | {"name": "mine"})
    assert (refused.status, refused.code) == (403, "forbidden")


def test_a_workspace_of_another_project_is_not_under_mine(
    olgas: Caller, other_project: Project, workspace: Workspace
) -> None:
    assert olgas.get(f"{HOME}/{workspace.pk}").status == 200
    assert olgas.get(f"/projects/{other_project.slug}/workspaces/{workspace.pk}").status == 404
    assert olgas.delete(f"/projects/{other_project.slug}/workspaces/{workspace.pk}").status == 404


def test_if_match_guards_a_change(program: Caller, workspace: Workspace) -> None:
    address = f"{HOME}/{workspace.pk}"
    first = program.get(address).headers["ETag"]
    later = {"lease_ends_at": (workspace.lease_ends_at.replace(microsecond=0)).isoformat()}
    assert program.patch(address, later).status == 400
    later["lease_ends_at"] = (
        workspace.lease_ends_at.replace(year=workspace.lease_ends_at.year + 1, month=1, day=2)
    ).isoformat()
    changed = program.patch(address, later, If_Match=first)
    assert changed.status == 202, changed.json
    assert changed.headers["ETag"] != first
    stale = program.delete(address, If_Match=first)
    assert (stale.status, stale.code) == (412, "precondition_failed")
    assert program.delete(address, If_Match="nonsense").status == 400
    now = program.get(address).headers["ETag"]
    assert program.get(address, If_None_Match=now).status == 304
    assert program.get(address, If_None_Match=first).status == 200
    assert program.delete(address, If_Match=changed.headers["ETag"]).json["state"] == "deleting"


def test_a_patch_is_all_or_nothing(program: Caller, workspace: Workspace) -> None:
    """The extension alone would do, the resize cannot while the workspace is being made."""
    address = f"{HOME}/{workspace.pk}"
    until = workspace.lease_ends_at.replace(year=workspace.lease_ends_at.year + 1, month=1, day=2)
    refused = program.patch(
        address, {"lease_ends_at": until.isoformat(), "items": [{"flavor": "h100.1", "count": 3}]}
    )
    assert refused.status == 409
    assert Workspace.objects.get(pk=workspace.pk).lease_ends_at == workspace.lease_ends_at


def test_what_a_patch_leaves_out_stays_as_somebody_else_has_just_made_it(
    program: Caller,
    as_alice: Actor,
    project: Project,
    site: Site,
    limits: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A teammate's resize is done between the moment in which the address is found and that in which its row is locked."""
    row = ready(as_alice, project, site)

    def meanwhile(request: object) -> None:
        workspace_resize(actor=as_alice, workspace=row, items=[("h100.1", 3)])
        assert settle(row).state == "ready"

    monkeypatch.setattr("gpuaas.api.v1.workspaces.views.wanted_version", meanwhile)
    changed = program.patch(f"{HOME}/{row.pk}", {"storage_gib": 200})
    assert changed.status == 202, changed.json
    assert [each["count"] for each in changed.json["items"]] == [3]
    assert row.flavors.get().count == 3


def test_deleting_and_retrying(program: Caller, workspace: Workspace) -> None:
    address = f"{HOME}/{workspace.pk}"
    assert program.post(f"{address}/retry").status == 409
    assert program.delete(address).status == 202
    assert program.delete(address).status == 202
    assert program.get(address).json["state"] == "deleting"


def test_members_of_a_workspace(program: Caller, bob: User, workspace: Workspace) -> None:
    members = f"{HOME}/{workspace.pk}/members"
    assert program.put(f"{members}/bob", {"role": "edit"}).json["role"] == "edit"
    assert [row["username"] for row in program.get(members).json["results"]] == ["alice", "bob"]
    assert program.put(f"{members}/charlie", {"role": "edit"}).status == 400
    assert program.put(f"{members}/bob", {"role": "boss"}).status == 400
    assert program.delete(f"{members}/bob").status == 204
    assert program.delete(f"{members}/bob").status == 404
    assert WorkspaceMember.objects.filter(workspace=workspace).count() == 1


def test_the_preview_reserves_nothing(program: Caller, limits: None) -> None:
    said = program.post(f"{HOME}/preview", {"items": [{"flavor": "h100.1", "count": 20}]})
    assert said.status == 200, said.json
    assert said.json["fits"] is False
    tight = [check for check in said.json["checks"] if not check["fits"]]
    assert {check["scope"] for check in tight} == {"project", "organization", "site"}
    assert said.json["quote"]["complete"] is False
    assert program.post(f"{HOME}/preview", {"items": [{"flavor": "h100.1", "count": 2}]}).json["fits"] is True
    assert not Reservation.objects.exists()


def test_filters(program: Caller, workspace: Workspace) -> None:
    assert len(program.get(f"{HOME}?state=requested&site=ber-1&search=train").json["results"]) == 1
    for empty in ("state=ready", "site=elsewhere", "search=other"):
        assert program.get(f"{HOME}?{empty}").json["results"] == []
    for wrong in (
        "state=odd",
        "page_size=0",
        "page_size=201",
        "page_size=1e9",
        "cursor=x",
        "colour=red",
        "state=ready&state=failed",
    ):
        refused = program.get(f"{HOME}?{wrong}")
        assert (refused.status, refused.code) == (400, "invalid"), wrong


def test_an_unknown_workspace_is_404(program: Caller) -> None:
    assert program.get(f"{HOME}/{uuid7()}").status == 404
    assert program.get(f"{HOME}/not-a-uuid").status == 404


def test_a_change_is_priced_before_it_is_made(
    program: Caller, bob: User, workspace: Workspace, as_olga: Actor
) -> None:
    flavor = workspace.flavors.get().flavor
    holdings_set(
        workspace=workspace, items=[(flavor, 2)], storage={None: workspace.storage_gib}, at=clock.now()
    )
    held_sync()
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.40", valid_from=clock.now())
    address = f"{HOME}/{workspace.pk}/quote"
    said = program.post(address, {"items": [{"flavor": "h100.1", "count": 5}]})
    assert said.status == 200, said.json
    assert (said.json["now"]["per_hour"], said.json["then"]["per_hour"]) == ("4.80", "12.00")
    assert said.json["difference"]["per_hour"] == "7.20"
    then, now = said.json["then"], said.json["now"]
    assert Decimal(said.json["difference"]["to_lease_end"]) == Decimal(then["to_lease_end"]) - Decimal(
        now["to_lease_end"]
    )
    assert Decimal(then["per_month"]) == 12 * then["month_hours"]
    assert workspace.flavors.get().count == 2
    refused = program.post(address, {"items": [{"flavor": "no-such", "count": 5}]})
    assert refused.status == 400
    assert "no-such" in str(refused.error)
    assert program.post(address, {}).status == 400
    assert program.post(address, {"lease_ends_at": "2020-01-01T00:00:00Z"}).status == 400
