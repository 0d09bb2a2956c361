"""Credits by REST: what they pay, and payouts, listed and reversed once."""

import pytest

from gpuaas.catalog.models import Flavor
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.billing.credited import december_used, november_credited, tiered_make


@pytest.fixture
def credited(project: Project, h100: Flavor, alice: User, as_olga: Actor) -> Workspace:
    workspace = tiered_make(project, h100, alice)
    november_credited(as_olga, workspace, h100)
    return workspace


def test_a_credit_is_paid_out_listed_and_reversed_once(
    credited: Workspace, h100: Flavor, olgas: Caller, alices: Caller, charlies: Caller, as_olga: Actor
) -> None:
    slug = credited.project.organization.slug
    home = f"/platform/organizations/{slug}/payouts"
    refused = olgas.post(home, {"amount": "46.51"})
    assert (refused.status, set(refused.error["fields"])) == (400, {"amount"})
    paid = olgas.post(home, {"amount": "6.50", "note": "bank"}, Idempotency_Key="once")
    assert (paid.status, paid.json["credit"], paid.json["payable"]) == (201, "40.00", "40.00")
    assert olgas.post(home, {"amount": "6.50", "note": "bank"}, Idempotency_Key="once").json == paid.json
    (row,) = olgas.get(home).json["results"]
    assert (row["amount"], row["credit_note"], row["note"]) == (
        "6.50",
        "CN-2026-0001",
        "bank: credit of CN-2026-0001",
    )
    december_used(as_olga, credited, h100)
    documents = f"/organizations/{slug}/invoices"
    (listed,) = alices.get(f"{documents}?kind=credit_note").json["results"]
    assert (listed["number"], listed["total"], listed["corrects"]) == ("CN-2026-0001", "-46.50", None)
    found = alices.get(f"{documents}/CN-2026-0001").json
    assert (found["open"], found["paid_by"]) == ("0.00", [])
    assert found["credits"] == [
        {
            "number": "CN-2026-0001",
            "given": "46.50",
            "pays": [{"number": "INV-2027-0001", "amount": "40.00"}],
            "paid_out": "6.50",
            "left": "0.00",
        }
    ]
    found = alices.get(f"{documents}/INV-2027-0001").json
    assert (found["open"], found["credits"]) == ("10.00", [])
    assert found["paid_by"] == [{"number": "CN-2026-0001", "amount": "40.00"}]
    _reversed_once(olgas, f"{home}/{row['id']}/reverse", row["id"])
    assert alices.get(f"{documents}/INV-2027-0001").json["open"] == "3.50"
    for stranger in (alices, charlies):
        assert stranger.post(home, {"amount": "1"}).status == 404
        assert stranger.post(f"{home}/{row['id']}/reverse", {"reason": "mine"}).status == 404


def _reversed_once(olgas: Caller, back: str, payout: str) -> None:
    assert olgas.post(back, {"reason": ""}).status == 400
    reversed_ = olgas.post(back, {"reason": "it came back"})
    assert (reversed_.status, reversed_.json["id"]) == (201, payout)
    assert reversed_.json["reversed_at"] is not None
    again = olgas.post(back, {"reason": "again"})
    assert (again.status, again.error["code"]) == (409, "conflict")
