"""Costs: each row leads one step down, to the very intervals; what is seen adds up at every step."""

import csv
import io
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from billing.months import month_of, month_span
from billing.services import rate_set
from frontend import vite
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from quotas.models import CapacityStretch, CapacityWatch
from tenants.actors import SYSTEM
from tenants.models import Project, User
from tests.billing.stage import interval_make, workspace_make
from tests.factories.tenants import ProjectFactory
from tests.frontend.pages.browsing import CHROMIUM, PICTURES, context_for, opened
from tests.frontend.pages.server import served
from tests.lasting import lasting

HOURS = timedelta(hours=1)


@pytest.fixture
@lasting
def spent(project: Project, h100: Flavor, l40s: Flavor, alice: User, bob: User) -> list[Workspace]:
    """In two projects of climate, in the first hours of this month: alice 2 h of H100 and 1 h of L40S, bob 3 h of H100."""
    start = month_span(month_of(clock.now())).starts_at
    rate_set(actor=SYSTEM, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=start)
    rate_set(actor=SYSTEM, flavor=l40s, meter=Meter.GPU_HELD, price="0.90", valid_from=start)
    second = ProjectFactory.create(organization=project.organization, slug="second")
    rows = [
        workspace_make(project, h100, alice, name="train"),
        workspace_make(second, h100, bob, name="serve"),
    ]
    interval_make(rows[0], h100, start - HOURS, start + 2 * HOURS)
    interval_make(rows[0], l40s, start, start + HOURS)
    interval_make(rows[1], h100, start, start + 3 * HOURS)
    return rows


def shown(client: Client, url: str) -> list[tuple[str, Decimal, str]]:
    page = client.get(url)
    assert page.status_code == 200
    return [(row.name, row.amount, link) for row, _, _, link in page.context["list"].rows]


def test_each_row_leads_one_step_down_to_the_intervals(alice_at: Client, spent: list[Workspace]) -> None:
    url = reverse("frontend:organization_costs", args=["climate"])
    rows = shown(alice_at, url)
    assert [(name, amount) for name, amount, _ in rows] == [
        ("second", Decimal("7.20")),
        ("weather-lm", Decimal("5.70")),
    ]
    steps = [("weather-lm", "5.70"), ("train", "5.70"), ("h100-sxm-80gb", "4.80")]
    for name, amount in steps:
        url = next(
            link for found, told, link in shown(alice_at, url) if (found, told) == (name, Decimal(amount))
        )
    ((_, whole, url),) = shown(alice_at, url)
    assert whole == Decimal("4.80")
    query = parse_qs(urlsplit(url).query)
    assert set(query) == {"month", "project", "workspace", "gpu_type", "day"}
    page = alice_at.get(url)
    ((row, seconds),) = page.context["list"].rows
    assert (row.workspace.name, seconds) == ("train", 3 * 3600)
    told = list(csv.DictReader(io.StringIO(alice_at.get(page.context["csv_url"]).getvalue().decode())))
    assert [(line["holder"], line["flavor"], line["project"]) for line in told] == [
        ("train", "h100.1", "weather-lm")
    ]


def test_a_member_sees_the_project_alone(bob_at: Client, spent: list[Workspace]) -> None:
    assert [row[0] for row in shown(bob_at, reverse("frontend:costs", args=["weather-lm"]))] == ["train"]
    other = f"{reverse('frontend:costs', args=['weather-lm'])}?project=second&by=member"
    assert [row[0] for row in shown(bob_at, other)] == ["alice"]
    for url in (
        reverse("frontend:costs", args=["second"]),
        reverse("frontend:organization_costs", args=["climate"]),
    ):
        assert bob_at.get(url).status_code in {403, 404}


def test_nonsense_in_the_address_is_left_out(alice_at: Client, spent: list[Workspace]) -> None:
    url = reverse("frontend:organization_costs", args=["climate"])
    for query in ("month=2999-99", "by=moon", "day=yesterday", "day=2020-01-01", "page=9"):
        assert len(shown(alice_at, f"{url}?{query}")) == 2
    assert shown(alice_at, f"{url}?workspace=not-a-key") == []
    intervals = reverse("frontend:organization_cost_intervals", args=["climate"])
    assert alice_at.get(f"{intervals}?workspace=%00&page=zero").status_code == 200


def test_the_file_has_the_rows_of_the_page(alice_at: Client, spent: list[Workspace]) -> None:
    url = reverse("frontend:organization_costs_csv", args=["climate"])
    told = list(csv.DictReader(io.StringIO(alice_at.get(f"{url}?by=member").getvalue().decode())))
    assert [(row["member"], row["amount"], row["currency"]) for row in told] == [
        ("bob", "7.20", "EUR"),
        ("alice", "5.70", "EUR"),
    ]


def test_queries_do_not_grow(alice_at: Client, alice: User, h100: Flavor, spent: list[Workspace]) -> None:
    pages = [
        reverse(f"frontend:{name}", args=["climate"])
        for name in ("organization_costs", "organization_cost_intervals")
    ]

    def queries(url: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert alice_at.get(url).status_code == 200
        return len(captured)

    few = [queries(f"{url}?by=workspace") for url in pages]
    start = month_span(month_of(clock.now())).starts_at
    for number in range(4):
        made = ProjectFactory.create(organization=spent[0].project.organization, slug=f"more-{number}")
        interval_make(workspace_make(made, h100, alice, name=f"w-{number}"), h100, start, start + HOURS)
    assert [queries(f"{url}?by=workspace") for url in pages] == few
    assert max(few) <= 26


@pytest.mark.parametrize("name", ["costs", "usage"])
def test_rows_come_a_page_at_a_time(
    name: str, alice_at: Client, alice: User, project: Project, h100: Flavor, spent: list[Workspace]
) -> None:
    """However many workspaces there are: its bytes do not grow but by digits, and the total is that of all."""
    url = f"{reverse(f'frontend:{name}', args=[project.slug])}?by=workspace"

    def more(numbers: range) -> None:
        start = month_span(month_of(clock.now())).starts_at
        for number in numbers:
            row = workspace_make(project, h100, alice, name=f"room-{number:03}")
            interval_make(row, h100, start, start + timedelta(minutes=number))

    def found(number: int) -> tuple[int, int, int]:
        page = alice_at.get(f"{url}&page={number}")
        return (
            len(page.context["list"].rows),
            page.context["list"].page.number,
            page.context["list"].page.paginator.count,
        )

    more(range(1, 60))
    before = len(alice_at.get(url).content)
    more(range(60, 120))
    assert abs(len(alice_at.get(url).content) - before) < 1000
    assert [found(number) for number in (1, 2, 3)] == [(50, 1, 120), (50, 2, 120), (20, 3, 120)]
    last = {"costs": (20, 3, 120), "usage": (50, 1, 120)}
    assert found(9) == last[name]


@pytest.fixture
def address(transactional_db: None) -> Iterator[str]:
    with served() as url:
        yield url


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.skipif(not vite.MANIFEST.exists(), reason="the front end is not built")
def test_a_person_clicks_down_to_the_intervals(
    address: str, chromium: Browser, alice: User, olga: User, spent: list[Workspace]
) -> None:
    capacity_stage(spent[0])
    context = context_for(chromium, address, alice)
    page, complaints = opened(context)
    page.goto(f"{address}{reverse('frontend:organization_costs', args=['climate'])}")
    picture(page, "costs")
    for name in ("weather-lm", "train", "h100-sxm-80gb"):
        page.get_by_role("region", name="Rows, table").get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("list", name="Filters")).to_contain_text(name)
    assert Axe().run(page).violations_count == 0
    page.get_by_role("region", name="Rows, table").get_by_role("rowheader").get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Intervals")).to_be_visible()
    expect(page.get_by_role("region", name="Intervals, table")).to_contain_text("train")
    expect(page.get_by_role("region", name="Intervals, table").get_by_role("row")).to_have_count(2)
    picture(page, "intervals")
    page.get_by_role("link", name="Remove filter GPU type").click()
    expect(page.get_by_role("region", name="Intervals, table").get_by_role("row")).to_have_count(3)
    context.close()
    context = context_for(chromium, address, olga, theme="dark")
    page, more = opened(context)
    for name in ("operator", "operator_utilization"):
        page.goto(f"{address}{reverse(f'frontend:{name}')}")
        picture(page, name)
        assert Axe().run(page).violations_count == 0
    context.close()
    assert complaints + more == []


def capacity_stage(workspace: Workspace) -> None:
    """Since the month began 16 GPUs, of which nobody knows the last two days but one."""
    flavor = UsageInterval.objects.filter(workspace=workspace).order_by("pk")[0].flavor
    assert flavor is not None
    start = month_span(month_of(clock.now())).starts_at
    pool = flavor.pool
    CapacityStretch.objects.create(site=pool.site, gpu_type=pool.gpu_type, devices=16, starts_at=start)
    CapacityWatch.objects.create(site=pool.site, seen_at=clock.whole_second(clock.now()) - timedelta(days=2))


def picture(page: Page, name: str) -> None:
    """In both themes and on a phone, for people to look at."""
    if not PICTURES:
        return
    size = page.viewport_size
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.screenshot(path=f"{PICTURES}/{name}-{theme}-{width}.png", full_page=True)
    if size:
        page.set_viewport_size(size)


def test_a_month_of_which_nothing_is_charged_has_no_bare_total(
    alice_at: Client, project: Project, h100: Flavor, alice: User
) -> None:
    """GPUs that pods had are in the price of the GPUs that were held: such usage alone makes no line."""
    start = month_span(month_of(clock.now())).starts_at
    rate_set(actor=SYSTEM, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=start)
    row = workspace_make(project, h100, alice, name="train")
    interval_make(row, h100, start, start + HOURS, meter=Meter.GPU_ALLOCATED)
    page = alice_at.get(reverse("frontend:usage", args=[project.slug]), {"by": "type"})
    assert page.context["statement"].lines
    assert "Nothing is charged" in page.content.decode()
    assert "<tfoot>" not in page.content.decode()
