"""Reserved pools by API: made by operators, seen by the organization, felt by everybody else."""

from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, Site
from quotas.models import PoolReservation
from tenants.models import AuditEntry, Project, User
from tests.api.caller import Caller
from tests.factories.catalog import FlavorFactory
from tests.factories.quotas import limits_give

pytestmark = pytest.mark.django_db
POOLS = "/platform/pool-reservations"
MINE = "/organizations/climate/pool-reservations"
ASKED = {"flavor": "h100.own", "project": "weather-lm"}
WANTED = {"name": "train", "items": [{"flavor": "h100.1", "count": 2}]}
LATER, LATEST = "2199-01-01T00:00:00Z", "2199-02-01T00:00:00Z"


@pytest.fixture
def olgas(olga: User, h100: Flavor, project: Project, other_project: Project) -> Caller:
    FlavorFactory.create(pool=h100.pool, slug="h100.own", price_class="reserved")
    limits_give(project)
    limits_give(other_project)
    return Caller(olga)


def test_from_the_reservation_to_its_end(olgas: Caller, alice: User, charlie: User, site: Site) -> None:
    his = Caller(charlie)
    assert his.post("/projects/protein-fold/workspaces", WANTED).status == 202
    busy = olgas.post(POOLS, ASKED)
    assert (busy.status, list(busy.error["fields"])) == (400, ["valid_from"])
    assert "Protein Fold of Biology 2" in busy.error["fields"]["valid_from"][0]
    made = olgas.post(POOLS, {**ASKED, "valid_from": LATER, "note": "the big run"})
    assert made.status == 201, made.json
    known = {name: made.json[name] for name in ("site", "gpu_type", "organization", "standing", "valid_to")}
    assert known == {
        "site": "ber-1",
        "gpu_type": "h100-sxm-80gb",
        "organization": "climate",
        "standing": "waits",
        "valid_to": None,
    }
    assert made.json["guests"] == [
        {"organization": "biology", "project": "protein-fold", "holders": 1, "gpus": 2}
    ]
    refused = his.post("/projects/protein-fold/workspaces", {**WANTED, "name": "more"})
    assert (refused.status, refused.error["code"]) == (409, "no_capacity")
    assert "are reserved for another organization" in refused.error["message"]
    assert "climate" not in refused.error["message"]
    preview = his.post("/projects/protein-fold/workspaces/preview", {"items": WANTED["items"]}).json
    assert (preview["fits"], [check["left"] for check in preview["checks"] if not check["fits"]]) == (
        False,
        [0],
    )
    url = f"{POOLS}/{made.json['id']}"
    assert olgas.post(f"{url}/end").status == 204
    assert not PoolReservation.objects.exists()
    assert olgas.get(url).status == 404
    assert his.post("/projects/protein-fold/workspaces", {**WANTED, "name": "more"}).status == 202
    told = AuditEntry.objects.filter(action__startswith="pool.").values_list("action", flat=True)
    assert sorted(told) == ["pool.reservation.end", "pool.reserve"]


def test_its_note_and_its_end_are_changed(olgas: Caller, alice: User, site: Site) -> None:
    made = olgas.post(POOLS, {**ASKED, "valid_from": LATER, "valid_to": LATEST, "note": "the big run"})
    url = f"{POOLS}/{made.json['id']}"
    noted = olgas.patch(url, {"note": "the bigger run"})
    assert (noted.status, noted.json["note"], noted.json["valid_to"]) == (200, "the bigger run", LATEST)
    assert olgas.patch(url, {"valid_to": None}).json["valid_to"] is None
    for wrong in ("2020-01-01T00:00:00Z", LATER):
        refused = olgas.patch(url, {"valid_to": wrong})
        assert (refused.status, list(refused.error["fields"])) == (400, ["valid_to"])
    assert olgas.patch(url, {"valid_from": LATEST}).status == 400
    assert Caller(alice).patch(url, {"note": "mine"}).status == 404


def test_who_names_another_version_changes_and_ends_nothing(olgas: Caller) -> None:
    made = olgas.post(POOLS, {**ASKED, "note": "the big run"})
    url, first = f"{POOLS}/{made.json['id']}", made.headers["ETag"]
    assert (first, made.json["version"], olgas.get(url).headers["ETag"]) == ('"1"', 1, first)
    noted = olgas.patch(url, {"note": "of somebody else"}, If_Match=first)
    assert (noted.status, noted.headers["ETag"]) == (200, '"2"')
    assert olgas.patch(url, {"note": "of somebody else"}).headers["ETag"] == '"2"', "nothing has changed"
    assert olgas.patch(url, {"note": "mine"}, If_Match=first).status == 412
    assert olgas.post(f"{url}/end", {"at": LATER}, If_Match=first).status == 412
    assert olgas.get(url).json["note"] == "of somebody else"
    assert olgas.post(f"{url}/end", {"at": LATER}, If_Match='"2"').status == 204
    assert olgas.get(url).headers["ETag"] == '"3"'


def test_an_organization_sees_its_own_and_uses_it(
    olgas: Caller, alice: User, charlie: User, site: Site
) -> None:
    hers, his = Caller(alice), Caller(charlie)
    made = olgas.post(POOLS, {**ASKED, "valid_from": LATER, "note": "the big run"})
    assert hers.post("/projects/weather-lm/workspaces", WANTED).status == 202
    (mine,) = hers.get(MINE).json["results"]
    assert (mine["note"], "guests" in mine, "created_by" in mine) == ("the big run", False, False)
    assert his.get(MINE).status == 404
    assert hers.get(f"{POOLS}/{made.json['id']}").status == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"flavor": "h100.1"}, "flavor"),
        ({"flavor": "h999"}, "flavor"),
        ({"project": "nobody"}, "project"),
        ({"valid_from": "2020-01-01T00:00:00Z"}, "valid_from"),
        ({"valid_from": "2199-01-15T00:00:00Z"}, "valid_from"),
        ({"valid_from": "2198-01-15T00:00:00Z", "valid_to": "2199-01-01T00:00:01Z"}, "valid_to"),
        ({"valid_from": LATER, "valid_to": LATER}, "valid_to"),
        ({"valid_from": "tomorrow"}, "valid_from"),
        ({"price": "1"}, "price"),
    ],
)
def test_what_is_wrong_is_refused_beside_its_field(olgas: Caller, change: dict[str, Any], field: str) -> None:
    first = olgas.post(POOLS, {**ASKED, "valid_from": LATER, "valid_to": LATEST})
    assert first.status == 201
    refused = olgas.post(POOLS, {**ASKED, **change})
    assert (refused.status, list(refused.error["fields"])) == (400, [field])
    assert olgas.post(POOLS, {**ASKED, "valid_to": LATER}).status == 201  # up to the very second
    assert PoolReservation.objects.count() == 2


def test_an_end_is_not_backdated_nor_after_the_end(olgas: Caller) -> None:
    url = f"{POOLS}/{olgas.post(POOLS, {**ASKED, 'valid_to': LATER}).json['id']}/end"
    for moment in ("2020-01-01T00:00:00Z", LATEST):
        refused = olgas.post(url, {"at": moment})
        assert (refused.status, list(refused.error["fields"])) == (400, ["at"])
    assert olgas.post(url, {"at": "2198-12-31T00:00:00Z"}).status == 204
    rows = olgas.get(f"{POOLS}?site=ber-1&organization=climate").json["results"]
    assert [(row["valid_to"], row["standing"]) for row in rows] == [("2198-12-31T00:00:00Z", "in_force")]
    assert olgas.get(f"{POOLS}?site=ham-1").json["results"] == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_times_that_no_page_can_show_are_refused(olgas: Caller, olga: User, alice: User, zone: str) -> None:
    """`9999-12-31T23:59:59Z` for an end that never comes has no local time east of Greenwich."""
    User.objects.update(time_zone=zone)
    never, last = "9999-12-31T23:59:59Z", "2999-12-31T23:59:59Z"
    made = olgas.post(POOLS, {**ASKED, "valid_to": last})
    assert made.status == 201, made.json
    url = f"{POOLS}/{made.json['id']}"
    refused = [
        olgas.post(POOLS, {**ASKED, "valid_to": never}),
        olgas.patch(url, {"valid_to": never}),
        olgas.post("/platform/organizations/climate/discounts", {"percent": "5", "valid_to": never}),
    ]
    assert [each.error["fields"] for each in refused] == [
        {"valid_to": ["choose a time no later than 2999"]}
    ] * 3
    starts = olgas.post("/platform/rates", {"meter": "vcpu_held", "price": "1", "valid_from": never})
    assert list(starts.error["fields"]) == ["valid_from"]
    assert olgas.client.get("/operator/reservations/").status_code == 200
    assert Caller(alice).client.get("/o/climate/reserved-pools/").status_code == 200
