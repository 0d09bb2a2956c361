"""Lists: what they show, filter and page; and that their queries do not grow with their rows."""

import csv
import io
import re
from collections import Counter
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing.months import month_of, month_previous, month_span
from frontend import lists
from frontend.components import Amount
from frontend.presenters.operator import capacity
from gpuaas.catalog.models import Node, NodeCheck, Site
from gpuaas.core import clock
from gpuaas.core.looks import Tone
from gpuaas.metering.models import CrossCheck, UsageInterval
from gpuaas.workspaces.models import Workspace
from quotas.models import CapacityStretch, CapacityWatch, SiteCapacity
from tenants.actors import SYSTEM
from tenants.models import Organization, Project, User
from tests.billing.stage import interval_make
from tests.factories.quotas import limits_give
from tests.factories.tenants import OrganizationFactory, ProjectFactory
from tests.frontend.operator.adopting import plan_at
from tests.frontend.operator.stage import stage
from tests.frontend.operator.trouble import drift_of, eviction_of, node_checks, trouble_at

# Queries of a page, those of session, person and place included.
BASELINES = {
    "": 35,
    "capacity/": 10,
    "utilization/": 7,
    "sites/": 10,
    "sites/at/ber-1/": 17,
    "sites/at/ber-1/nodes/": 14,
    "sites/at/ber-1/nodes/h100-01/": 12,
    "sites/at/ber-1/drift/": 10,
    "sites/at/ber-1/metering/": 17,
    "sites/at/ber-1/adoption/": 16,
    "flavors/": 12,
    "gpu-types/": 6,
    "limits/": 17,
    "limits.csv": 12,
    "workspaces/": 15,
    "organizations/": 9,
    "organizations/climate/": 10,
    "people/": 11,
    "usage/": 25,
    "rates/": 8,
    "rates/prices/": 10,
    "rates/at/standard/": 11,
    "organizations/climate/billing/": 17,
    "audit/": 11,
    "system/": 24,
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
    counted = SiteCapacity.objects.filter(resource__startswith="gpu:")
    assert (
        sum(row.used for row in counted) == 210
    )  # devices; 112 of 368 are slices of 16 cards, of which 56 are held
    assert (sums.held, sums.capacity, sums.out) == (210 - 56 + 8, 368 - 112 + 16, 37 - 28 + 4)
    assert float(round(sums.allocated, 2)) == round(156 - 23 + 23 / 7, 2)
    assert sums.free == 24 + 28 / 7 + 20 + 8  # none at ber-1, where nothing new is sold
    nodes = [node for row in page.context["rows"] for node in row.nodes]
    kinds = [part for node in nodes for cell in node.cells for part in (cell.parts or (cell.kind,))]
    assert (len(kinds), kinds.count(Amount.USED), kinds.count(Amount.BAD)) == (368, 156, 29)
    cells = [node.counts for node in nodes]
    assert cells.count("8 cordoned") == 1
    assert sum(page.context["totals"].values()) == sum(row.amount for row in page.context["tenants"])
    assert page.context["sites"][0].site.slug == "ber-2"
    text = page.content.decode()
    assert "The site does not accept the portal&#x27;s credentials" in text
    assert "Give the site new credentials" in text


def test_idle_and_what_is_on_no_invoice_show_with_what_to_do(
    olga_at: Client, olga: User, alice: User, workspace: Workspace
) -> None:
    """Four H100s for two hours, two held for one of them; last month was used and is not closed."""
    flavor = workspace.flavors.get().flavor
    last = month_span(month_previous(month_of(clock.now()))).starts_at
    UsageInterval.objects.all().delete()
    interval_make(workspace, flavor, last, last + timedelta(hours=3))
    now = clock.whole_second(clock.now())
    first = now - timedelta(hours=2)
    pool = flavor.pool
    CapacityStretch.objects.create(site=pool.site, gpu_type=pool.gpu_type, devices=4, starts_at=first)
    CapacityWatch.objects.create(site=pool.site, seen_at=now)
    interval_make(workspace, flavor, first, first + timedelta(hours=1), quantity=2)

    page = olga_at.get("/operator/utilization/")
    (row,) = page.context["list"].rows
    assert row.site == pool.site.slug
    assert row.used.idle + row.used.unused == row.used.capacity
    assert row.used.unused == 2 * 3600
    assert 6 * 3600 <= row.used.idle <= 6 * 3600 + 4 * 120

    home = olga_at.get("/operator/")
    (waiting,) = home.context["closing"]["waiting"]
    assert waiting.month == month_previous(month_of(now))
    assert f"/operator/closes/?month={waiting.month:%Y-%m}" in home.content.decode()
    assert [stat.label for stat in home.context["stats"]][1] == "Utilization"


def test_capacity_is_filtered(olga_at: Client, olga: User) -> None:
    stage(olga)
    for query, rows in (("site=fra-1", 2), ("type=h100-sxm-80gb", 2), ("only=out", 2), ("site=no", 0)):
        assert len(olga_at.get(f"/operator/capacity/?{query}").context["rows"]) == rows


def test_a_map_of_too_many_nodes_is_a_bar_for_each_pool(
    olga_at: Client, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(olga)
    drawn = olga_at.get("/operator/capacity/").context["rows"]
    monkeypatch.setattr(capacity, "DRAWN", 3)
    page = olga_at.get("/operator/capacity/")
    bars = page.context["rows"]
    assert "too many nodes to draw" in page.content.decode()
    for nodes, bar in zip(drawn, bars, strict=True):
        kinds = Counter(
            part for node in nodes.nodes for cell in node.cells for part in cell.parts or (cell.kind,)
        )
        assert +Counter(dict(bar.bar)) == kinds, bar.name
        assert not bar.nodes
    by_type = olga_at.get("/operator/").context["rows"]
    assert len({row.name for row in by_type}) == len(by_type) < len(bars)
    assert sum(row.held for row in by_type) == sum(row.held for row in bars)


def test_nodes_and_sites_are_found_by_name(olga_at: Client, site: Site, nodes: None) -> None:
    found = olga_at.get("/operator/sites/at/ber-1/nodes/?q=H100-01").context["list"].rows
    assert [node.name for node in found] == ["h100-01"]
    kind = olga_at.get("/operator/sites/at/ber-1/nodes/?type=l40s-48gb").context
    assert [node.name for node in kind["list"].rows] == ["l40s-01", "l40s-02"]
    assert [node.name for node in kind["sick"]] == ["l40s-02"]
    assert [row["label"] for row in olga_at.get("/search/?q=l40s-0").json()] == ["l40s-01", "l40s-02"]
    assert not olga_at.get("/operator/sites/?q=nowhere").context["list"].rows
    assert olga_at.get("/operator/sites/?q=ber").context["list"].rows


def test_what_a_filter_offers_is_bounded(
    olga_at: Client, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert '<select class="form-select' in olga_at.get("/operator/limits/").content.decode()
    monkeypatch.setattr(lists, "OFFERED", 1)
    page = olga_at.get("/operator/limits/?organization=climate")
    assert 'name="organization" value="climate"' in page.content.decode()
    assert [row.slug for row in page.context["matrix"].rows] == ["climate", "weather-lm"]


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
        assert len(olga_at.get(f"/operator/workspaces/?{query}").context["list"].rows) == rows


def test_limits_are_filtered_and_exported(olga_at: Client, olga: User) -> None:
    stage(olga)
    rows = olga_at.get("/operator/limits/?organization=climate-physics").context["matrix"].rows
    assert [row.slug for row in rows] == ["climate-physics", "downscale", "weather-lm"]
    full = olga_at.get("/operator/limits/?over=1").context["matrix"].rows
    assert "grasp-sim" not in {row.slug for row in full}
    told = olga_at.get("/operator/limits.csv").getvalue().decode()
    assert "climate-physics,weather-lm,gpu:h100-sxm-80gb,8,6,4" in told


def test_the_matrix_sorts_by_name_by_held_and_by_limit(olga_at: Client, olga: User) -> None:
    """The file has its cells in the same order; each head leads to the other way round."""
    stage(olga)
    h100 = "gpu:h100-sxm-80gb"
    for sort in ("-name", f"-held:{h100}", f"limit:{h100}"):
        page = olga_at.get("/operator/limits/", {"sort": sort, "q": "climate"})
        rows = page.context["matrix"].rows
        cells = [row.cell(h100).cell for row in rows]
        if sort.startswith("-held"):
            assert [cell.used for cell in cells] == sorted((cell.used for cell in cells), reverse=True)
        if sort.startswith("limit"):
            numbers = [2**62 if cell.limit is None else cell.limit for cell in cells]
            assert numbers == sorted(numbers)
        answer = olga_at.get("/operator/limits/", {"sort": sort, "q": "climate", "csv": "1"})
        told = list(csv.DictReader(io.StringIO(answer.getvalue().decode())))
        owners = [row["project"] or row["organization"] for row in told if row["resource"] == h100]
        assert owners == [row.slug for row in rows]
        turned = sort[1:] if sort.startswith("-") else f"-{sort}"
        assert urlencode({"sort": turned}) in page.content.decode()


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
        ("since=0001-01-01&until=9999-12-31", True),
        ("since=9999-12-31&until=0001-01-01", False),
        ("q=%00", True),
        ("page=999999&actor=alice", True),
    ],
)
def test_audit_is_filtered(olga_at: Client, workspace: Workspace, query: str, rows: bool) -> None:
    assert bool(olga_at.get(f"/operator/audit/?{query}").context["list"].rows) == rows


@pytest.mark.parametrize("month", ["2026-13", "nonsense", "1999-01", "2999-01", "", "%D9%A2%D9%A0-1"])
def test_usage_forgives_the_month(olga_at: Client, workspace: Workspace, month: str) -> None:
    page = olga_at.get(f"/operator/usage/?month={month}")
    assert page.status_code == 200
    assert page.context["month"].running


def test_a_new_portal_says_what_to_do_first(olga_at: Client) -> None:
    for path in BASELINES:
        named = path.startswith(("sites/at/", "rates/at/", "organizations/climate/"))
        if not named and path != "limits.csv":
            page = olga_at.get(f"/operator/{path}")
            assert page.status_code == 200
    assert "No sites yet" in olga_at.get("/operator/").content.decode()
    assert Organization.objects.count() == Project.objects.count() == 0
    assert SYSTEM.name == "portal"


def test_readiness_says_what_is_wrong_what_to_do_and_lets_the_operator_decide(
    olga_at: Client, site: Site, nodes: None
) -> None:
    trouble_at(site)
    page = olga_at.get("/operator/sites/at/ber-1/").content.decode()
    assert "Nothing new is sold here" in page
    assert "A pod in another namespace was reached" in page
    assert "Use a network plugin that enforces NetworkPolicy" in page
    olga_at.post("/operator/sites/at/ber-1/sell/", {"sell": "1"})
    assert Site.objects.get().sell_unfit
    assert "Sold despite failed checks" in olga_at.get("/operator/sites/at/ber-1/").content.decode()
    olga_at.post("/operator/sites/at/ber-1/sell/", {"sell": "0"})
    assert not Site.objects.get().sell_unfit
    assert (
        "is being checked"
        in olga_at.post("/operator/sites/at/ber-1/preflight/", follow=True).content.decode()
    )


def test_the_map_shows_sick_gpus_and_why(olga_at: Client, site: Site, nodes: None) -> None:
    Node.objects.filter(name="h100-01").update(capacity=8, allocated=3, unhealthy=2)
    trouble = node_checks(clock.now(), broken="GpuMetrics", message="GPU 6: XID 79, fallen off the bus.")
    Node.objects.filter(name="h100-01").update(checks=trouble)
    rows = olga_at.get("/operator/sites/at/ber-1/").context["rows"]
    shown = {node.name: node for row in rows for node in row.nodes}
    assert shown["h100-01"].counts == "3 allocated, 2 unhealthy, 3 free"
    assert shown["h100-01"].detail == "GPU 6: XID 79, fallen off the bus."
    assert shown["h100-01"].url == "/operator/sites/at/ber-1/nodes/h100-01/"
    assert "unhealthy" in shown["l40s-02"].counts
    assert "The kubelet is silent" in shown["l40s-02"].detail
    assert "cordoned" in shown["h100-02"].counts


def test_a_node_that_fails_a_check_has_no_good_mark(olga_at: Client, site: Site, nodes: None) -> None:
    """Its GPUs are sold and work; what is missing stands beside the mark."""
    failing = node_checks(clock.now(), broken="GpuMetrics", message="The exporter is not ready.")
    Node.objects.filter(name="h100-01").update(unhealthy=0, checks=failing)
    shown = olga_at.get("/operator/sites/at/ber-1/nodes/").context
    looks = {node.name: (node.tone, node.word) for node in [*shown["sick"], *shown["list"].rows]}
    assert looks["h100-01"] == (Tone.WARN, "Incomplete")
    page = olga_at.get("/operator/sites/at/ber-1/nodes/h100-01/").content.decode()
    assert "Incomplete" in page.split('id="node-state"')[1].split("</h1>")[0].split("</header>")[0]


def test_a_check_of_a_node_is_asked_for_once_and_its_output_shown(
    olga_at: Client, site: Site, nodes: None
) -> None:
    url = "/operator/sites/at/ber-1/nodes/h100-01/"
    assert "Not run yet" in olga_at.get(url).content.decode()
    olga_at.post(f"{url}check/")
    row = NodeCheck.objects.get()
    assert (row.node, row.requested_by, row.state) == ("h100-01", "olga", "waiting")
    assert "every 2s" in olga_at.get(url).content.decode()
    again = olga_at.post(f"{url}check/", follow=True)
    assert "already running" in again.content.decode()
    assert NodeCheck.objects.count() == 1
    NodeCheck.objects.update(state="passed", output="GPU 0: <ok>", finished_at=clock.now())
    text = olga_at.get(url).content.decode()
    assert "GPU 0: &lt;ok&gt;" in text
    assert "every 2s" not in text
    assert olga_at.get("/operator/sites/at/ber-1/nodes/none/").status_code == 404


def test_the_drift_policy_is_set_and_what_is_open_can_be_set_right(
    olga_at: Client, ada_at: Client, workspace: Workspace
) -> None:
    row = drift_of(workspace)
    tab = "/operator/sites/at/ber-1/drift/"
    assert "Repair now" in olga_at.get(tab).content.decode()
    assert "Repair now" not in ada_at.get(tab).content.decode()
    refused = olga_at.post(f"{tab}policy/", {"drift_policy": "shrug"})
    assert refused.status_code == 422
    assert f'"{tab}?' in refused.content.decode(), "its list leads back to the page"
    olga_at.post(f"{tab}policy/", {"drift_policy": "observe"})
    assert Site.objects.get().drift_policy == "observe"
    olga_at.post(f"/operator/drifts/{row.pk}/repair/")
    row.refresh_from_db()
    assert row.resolved_by == "olga"
    type(row).objects.update(state="repaired", resolved_at=clock.now())
    late = olga_at.post(f"/operator/drifts/{row.pk}/repair/", follow=True)
    assert "already over" in late.content.decode()
    assert "Comparing every workspace" in olga_at.post(f"{tab}check/", follow=True).content.decode()


def test_times_in_sentences_are_the_readers(olga_at: Client, olga: User, site: Site, nodes: None) -> None:
    trouble_at(site)
    User.objects.filter(pk=olga.pk).update(time_zone="Asia/Tokyo")
    page = olga_at.get("/operator/sites/at/ber-1/").content.decode()
    assert "Usage is counted; last proof at" in page
    assert not re.search(r"last proof at [^<]* UTC", page)


def test_nodes_without_gpus_are_counted_and_no_word_is_doubled(
    olga_at: Client, site: Site, nodes: None
) -> None:
    Site.objects.update(driver="sandbox", server_version="sandbox 1")
    Node.objects.create(site=site, name="cpu-01", observed_at=clock.now())
    page = olga_at.get("/operator/")
    assert page.context["node_count"] == 5
    assert "Sandbox 1, 5 nodes" in page.content.decode()
