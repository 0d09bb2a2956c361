"""Sleep, credentials and service accounts by REST: what tenants and pipelines do."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.workspaces.models import AccessGrant, Workspace
from gpuaas.workspaces.reconcile.revoke import revoke
from quotas.models import Limit
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller, token_for
from tests.lasting import lasting
from tests.workspaces.stage import ready, run_now, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
@lasting
def workspace(as_alice: Actor, project: Project, site: Site) -> Workspace:
    return ready(as_alice, project, site)


@pytest.fixture
def home(workspace: Workspace) -> str:
    return f"/projects/weather-lm/workspaces/{workspace.pk}"


def test_put_to_sleep_and_woken(program: Caller, workspace: Workspace, home: str) -> None:
    version = program.get(home).headers["ETag"]
    asked = program.post(f"{home}/suspend", {"reason": "over the weekend"}, If_Match=version)
    assert (asked.status, asked.json["state"]) == (202, "suspending")
    assert asked.json["suspended_at"]
    assert program.post(f"{home}/suspend", {}).json["version"] == asked.json["version"]
    stale = program.post(f"{home}/resume", {}, If_Match=version)
    assert (stale.status, stale.code) == (412, "precondition_failed")
    settle(workspace)
    assert program.get(home).json["state"] == "suspended"
    resized = program.patch(home, {"items": [{"flavor": "h100.1", "count": 1}]})
    assert (resized.status, resized.code) == (409, "conflict")
    woken = program.post(f"{home}/resume", {})
    assert (woken.status, woken.json["state"]) == (202, "resuming")
    settle(workspace)
    found = program.get(home).json
    assert (found["state"], found["suspended_at"]) == ("ready", None)
    kinds = [row["kind"] for row in program.get(f"{home}/operations").json["results"]]
    assert kinds == ["resume", "suspend", "create"]


def test_what_is_taken_meanwhile_is_refused_with_the_numbers(
    program: Caller, workspace: Workspace, home: str
) -> None:
    program.post(f"{home}/suspend", {})
    settle(workspace)
    Limit.objects.filter(resource="gpu:h100-sxm-80gb").update(hard=1)
    refused = program.post(f"{home}/resume", {})
    assert (refused.status, refused.code) == (409, "quota_exceeded")
    assert (refused.error["detail"]["limit"], refused.error["detail"]["asked"]) == (1, 2)
    assert program.get(home).json["state"] == "suspended"


def test_the_same_key_suspends_once(program: Caller, workspace: Workspace, home: str) -> None:
    first = program.post(f"{home}/suspend", {}, Idempotency_Key="k-1")
    settle(workspace)
    program.post(f"{home}/resume", {})
    settle(workspace)
    again = program.post(f"{home}/suspend", {}, Idempotency_Key="k-1")
    assert again.json == first.json
    assert program.get(home).json["state"] == "ready"


def test_credentials_are_listed_and_ended(
    alices: Caller, bobs: Caller, bob: User, workspace: Workspace, home: str
) -> None:
    alices.ask("PUT", f"{home}/members/bob", {"role": "edit"})
    run_now(workspace)
    taken = bobs.post(f"{home}/kubeconfig", {"lifetime_seconds": 3600})
    assert taken.status == 201
    listed = alices.get(f"{home}/grants")
    row = listed.json["results"][0]
    assert (row["username"], row["service_account"], row["standing"]) == ("bob", None, "valid")
    assert row["expires_at"] == taken.json["expires_at"]
    assert "token" not in listed.content.decode().replace("tokens", "")
    assert bobs.post(f"{home}/grants/revoke", {"username": "alice"}).status == 404
    alices.post(f"{home}/kubeconfig", {})
    assert bobs.post(f"{home}/grants/revoke", {"username": "alice"}).status == 403
    ended = bobs.post(f"{home}/grants/revoke", {})
    assert (ended.status, ended.json) == (202, {"credentials": 1})
    kinds = {each["type"] for each in alices.get(home).json["conditions"]}
    assert "CredentialsRevoked" in kinds
    revoke(workspace.pk)
    standing = {each["username"]: each["standing"] for each in alices.get(f"{home}/grants").json["results"]}
    assert standing == {"bob": "revoked", "alice": "valid"}
    assert alices.post(f"{home}/grants/revoke", {"username": "bob"}).json == {"credentials": 0}


def test_a_pipeline_takes_its_own_credential(
    alice: User, alices: Caller, project: Project, workspace: Workspace, home: str
) -> None:
    made = alices.post(f"{home}/service-accounts", {"name": "ci", "role": "edit"})
    assert (made.status, made.json["role"]) == (201, "edit")
    run_now(workspace)
    pipeline = Caller(token=token_for(alice, project, scopes=["workspace:access", "project:view"]))
    taken = pipeline.post(
        f"{home}/service-accounts/ci/kubeconfig", {"lifetime_seconds": 900}, Idempotency_Key="run-7"
    )
    assert taken.status == 201
    assert "token:" in taken.json["kubeconfig"]
    assert taken.headers["Cache-Control"] == "no-store"
    again = pipeline.post(
        f"{home}/service-accounts/ci/kubeconfig", {"lifetime_seconds": 900}, Idempotency_Key="run-7"
    )
    assert (again.status, again.code) == (409, "idempotency_replayed")
    assert AccessGrant.objects.get().robot is not None
    assert pipeline.ask("DELETE", f"{home}/service-accounts/ci").status == 403
    ended = alices.post(f"{home}/grants/revoke", {"service_account": "ci"})
    assert ended.json == {"credentials": 1}
    assert alices.ask("DELETE", f"{home}/service-accounts/ci").status == 204
    assert alices.get(f"{home}/service-accounts/ci").status == 404
    assert alices.get(f"{home}/service-accounts").json["results"] == []


def test_bad_input_is_refused_beside_its_field(alices: Caller, workspace: Workspace, home: str) -> None:
    for body, field in (
        ({"name": "CI", "role": "edit"}, "name"),
        ({"name": "ci", "role": "root"}, "role"),
        ({"name": "ci", "role": "edit", "more": 1}, "more"),
    ):
        refused = alices.post(f"{home}/service-accounts", body)
        assert (refused.status, list(refused.error["fields"])) == (400, [field])
    assert list(alices.post(f"{home}/suspend", {"reason": "x" * 201}).error["fields"]) == ["reason"]
    both = alices.post(f"{home}/grants/revoke", {"username": "alice", "service_account": "ci"})
    assert both.status == 400
    assert alices.post(f"{home}/kubeconfig", {"lifetime_seconds": 90_000}).status == 400


def test_no_sign_in_at_a_site_that_has_none(alices: Caller, home: str) -> None:
    refused = alices.get(f"{home}/sign-in-kubeconfig")
    assert (refused.status, refused.code) == (409, "conflict")
