"""What a list shows is read at its own address, in the same words."""

from typing import Any

import pytest

from gpuaas.catalog.models import Site
from quotas.models import Limit
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.api.furnished import furnish

pytestmark = pytest.mark.django_db

PROJECT, ORGANIZATION = "/projects/weather-lm", "/organizations/climate"
# the list, the key by which a row is named in its address, and who asks
ROWS = (
    (f"{PROJECT}/members", "username", "alice"),
    (f"{PROJECT}/tokens", "id", "alice"),
    (f"{PROJECT}/workspaces/{{workspace}}/members", "username", "alice"),
    (f"{ORGANIZATION}/members", "username", "alice"),
    ("/me/keys", "name", "alice"),
    ("/platform/flavors", "slug", "olga"),
    ("/platform/cluster-templates/{template}/versions", "number", "olga"),
)


@pytest.fixture
def stage(
    as_alice: Actor, as_olga: Actor, bob: User, project: Project, site: Site, limits: None
) -> dict[str, Any]:
    del limits
    return furnish(alice=as_alice, olga=as_olga, bob=bob, project=project, site=site)


def test_every_row_of_a_list_is_at_its_address(stage: dict[str, Any], alices: Caller, olgas: Caller) -> None:
    callers = {"alice": alices, "olga": olgas}
    workspace = f"{PROJECT}/workspaces/{stage['workspace']}/members"
    assert alices.put(f"{workspace}/bob", {"role": "view"}).status == 200
    for path, key, asker in ROWS:
        address = path.format(**stage)
        rows = callers[asker].get(address).json["results"]
        assert rows, address
        for row in rows:
            assert callers[asker].get(f"{address}/{row[key]}").json == row
        assert callers[asker].get(f"{address}/{NOT_THERE.get(key, 'not-there')}").status == 404


NOT_THERE = {"id": "0195b5a5-0000-7000-8000-000000000000", "number": "999"}


def test_a_limit_is_read_with_the_etag_that_changes_it(
    stage: dict[str, Any], olgas: Caller, bobs: Caller
) -> None:
    for scope in (PROJECT, ORGANIZATION):
        address = f"/platform{scope}/limits/vcpu"
        found = olgas.get(address)
        row = Limit.objects.get(resource="vcpu", **owner(scope))
        assert (found.json["hard"], found.json["used"]) == (row.hard, row.used)
        assert olgas.put(address, {"hard": 900_000}, If_Match=found.headers["ETag"]).json["hard"] == 900_000
        assert olgas.put(address, {"hard": 1}, If_Match=found.headers["ETag"]).code == "precondition_failed"
        missing = olgas.get(f"/platform{scope}/limits/gpu:b200")
        assert (missing.status, missing.code) == (404, "not_found")
        assert "counts as zero" in missing.error["message"]
        assert bobs.get(address).status == 404


def owner(scope: str) -> dict[str, str]:
    return {"project__slug": "weather-lm"} if scope == PROJECT else {"organization__slug": "climate"}


def by_id(row: dict[str, Any]) -> str:
    return str(row["id"])


def test_what_operators_change_is_read_before(stage: dict[str, Any], olgas: Caller) -> None:
    """A GPU type, a discount, a price of a draft, and who was given a template."""
    assert olgas.get(f"/platform/gpu-types/{stage['gpu_type']}").json["slug"] == stage["gpu_type"]
    assert olgas.get("/platform/gpu-types/none").status == 404
    discounts = olgas.get(f"{ORGANIZATION}/discounts").json["results"]
    assert discounts
    assert olgas.get(f"/platform{ORGANIZATION}/discounts/{discounts[0]['id']}").json == discounts[0]
    draft = f"/platform/rate-drafts/{stage['draft']}"
    lines = [line for line in olgas.get(draft).json["lines"] if line["id"]]
    assert lines
    assert olgas.get(f"{draft}/lines/{lines[0]['id']}").json == lines[0]
    listed = olgas.get(f"{draft}/lines").json["results"]
    assert sorted(listed, key=by_id) == sorted(lines, key=by_id)
    given = f"/platform/cluster-templates/{stage['template']}/organizations"
    assert olgas.get(f"{given}/climate").json == {"organization": "climate"}
    assert olgas.delete(f"{given}/climate").status == 204
    assert olgas.get(f"{given}/climate").status == 404
