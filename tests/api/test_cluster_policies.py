"""Scaling by policy through REST: choose, add, change with versions, look at the log, and try it on what was recorded."""

from datetime import timedelta
from typing import Any

import pytest

from billing.policies import policy_allowance
from billing.services import rate_set
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster, ScalingPolicy
from gpuaas.clusters.reconcile.policies import policy_run
from gpuaas.core.clock import now
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tests.api.caller import Caller, token_for
from tests.billing.stage import utc
from tests.clusters.policy_stage import demand, recorded
from tests.clusters.stage import offered, ready
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
TERMS: dict[str, Any] = {"kind": "pending", "minimum": 1, "maximum": 4, "step": 4, "up_delay": 0}


@pytest.fixture
@lasting
def cluster(as_olga: Actor, as_alice: Actor, project: Project, site: Site) -> Cluster:
    offered(as_olga, site)
    flavor = Flavor.objects.get(slug="h100.2")
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    return ready(as_alice, project)


@pytest.fixture
def home(cluster: Cluster) -> str:
    return f"/projects/weather-lm/clusters/{cluster.pk}/policies"


def test_the_kinds_say_what_their_settings_are(program: Caller, cluster: Cluster) -> None:
    rows = program.get(f"/projects/weather-lm/clusters/{cluster.pk}/policy-kinds").json["results"]
    assert [row["name"] for row in rows] == ["pending", "queue", "schedule", "use"]
    assert rows[0]["schema"]["properties"]["spare_workers"]["default"] == 0
    assert [row["needs_signals"] for row in rows] == [True, True, False, True]
    assert [row["name"] for row in rows if "hours" in row["schema"]["required"]] == ["schedule"]


def test_demand_may_have_a_floor_by_hours(program: Caller, home: str) -> None:
    settings = {"spare_workers": 0, "hours": ["Mon-Fri 08:00-18:00 2"], "time_zone": "Europe/Berlin"}
    made = program.post(home, {"pool": "gpu", **TERMS, "settings": settings})
    assert (made.status, made.json["settings"]) == (201, settings)


def test_a_policy_is_added_changed_switched_and_removed(program: Caller, home: str) -> None:
    made = program.post(home, {"pool": "gpu", **TERMS, "money_month": "99.50"})
    assert made.status == 201, made.json
    assert (made.json["money_month"], made.json["settings"]) == ("99.50", {"spare_workers": 0})
    assert (made.json["enabled"], made.headers["ETag"]) == (False, '"1"')
    where = str(made.headers["Location"])
    found = program.get(where)
    assert found.json == made.json
    assert program.get(where, If_None_Match=found.headers["ETag"]).status == 304
    assert program.post(home, {"pool": "gpu", **TERMS}).status == 409

    changed = program.put(where, {**TERMS, "maximum": 6}, If_Match='"1"')
    assert (changed.status, changed.json["maximum"], changed.json["money_month"]) == (200, 6, None)
    assert program.put(where, TERMS, If_Match='"1"').status == 412
    assert program.patch(where, {"enabled": True}, If_Match='"2"').json["enabled"] is True
    assert [row["version"] for row in program.get(home).json["results"]] == [3]
    assert program.delete(where, If_Match='"2"').status == 412
    assert program.delete(where).status == 204
    assert program.get(where).status == 404
    assert program.get(home).json["results"] == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"pool": "none"}, "pool"),
        ({"kind": "none"}, "kind"),
        ({"maximum": 99}, "maximum"),
        ({"settings": {"spare_workers": -1}}, "settings.spare_workers"),
        ({"settings": []}, "settings"),
        ({"settings": {"hours": ["Mon-Fri 08:00-18:00 2"]}}, "settings.time_zone"),
        ({"settings": {"hours": ["Mon 8-18 2"], "time_zone": "UTC"}}, "settings.hours"),
        ({"money_month": "much"}, "money_month"),
        ({"money_month": "NaN"}, "money_month"),
        ({"money_month": "1.005"}, "money_month"),
        ({"money_month": 5}, "money_month"),
        ({"gpu_hours_month": 0}, "gpu_hours_month"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_said_beside_it(
    program: Caller, home: str, changes: dict[str, Any], field: str
) -> None:
    for where in (home, f"{home}/dry-run"):
        answer = program.post(where, {"pool": "gpu", **TERMS, **changes})
        assert answer.status == 400, answer.json
        assert list(answer.error["fields"]) == [field]
    assert not ScalingPolicy.objects.exists()


def test_the_log_has_prices_for_who_may_see_them(
    program: Caller, home: str, cluster: Cluster, site: Site, alice: Any, project: Project
) -> None:
    program.post(home, {"pool": "gpu", **TERMS, "enabled": True})
    demand(site, cluster, 6)
    policy = ScalingPolicy.objects.get()
    ScalingPolicy.objects.update(due_at=now())
    policy_run(policy.pk, purse=policy_allowance)
    (row,) = program.get(f"{home}/decisions?pool=gpu&outcome=scaled").json["results"]
    assert (row["before"], row["wanted"], row["after"]) == (1, 3, 3)
    assert row["signals"] == {"used_gpus": 2, "pending_gpus": 4, "queued": 4}
    assert (row["per_hour"], row["currency"]) == ("10.000000", "EUR")
    assert program.get(f"{home}/decisions?pool=small").json["results"] == []
    assert program.get(f"{home}/decisions?outcome=lucky").status == 400
    blind = Caller(token=token_for(alice, project, scopes=[Permission.WORKSPACE_VIEW.value]))
    assert blind.get(f"{home}/decisions").json["results"][0]["per_hour"] is None


def test_a_dry_run_answers_with_cost_waiting_and_a_series(program: Caller, home: str) -> None:
    program.post(home, {"pool": "gpu", **TERMS})
    recorded(ScalingPolicy.objects.get(), [1] * 60 + [7] * 60)
    found = program.post(f"{home}/dry-run", {"pool": "gpu", **TERMS}).json
    assert (found["recorded_seconds"], found["currency"], found["boot"]) == (7200, "EUR", 600)
    assert (found["was"]["cost"], found["was"]["waited_seconds"]) == ("10.00", 3600)
    assert found["would"]["waited_seconds"] == 600
    assert found["series"][-1]["workers"] == 4
    none = program.post(
        f"{home}/dry-run", {"pool": "gpu", **TERMS, "since": (now() + timedelta(hours=1)).isoformat()}
    )
    assert none.status == 400
    assert list(none.error["fields"]) == ["since"]


@pytest.mark.parametrize(
    "period",
    [
        {"until": "0001-01-01T00:00:00Z"},
        {"since": "9999-12-30T00:00:00Z", "until": "9999-12-31T23:59:59Z"},
        {"since": "0001-01-01T00:00:00Z", "until": "9999-12-31T23:59:59Z"},
        {"since": "9999-12-31T23:59:59Z"},
    ],
)
def test_a_dry_run_at_the_ends_of_time_is_no_crash(
    program: Caller, home: str, period: dict[str, str]
) -> None:
    found = program.post(f"{home}/dry-run", {"pool": "gpu", **TERMS, **period})
    if period.keys() == {"since", "until"} and period["since"] > "9999":
        assert (found.status, found.json["recorded_seconds"]) == (200, 0)
    else:
        assert (found.status, list(found.error["fields"])) == (400, ["since"])


def test_a_viewer_looks_and_tries_and_changes_nothing(alice: Any, project: Project, home: str) -> None:
    blind = Caller(token=token_for(alice, project, scopes=[Permission.WORKSPACE_VIEW.value]))
    assert blind.get(home).status == 200
    assert blind.post(home, {"pool": "gpu", **TERMS}).status == 403
    tried = blind.post(f"{home}/dry-run", {"pool": "gpu", **TERMS})
    assert (tried.status, tried.json["would"]["cost"]) == (200, None)
