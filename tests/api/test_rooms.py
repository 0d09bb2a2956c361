"""The other rooms by REST: people, tokens, limits, sites, money."""

from datetime import timedelta
from typing import Any

import pytest
import yaml

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace, WorkspaceMember
from quotas.models import Limit
from tenants.actors import Actor
from tenants.models import ApiToken, Project, User
from tests.api.caller import Answer, Caller, token_for
from tests.factories.tenants import OrganizationMembershipFactory, UserFactory
from tests.workspaces.stage import ready

pytestmark = pytest.mark.django_db

P = "/projects/weather-lm"


def test_me(alices: Caller, program: Caller, olgas: Caller) -> None:
    me = alices.get("/me").json
    assert me["username"] == "alice"
    assert [row["slug"] for row in me["projects"]] == ["weather-lm"]
    assert "organization:manage" in me["projects"][0]["permissions"]
    assert me["token_prefix"] is None
    assert program.get("/me").json["token_prefix"]
    assert "organization:manage" not in program.get("/me").json["projects"][0]["permissions"]
    assert "platform:manage" in olgas.get("/me").json["platform_permissions"]


def test_a_project_is_made_renamed_and_guarded_by_its_version(alices: Caller) -> None:
    made = alices.post("/organizations/climate/projects", {"slug": "ice-cores", "name": "Ice"})
    assert made.status == 201, made.json
    address, first = made.headers["Location"], made.headers["ETag"]
    assert alices.get(address).headers["ETag"].startswith(first.removesuffix('"'))
    assert alices.patch(address, {"name": "Ice cores"}, If_Match=first).json["name"] == "Ice cores"
    assert alices.patch(address, {"name": "Again"}, If_Match=first).code == "precondition_failed"
    taken = alices.post("/organizations/climate/projects", {"slug": "ice-cores", "name": "Ice"})
    assert taken.status == 400
    assert "slug" in taken.error["fields"]
    assert alices.patch("/organizations/climate", {"name": "Climate"}).json["name"] == "Climate"


def emails(answer: Answer) -> set[str]:
    return {row["email"] for row in answer.json.get("results", [answer.json])}


def test_addresses_are_for_those_who_manage_the_members(
    alices: Caller, bobs: Caller, alice: User, bob: User, project: Project, site: Site, as_alice: Actor
) -> None:
    """As on the pages, and for a token only with that scope."""
    OrganizationMembershipFactory.create(organization=project.organization, user=bob, role="billing")
    workspace = ready(as_alice, project, site)
    WorkspaceMember.objects.create(workspace=workspace, user=bob, role="edit")
    inside, above = f"{P}/workspaces/{workspace.pk}/members", "/organizations/climate/members"
    for path in (f"{P}/members", f"{P}/members/bob", above, f"{above}/bob", inside, f"{inside}/bob"):
        assert bob.email in emails(alices.get(path)), path
        assert emails(bobs.get(path)) == {""}, path
    assert emails(alices.put(f"{P}/members/bob", {"role": "viewer"})) == {bob.email}
    path = f"{P}/workspaces/{workspace.pk}"
    assert bob.email in str(alices.get(path).json["members"])
    assert bob.email not in str(bobs.get(path).json)
    assert bob.email not in str(bobs.get(f"{P}/workspaces").json)
    program = Caller(token=token_for(alice, project, scopes=["project:view"]))
    assert emails(program.get(f"{P}/members")) == {""}


def test_members_come_and_go(alices: Caller, bobs: Caller, charlie: User, project: Project) -> None:
    assert alices.put(f"{P}/members/charlie", {"role": "viewer"}).json["role"] == "viewer"
    assert alices.put(f"{P}/members/nobody", {"role": "viewer"}).status == 404
    assert bobs.put(f"{P}/members/charlie", {"role": "admin"}).status == 403
    assert [row["username"] for row in bobs.get(f"{P}/members").json["results"]] == [
        "alice",
        "bob",
        "charlie",
    ]
    UserFactory.create(username="jürgen")
    assert alices.put(f"{P}/members/jürgen", {"role": "viewer"}).json["username"] == "jürgen"
    assert alices.get(f"{P}/members/jürgen").json["role"] == "viewer"
    assert alices.delete(f"{P}/members/jürgen").status == 204
    assert alices.delete(f"{P}/members/charlie").status == 204
    assert alices.delete(f"{P}/members/charlie").status == 404
    assert bobs.delete(f"{P}/members/bob").status == 204
    assert bobs.get(P).status == 404
    assert alices.put("/organizations/climate/members/bob", {"role": "billing"}).json["role"] == "billing"
    assert alices.delete("/organizations/climate/members/alice").status == 409
    assert alices.delete("/organizations/climate/members/bob").status == 204


def test_a_token_is_shown_once_works_within_its_scopes_and_ends(alices: Caller, workspace: Workspace) -> None:
    expires = (clock.now() + timedelta(days=1)).isoformat()
    body = {"name": "ci", "scopes": ["workspace:view"], "expires_at": expires}
    made = alices.post(f"{P}/tokens", body)
    assert made.headers["Cache-Control"] == "no-store"
    program = Caller(token=made.json["token"])
    assert program.get(f"{P}/workspaces").status == 200
    assert program.get(f"{P}/workspaces/{workspace.pk}").status == 200
    assert program.get(P).status == 403
    assert program.delete(f"{P}/workspaces/{workspace.pk}").status == 403
    assert program.post(f"{P}/tokens", body).status == 403
    listed = alices.get(f"{P}/tokens").json["results"][0]
    assert "token" not in listed
    assert listed["last_used_at"] is not None
    assert alices.delete(f"{P}/tokens/{listed['id']}").status == 204
    assert program.get(f"{P}/workspaces").status == 401
    assert ApiToken.objects.get().revoked_at is not None


def test_a_lost_role_is_lost_at_once_for_tokens_too(bob: User, project: Project, limits: None) -> None:
    project.memberships.filter(user=bob).update(role="admin")
    program = Caller(token=token_for(bob, project))
    assert program.get(P).status == 200
    project.memberships.filter(user=bob).delete()
    assert program.get(P).status == 404


def test_limits_are_seen_by_tenants_and_set_by_operators(
    alices: Caller, olgas: Caller, project: Project, site: Site
) -> None:
    address = "/platform/projects/weather-lm/limits/gpu:h100-sxm-80gb"
    made = olgas.put(address, {"hard": 8}, If_Match='"0"')
    assert (made.status, made.json["hard"]) == (200, 8)
    assert olgas.put(address, {"hard": 9}, If_Match='"0"').status == 412
    assert olgas.put(address, {"hard": None}, If_Match=made.headers["ETag"]).json["hard"] is None
    for wrong in (
        {"hard": -1},
        {"hard": "8"},
        {"hard": 1.0},
        {"hard": 2**70},
        {"hard": True},
        {},
        {"soft": 1},
    ):
        assert olgas.put(address, wrong).status == 400, wrong
    assert olgas.put("/platform/projects/weather-lm/limits/gpu:unknown", {"hard": 1}).status == 400
    assert olgas.put("/platform/organizations/climate/limits/vcpu", {"hard": 100}).json["hard"] == 100
    assert alices.put(address, {"hard": 100}).status in {403, 404}
    lines = {row["resource"]: row for row in alices.get(f"{P}/limits").json["results"]}
    assert lines["gpu:h100-sxm-80gb"]["limit"] is None
    assert lines["vcpu"]["organization_limit"] == 100
    matrix = olgas.get("/platform/limits").json
    row = next(row for row in matrix["rows"] if row["project"] == "weather-lm")
    assert row["limits"]["gpu:h100-sxm-80gb"]["limit"] is None
    assert Limit.objects.count() == 2


def test_the_catalog_with_prices(alices: Caller, olgas: Caller, site: Site) -> None:
    assert (
        olgas.post("/platform/rates", {"flavor": "h100.1", "meter": "gpu_held", "price": "2.40"}).status
        == 201
    )
    flavors = {row["slug"]: row for row in alices.get("/flavors").json["results"]}
    assert flavors["h100.1"]["price_per_hour"] == "2.40"
    assert flavors["h100.1"]["free_gpus"] == 16
    assert flavors["l40s.1"]["price_per_hour"] is None
    assert [row["slug"] for row in alices.get("/flavors?memory_gib=80").json["results"]] == ["h100.1"]
    assert alices.get("/flavors?memory_gib=-1").status == 400
    assert alices.get("/flavors?compute_capability=x").status == 400
    assert [row["slug"] for row in alices.get("/sites").json["results"]] == ["ber-1"]
    assert olgas.patch("/platform/flavors/l40s.1", {"state": "retired"}).json["state"] == "retired"
    assert [row["slug"] for row in alices.get("/flavors").json["results"]] == ["h100.1"]
    assert Flavor.objects.get(slug="l40s.1").state == "retired"
    for price in ("-1", "1e400", "NaN", "0.0000001", "", "two"):
        refused = olgas.post("/platform/rates", {"flavor": "h100.1", "meter": "gpu_held", "price": price})
        assert refused.status == 400, price


def test_operators_attach_and_change_a_site(olgas: Caller) -> None:
    body = {"slug": "muc-1", "name": "Munich", "driver": "sandbox", "credentials": {"token": "hush-hush"}}
    made = olgas.post("/platform/sites", body, Idempotency_Key="site-1")
    assert made.status == 201, made.json
    assert "hush" not in made.content.decode()
    address = "/platform/sites/muc-1"
    assert olgas.patch(address, {"enabled": "yes"}).status == 400
    assert olgas.patch(address, {"enabled": False}, If_Match=made.headers["ETag"]).json["enabled"] is False
    assert olgas.patch(address, {"enabled": True}, If_Match=made.headers["ETag"]).status == 412
    assert "hush" not in olgas.get(address).content.decode()
    assert olgas.post("/platform/sites", body | {"slug": "x", "driver": "magic"}).status == 400
    config = {"slug": "x", "driver": "kubernetes", "credentials": {"kubeconfig": "hello: world"}}
    refused = olgas.post("/platform/sites", body | config)
    assert refused.status == 400
    assert "not a kubeconfig" in refused.error["fields"]["credentials"][0]
    refused = olgas.patch(address, {"credentials": {"hello": "world"}})
    assert (refused.status, list(refused.error["fields"])) == (400, ["credentials"])


def test_money_adds_up(alices: Caller, workspace: Workspace) -> None:
    month = f"{clock.now():%Y-%m}"
    statement = alices.get(f"{P}/statements/{month}").json
    costs = alices.get(f"{P}/costs").json
    assert statement["total"] == costs["total"]
    assert alices.get(f"/organizations/climate/statements/{month}").json["total"] == statement["total"]
    by = alices.get("/organizations/climate/costs/breakdown?group_by=project").json
    assert (by["group_by"], by["total"]) == ("project", statement["total"])
    assert alices.get(f"{P}/costs/breakdown").json["group_by"] == "workspace"
    assert alices.get(f"{P}/costs/breakdown?group_by=member&gpu_type=no").json["rows"] == []
    assert alices.get(f"{P}/costs/breakdown?group_by=moon").status == 400
    assert alices.get("/organizations/climate/costs").status == 200
    table = alices.get(f"{P}/statements/{month}.csv")
    assert table.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert table.content.decode().startswith("month,project,")
    assert alices.get(f"{P}/costs?month=2026-13").status == 400
    now = clock.now()
    span = f"starts_at={now - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}&ends_at={now:%Y-%m-%dT%H:%M:%SZ}"
    assert alices.get(f"{P}/usage/totals?{span}").json["totals"] == []
    assert alices.get(f"{P}/usage?meter=gpu_held&open_only=true").json["results"] == []


def test_the_audit_log_tells_who_asked(alices: Caller, bobs: Caller, workspace: Workspace) -> None:
    rows = alices.get(f"{P}/audit?action=workspace.request").json["results"]
    assert [row["actor"] for row in rows] == ["alice"]
    assert bobs.get(f"{P}/audit").status == 403


def test_a_kubeconfig_is_short_lived_personal_and_never_stored(
    alice: User, as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    program = Caller(token=token_for(alice, project))
    address = f"{P}/workspaces/{workspace.pk}/kubeconfig"
    made = program.post(address, {"lifetime_seconds": 600}, Idempotency_Key="k1")
    assert made.status == 201, made.json
    assert made.headers["Cache-Control"] == "no-store"
    document: Any = yaml.safe_load(made.json["kubeconfig"])
    assert document["kind"] == "Config"
    assert (
        program.post(address, {"lifetime_seconds": 600}, Idempotency_Key="k1").code == "idempotency_replayed"
    )
    for wrong in (599, 86_401, 0, -1, "600", 600.0):
        assert program.post(address, {"lifetime_seconds": wrong}).status == 400, wrong


def test_operators_see_everything(olgas: Caller, workspace: Workspace, other_project: Project) -> None:
    assert [row["name"] for row in olgas.get("/platform/workspaces").json["results"]] == ["train-7b"]
    slugs = [row["slug"] for row in olgas.get("/platform/organizations").json["results"]]
    assert slugs == ["biology", "climate"]
    assert {row["gpu_type"] for row in olgas.get("/platform/capacity").json["results"]} == {
        "h100-sxm-80gb",
        "l40s-48gb",
    }
    made = olgas.post("/platform/organizations", {"slug": "physics", "name": "Physics", "owner": "no-one"})
    assert made.status == 400
    assert "owner" in made.error["fields"]
    assert olgas.post("/platform/organizations", {"slug": "physics", "name": "Physics"}).status == 201


def test_a_price_of_use_is_a_price(alices: Caller, olgas: Caller, site: Site) -> None:
    price = {"flavor": "l40s.1", "meter": "gpu_allocated", "price": "0.90"}
    assert olgas.post("/platform/rates", price).status == 201
    flavors = {row["slug"]: row for row in alices.get("/flavors").json["results"]}
    assert (flavors["l40s.1"]["price_per_hour"], flavors["l40s.1"]["currency"]) == ("0.90", "EUR")


def test_a_price_is_set_in_another_currency_by_its_word(olgas: Caller, site: Site) -> None:
    """On the standard card of that currency; the list of standard prices stays that of the portal's."""
    price = {"flavor": "l40s.1", "meter": "gpu_held", "price": "0.125", "currency": "KWD"}
    made = olgas.post("/platform/rates", price)
    assert (made.status, made.json["card"], made.json["currency"]) == (201, "standard-kwd", "KWD")
    assert olgas.get("/platform/rates").json["results"] == []
    refused = olgas.post("/platform/rates", {**price, "currency": "EURO"})
    assert (refused.status, set(refused.error["fields"])) == (400, {"currency"})
    refused = olgas.post("/platform/rates", {**price, "currency": "XAU"})
    assert (refused.status, set(refused.error["fields"])) == (400, {"currency"})
