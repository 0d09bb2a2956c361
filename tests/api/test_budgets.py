"""Budgets by API: set, read, changed with If-Match, removed; and what a spent one says to a request."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.billing.stage import cluster_make, interval_make, workspace_make
from tests.factories.quotas import limits_give

pytestmark = pytest.mark.django_db
BODY: dict[str, Any] = {
    "name": "autumn",
    "measure": "money",
    "amount": "100.00",
    "period": "quarter",
    "thresholds": [{"percent": 50, "effect": "notify"}, {"percent": 100, "effect": "block"}],
}
PROJECT = "/projects/weather-lm/budgets"


def test_a_budget_is_set_read_changed_and_removed(alice: User, project: Project) -> None:
    caller = Caller(alice)
    made = caller.post(PROJECT, BODY)
    assert made.status == 201, made.json
    assert {
        key: made.json[key] for key in ("name", "amount", "spent", "forecast", "unit", "blocks", "percent")
    } == {
        "name": "autumn",
        "amount": "100.00",
        "spent": "0.00",
        "forecast": "0.00",
        "unit": "EUR",
        "blocks": False,
        "percent": 0,
    }
    where = f"{PROJECT}/{made.json['id']}"
    assert caller.get(where).json == made.json
    assert [row["id"] for row in caller.get(PROJECT).json["results"]] == [made.json["id"]]
    assert [row["id"] for row in caller.get("/organizations/climate/budgets").json["results"]] == [
        made.json["id"]
    ]

    stale = caller.ask("PUT", where, BODY, IF_MATCH='"9"')
    assert (stale.status, stale.code) == (412, "precondition_failed")
    changed = caller.ask("PUT", where, {**BODY, "amount": "250.5"}, IF_MATCH='"1"')
    assert (changed.status, changed.json["amount"], changed.json["version"]) == (200, "250.50", 2)
    assert caller.ask("DELETE", where).status == 204
    assert caller.get(where).status == 404


def test_a_budget_of_one_cluster(
    alice: User, charlie: User, project: Project, other_project: Project, h100: Flavor
) -> None:
    caller, cluster = Caller(alice), cluster_make(project, h100, alice)
    made = caller.post(PROJECT, {**BODY, "cluster": str(cluster.pk)})
    assert (made.status, made.json["cluster"], made.json["workspace"]) == (201, str(cluster.pk), None)
    assert caller.get(f"{PROJECT}/{made.json['id']}").json["cluster"] == str(cluster.pk)
    theirs = cluster_make(other_project, h100, charlie, name="theirs")
    assert caller.post(PROJECT, {**BODY, "name": "two", "cluster": str(theirs.pk)}).status == 404
    other_project.memberships.create(user=alice, role="member")
    answer = caller.post(PROJECT, {**BODY, "name": "two", "cluster": str(theirs.pk)})
    assert (answer.status, list(answer.error["fields"])) == (400, ["cluster"])
    workspace = workspace_make(project, h100, alice)
    both = {"cluster": str(cluster.pk), "workspace": str(workspace.pk)}
    answer = caller.post(PROJECT, {**BODY, "name": "two", **both})
    assert (answer.status, list(answer.error["fields"])) == (400, ["cluster"])


def test_a_spent_budget_tells_whoever_asks_for_more(
    alice: User, project: Project, h100: Flavor, site: Site
) -> None:
    limits_give(project)
    now = clock.whole_second(clock.now())
    row = workspace_make(project, h100, alice)
    interval_make(row, h100, now - timedelta(seconds=2), now, quantity=3600)
    caller = Caller(alice)
    body = {**BODY, "measure": "gpu_hours", "amount": "1", "period": "fixed", **fixed(now)}
    made = caller.post(PROJECT, body)
    assert (made.json["blocks"], made.json["spent"], made.json["percent"]) == (True, "2.00", 200)
    assert [alert["percent"] for alert in made.json["alerts"]] == [100, 50]
    asked = {"items": [{"flavor": "h100.1", "count": 1}]}
    preview = caller.post("/projects/weather-lm/workspaces/preview", asked)
    assert (preview.json["fits"], "The budget autumn" in preview.json["hold"]) == (False, True)
    refused = caller.post("/projects/weather-lm/workspaces", {"name": "more", **asked})
    assert (refused.status, refused.code) == (409, "on_hold")
    assert "2.00 of 1.00 GPU-hours are spent" in refused.error["message"]


def fixed(now: datetime) -> dict[str, str]:
    """Yesterday until tomorrow."""
    days = [(now + timedelta(days=number)).date().isoformat() for number in (-1, 1)]
    return dict(zip(("starts_on", "ends_on"), days, strict=True))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"amount": "-5"}, "amount"),
        ({"amount": 5}, "amount"),
        ({"thresholds": []}, "thresholds"),
        (
            {"thresholds": [{"percent": 9, "effect": "block"}, {"percent": 9, "effect": "block"}]},
            "thresholds",
        ),
        ({"period": "fixed", "starts_on": "2020-01-01", "ends_on": "2020-02-01"}, "ends_on"),
        ({"color": "red"}, "color"),
        ({"workspace": "0190e0a0-0000-7000-8000-000000000000"}, None),
    ],
)
def test_nonsense_is_refused_beside_the_field(
    alice: User, project: Project, changes: dict[str, Any], field: str | None
) -> None:
    answer = Caller(alice).post(PROJECT, {**BODY, **changes})
    assert answer.status == (400 if field else 404)
    if field:
        assert list(answer.error["fields"]) == [field]


def test_a_budget_is_found_only_where_it_is(alice: User, project: Project, other_project: Project) -> None:
    other_project.memberships.create(user=alice, role="admin")
    caller = Caller(alice)
    made = caller.post(PROJECT, BODY)
    assert caller.get(f"/projects/protein-fold/budgets/{made.json['id']}").status == 404
    assert caller.get(f"/organizations/biology/budgets/{made.json['id']}").status == 404
