"""Lists: what they show, filter and page; and that their queries do not grow with their rows."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from gpuaas.core import clock
from gpuaas.metering.models import CrossCheck
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM
from tenants.models import Organization, Project, User
from tests.factories.quotas import limits_give
from tests.factories.tenants import OrganizationFactory, ProjectFactory
from tests.frontend.operator.adopting import plan_at
from tests.frontend.operator.stage import stage
from tests.frontend.operator.trouble import drift_of, eviction_of

# Queries of a page, those of session, person and place included.
BASELINES = {
    "": 16,
    "capacity/": 9,
    "sites/": 10,
    "sites/at/ber-1/": 16,
    "sites/at/ber-1/nodes/": 9,
    "sites/at/ber-1/nodes/h100-01/": 10,
    "sites/at/ber-1/drift/": 11,
    "sites/at/ber-1/metering/": 17,
    "sites/at/ber-1/adoption/": 17,
    "flavors/": 11,
    "gpu-types/": 7,
    "limits/": 13,
    "limits.csv": 13,
    "workspaces/": 14,
    "organizations/": 10,
    "organizations/climate/": 9,
    "people/": 11,
    "usage/": 12,
    "rates/": 9,
    "audit/": 11,
}


def count(client: Client, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as found:
        assert client.get(f"/operator/{path}").status_code == 200
    return len(found)


def test_queries_stay_below_their_baselines_and_do_not_grow(
    olga_at: Client, olga: User, alice: User, workspace: Workspace
) -> None:
    troubles(workspace)
    few = {path: count(olga_at, path) for path in BASELINES}
    more()
    many = {path: count(olga_at, path) for path in BASELINES}
    grown = {path: (few[path], many[path]) for path in BASELINES if many[path] > few[path]}
    assert grown == {}
    assert {path: seen for path, seen in many.items() if seen > BASELINES[path]} == {}


def more() -> None:
    """Three more of everything that lists show."""
    flavor = Workspace.objects.get().flavors.get().flavor
    for number in range(3):
        organization = OrganizationFactory.create()
        for _ in range(2):
            limits_give(ProjectFactory.create(organization=organization))
        copy = Workspace.objects.get(name="era5-finetune")
        copy.pk, copy.name = None, f"copy-{number}"
        copy.id = Workspace().id
        copy._state.adding = True
        copy.save()
        copy.flavors.create(flavor=flavor, count=1)
        troubles(copy)


def troubles(workspace: Workspace) -> None:
    plan_at(workspace.site, workspace.project, workspace.created_by)
    drift_of(workspace)
    eviction_of(workspace, "nvidia.com/gpu")
    CrossCheck.objects.create(site=workspace.site, checked_at=clock.now(), compared=3)


def test_overview_adds_up(olga_at: Client, olga: User) -> None:
    stage(olga)
    page = olga_at.get("/operator/")
    sums = page.context["sums"]
    assert sums.allocated + sums.held + sums.free + sums.out == sums.capacity == 368
    cells = [node.counts for row in page.context["rows"] for node in row.nodes]
    assert cells.count("8 cordoned") == 1
    assert page.context["total"] == sum(row.amount for row, _ in page.context["revenue"])
    assert page.context["sites"][0].site.slug == "ber-2"
    text = page.content.decode()
    assert "The site refuses the portal&#x27;s credentials" in text
    assert "Give the site new credentials" in text


def test_capacity_is_filtered(olga_at: Client, olga: User) -> None:
    stage(olga)
    for query, rows in (("site=fra-1", 2), ("type=h100-sxm-80gb", 2), ("only=out", 2), ("site=no", 0)):
        assert len(olga_at.get(f"/operator/capacity/?{query}").context["rows"]) == rows


def test_workspaces_of_all_tenants_are_filtered(olga_at: Client, olga: User) -> None:
    stage(olga)
    for query, rows in (
        ("", 13),
        ("project=cryo-em", 2),
        ("site=osl-1", 2),
        ("q=grasp", 2),
        ("organization=halden-robotics", 4),
        ("state=failed", 0),
        ("state=all", 13),
        ("project=no", 0),
    ):
        assert len(olga_at.get(f"/operator/workspaces/?{query}").context["rows"]) == rows


def test_limits_are_filtered_and_exported(olga_at: Client, olga: User) -> None:
    stage(olga)
    rows = olga_at.get("/operator/limits/?organization=climate-physics").context["rows"]
    assert [row.slug for row in rows] == ["climate-physics", "downscale", "weather-lm"]
    full = olga_at.get("/operator/limits/?over=1").context["rows"]
    assert "grasp-sim" not in {row.slug for row in full}
    csv = olga_at.get("/operator/limits.csv").content.decode()
    assert "climate-physics,weather-lm,gpu:h100-sxm-80gb,8,6,4" in csv


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("", True),
        ("actor=alice", True),
        ("actor=nobody", False),
        ("action=workspace.request", True),
        ("project=weather-lm", True),
        ("project=protein-fold", False),
        ("q=era5", True),
        ("since=2020-01-01&until=2020-12-31", False),
        ("since=nonsense&until=2999-99-99", True),
        ("q=%00", True),
        ("page=999999&actor=alice", True),
    ],
)
def test_audit_is_filtered(olga_at: Client, workspace: Workspace, query: str, rows: bool) -> None:
    assert bool(olga_at.get(f"/operator/audit/?{query}").context["rows"]) == rows


@pytest.mark.parametrize("month", ["2026-13", "nonsense", "1999-01", "2999-01", "", "%D9%A2%D9%A0-1"])
def test_usage_forgives_the_month(olga_at: Client, workspace: Workspace, month: str) -> None:
    page = olga_at.get(f"/operator/usage/?month={month}")
    assert page.status_code == 200
    assert page.context["month"].running


def test_a_new_portal_says_what_to_do_first(olga_at: Client) -> None:
    for path in BASELINES:
        if not path.startswith("sites/at/") and path not in {"organizations/climate/", "limits.csv"}:
            page = olga_at.get(f"/operator/{path}")
            assert page.status_code == 200
    assert "No sites yet" in olga_at.get("/operator/").content.decode()
    assert Organization.objects.count() == Project.objects.count() == 0
    assert SYSTEM.name == "portal"
