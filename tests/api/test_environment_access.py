"""Who may open an environment, by REST: chosen with the order, changed, and keys of one that is public."""

import pytest

from gpuaas.core.ids import uuid7
from gpuaas.environments.models import DoorKey, Environment
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.api.caller import Caller
from tests.environments.conftest import workspace
from tests.environments.stage import kind, ready

__all__ = ["workspace"]

pytestmark = pytest.mark.django_db
HERE = "/api/v1/projects/weather-lm/environments"


def test_it_is_chosen_within_what_the_kind_allows(alices: Caller, workspace: Workspace) -> None:
    kind(access=["private", "public"])
    offered = alices.get("/api/v1/projects/weather-lm/environment-kinds").json["results"]
    assert [each["access"] for each in offered] == [["private", "public"]]
    order = {"workspace": str(workspace.pk), "kind": "notebook", "name": "lab", "gpus": 0}
    for wrong in ("workspace", "everybody", "", None, 1, ["public"]):
        refused = alices.post(HERE, {**order, "access": wrong})
        assert (refused.status, '"access"' in str(refused.json).replace("'", '"')) == (400, True), wrong
    assert not Environment.objects.exists()
    assert alices.post(HERE, order).json["access"] == "private"
    made = alices.post(HERE, {**order, "name": "two", "access": "public"})
    assert (made.status, made.json["access"]) == (202, "public")
    place = f"{HERE}/{made.json['id']}"
    changed = alices.patch(place, {"access": "private", "idle_hours": 5}, If_Match=made.headers["ETag"])
    assert (changed.status, changed.json["access"], changed.json["idle_hours"]) == (202, "private", 5)
    both = {"idle_hours": 6, "access": "organization"}
    assert alices.patch(place, both).status == 400
    assert alices.get(place).json["idle_hours"] == 5, "one refused field changes nothing"
    assert alices.patch(place, {"access": "public"}, If_Match='"1"').status == 412


def test_keys_are_shown_once_and_revoked(alices: Caller, as_alice: Actor, workspace: Workspace) -> None:
    kind(access=["workspace", "public"])
    place = f"{HERE}/{ready(as_alice, workspace, gpus=0).pk}"
    refused = alices.post(f"{place}/keys", {"name": "ci"})
    assert (refused.status, "public with a key" in str(refused.json)) == (409, True)
    assert alices.patch(place, {"access": "public"}).status == 202
    for wrong in ({}, {"name": ""}, {"name": 1}, {"name": "x" * 101}, {"name": "a", "key": "b"}):
        assert alices.post(f"{place}/keys", wrong).status == 400, wrong
    made = alices.post(f"{place}/keys", {"name": "ci"}, Idempotency_Key="one")
    assert (made.status, made.headers["Cache-Control"]) == (201, "no-store")
    raw = made.json["key"]
    assert raw.startswith(f"gpk_{made.json['prefix']}_")
    again = alices.post(f"{place}/keys", {"name": "ci"}, Idempotency_Key="one")
    assert (again.status, raw in str(again.json)) == (409, False)
    (listed,) = alices.get(f"{place}/keys").json["results"]
    assert (listed["name"], listed["created_by"], listed["last_used_at"]) == ("ci", "alice", None)
    assert "key" not in listed
    assert alices.get(f"{place}/keys/{listed['id']}").json == listed
    for _ in range(2):
        assert alices.delete(f"{place}/keys/{listed['id']}").status == 204
    assert DoorKey.objects.get().revoked_at
    assert alices.delete(f"{place}/keys/{uuid7()}").status == 404


def test_a_key_is_revoked_at_its_own_environment_alone(
    alices: Caller, as_alice: Actor, workspace: Workspace
) -> None:
    kind(access=["public"])
    one, two = (ready(as_alice, workspace, name, gpus=0, vcpus=1) for name in ("one", "two"))
    made = alices.post(f"{HERE}/{one.pk}/keys", {"name": "ci"}).json
    assert alices.get(f"{HERE}/{two.pk}/keys/{made['id']}").status == 404
    assert alices.delete(f"{HERE}/{two.pk}/keys/{made['id']}").status == 404
    assert DoorKey.objects.get().revoked_at is None
