"""Parts that fetch themselves take away neither what somebody types in them nor what was opened, in a real browser."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from gpuaas.core import clock
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.operator.stage import stage
from tests.frontend.pages.browsing import NEEDED, context_for, opened
from tests.frontend.pages.server import served

pytestmark = NEEDED
AWAIT = """() => {
  const root = document.documentElement;
  delete root.dataset.answered;
  document.addEventListener('htmx:afterRequest', () => { root.dataset.answered = '' }, { once: true });
}"""

# in the moment in which the part is new, and htmx does not know its filter yet
TYPE = """() => document.addEventListener('htmx:afterSwap', () => {
  document.querySelector('#machines-live input[type=search]').focus();
  document.execCommand('insertText', false, 'vm-05');
}, { once: true })"""


@contextmanager
def answered(page: Page) -> Iterator[None]:
    """htmx is done with the answer of what is asked in the block, whether it was put in its place or not."""
    page.evaluate(AWAIT)
    yield
    expect(page.locator("html")).to_have_attribute("data-answered", "")


def fetched(page: Page, part: str) -> None:
    with answered(page):
        page.locator(part).dispatch_event("live")


@pytest.fixture
def machines(room: Workspace) -> str:
    for number in range(12):
        Machine.objects.create(
            workspace=room, name=f"vm-{number:02}", state="running", uid=str(number), created_at=clock.now()
        )
    return f"/p/{room.project.slug}/workspaces/{room.pk}/machines/"


def test_a_part_waits_for_the_text_that_is_typed_in_it(chromium: Browser, machines: str, alice: User) -> None:
    with served() as address:
        page, complaints = opened(context_for(chromium, address, alice))
        page.clock.install()
        page.goto(address + machines)
        typed, rows = page.get_by_label("Find by name or address"), page.locator("#machines-list tbody tr")
        expect(rows).to_have_count(12)
        page.clock.pause_at(clock.now() + timedelta(minutes=1))
        typed.press_sequentially("vm-")
        Machine.objects.filter(name="vm-07").update(name="vm-70")
        fetched(page, "#machines-live")
        expect(typed).to_have_value("vm-")
        expect(typed).to_be_focused()
        typed.press_sequentially("7 ")
        page.clock.run_for(300)
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("vm-70")
        page.clock.run_for(100)
        expect(typed).to_have_value("vm-7 ")
        Machine.objects.filter(name="vm-70").update(name="vm-71")
        fetched(page, "#machines-live")
        expect(rows).to_contain_text("vm-71")
        page.clock.run_for(100)
        expect(typed).to_be_focused()
        assert complaints == []


def test_letters_that_follow_while_a_filter_is_answered(
    chromium: Browser, machines: str, alice: User
) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    with served() as address:
        page, complaints = opened(context_for(chromium, address, alice))
        page.clock.install()
        page.goto(address + machines)
        typed, rows = page.get_by_label("Find by name or address"), page.locator("#machines-list tbody tr")
        expect(rows).to_have_count(12)
        page.clock.pause_at(clock.now() + timedelta(minutes=1))
        page.route(re.compile("q=vm-0$"), hold)
        typed.press_sequentially("vm-0")
        with page.expect_request(re.compile("q=vm-0$")):
            page.clock.run_for(300)
        typed.press_sequentially("5")
        with answered(page):
            held[0].continue_()
        expect(typed).to_have_value("vm-05")
        page.clock.run_for(300)
        expect(rows).to_have_count(1)
        expect(typed).to_have_value("vm-05")
        expect(page).to_have_url(re.compile("q=vm-05$"))
        assert complaints == []


def test_what_is_typed_in_the_moment_of_an_answer_is_asked(
    chromium: Browser, machines: str, alice: User
) -> None:
    with served() as address:
        page, complaints = opened(context_for(chromium, address, alice))
        page.goto(address + machines, wait_until="networkidle")
        typed, rows = page.get_by_label("Find by name or address"), page.locator("#machines-list tbody tr")
        expect(rows).to_have_count(12)
        page.evaluate(TYPE)
        fetched(page, "#machines-live")
        expect(typed).to_have_value("vm-05")
        expect(rows).to_have_count(1)
        expect(page).to_have_url(re.compile("q=vm-05$"))
        assert complaints == []


def test_text_that_answers_keep_in_its_field_is_asked_once(
    chromium: Browser, machines: str, alice: User
) -> None:
    asked: list[str] = []

    def keep(route: Route) -> None:
        if "hx-trigger" not in route.request.headers:  # the filter has no id, unlike the part
            asked.append(route.request.url)
        answer = route.fetch()
        route.fulfill(
            response=answer, body=answer.text().replace('type="search"', 'type="search" hx-preserve')
        )

    with served() as address:
        page, complaints = opened(context_for(chromium, address, alice))
        page.goto(address + machines, wait_until="networkidle")
        rows = page.locator("#machines-list tbody tr")
        expect(rows).to_have_count(12)
        page.route(re.compile("/machines/"), keep)
        page.evaluate(TYPE)
        fetched(page, "#machines-live")
        expect(rows).to_have_count(1)
        for _ in range(3):
            fetched(page, "#machines-live")
        expect(page.get_by_label("Find by name or address")).to_have_value("vm-05")
        assert [url.partition("?")[2] for url in asked] == ["q=vm-05"]
        assert complaints == []


def test_a_filter_that_is_asked_while_its_list_is_fetched_again(
    chromium: Browser, workspace: Workspace, alice: User
) -> None:
    """The list's own answer comes first, and would replace what the filter's answer is meant for."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    with served() as address:
        page, complaints = opened(context_for(chromium, address, alice))
        page.goto(f"{address}/p/{workspace.project.slug}/workspaces/", wait_until="networkidle")
        expect(page.locator("main tbody tr")).to_have_count(1)
        page.route(re.compile("/workspaces/"), hold)
        with page.expect_request(re.compile("/workspaces/$")):
            page.locator("[data-live='workspace:*']").dispatch_event("live")
        with page.expect_request(re.compile("q=nowhere")):
            page.locator("main input[type=search]").fill("nowhere")
        with answered(page):
            held[0].continue_()
        held[1].continue_()
        expect(page.locator("main")).to_contain_text("No workspaces match")
        expect(page).to_have_url(re.compile("q=nowhere"))
        assert complaints == []


def test_what_was_opened_stays_open(chromium: Browser, db: None, olga: User) -> None:
    stage(olga)
    with served() as address:
        page, complaints = opened(context_for(chromium, address, olga))
        page.goto(f"{address}/operator/")
        part = "[data-live='workspace:* site:*']"
        chart, node = page.locator(f"{part} [data-chart]"), page.locator(f"{part} .g-node[href]").nth(3)
        chart.get_by_role("button", name="Table").click()
        node.click()
        read = page.locator("[data-map-readout]").inner_text()
        page.locator(part).evaluate("part => { part.dataset.old = '' }")
        fetched(page, part)
        expect(page.locator("[data-old]")).to_have_count(0)
        expect(chart.get_by_role("table")).to_be_visible()
        expect(chart.get_by_role("button", name="Table")).to_have_attribute("aria-pressed", "true")
        expect(page.locator("[data-map-readout]")).to_have_text(read, use_inner_text=True)
        expect(node).to_have_attribute("aria-pressed", "true")
        expect(node).to_have_attribute("tabindex", "0")
        assert complaints == []
