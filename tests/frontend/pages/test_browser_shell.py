"""The frame in a real browser: where an operator stands at a tenant's, and the palette on the way to a person."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Route, expect

from frontend.views import home
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from tenants.models import User
from tenants.selectors import actor_for
from tests.billing.stage import interval_make
from tests.frontend.pages.browsing import NEEDED, SIZES, context_for, looked_at, opened, sign_in
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def address(workspace: Workspace) -> Iterator[str]:
    with served() as url:
        yield url


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_operator_sees_where_they_stand(chromium: Browser, address: str, olga: User, theme: str) -> None:
    for size in SIZES:
        page, complaints = opened(context_for(chromium, address, olga, size=size, theme=theme))
        page.goto(f"{address}/p/weather-lm/workspaces/")
        expect(page.locator(".g-visit")).to_contain_text(
            "You are viewing weather-lm of Climate Physics as an operator"
        )
        looked_at(page, size, picture=f"visit-{theme}")
        assert complaints == []


def test_the_palette_leads_to_a_person_and_the_menu_to_the_account(
    chromium: Browser, address: str, alice: User, bob: User
) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/")
    page.keyboard.press("Control+k")
    page.keyboard.type("bob")
    expect(page.locator("#palette-list")).to_contain_text("member of weather-lm")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Members")
    page.get_by_role("button", name="alice, account menu").click()
    page.get_by_role("link", name="Account and time zone").click()
    expect(page.locator("h1")).to_have_text("Account")
    assert complaints == []


def test_what_is_found_meanwhile_does_not_take_the_place_of_what_is_highlighted(
    chromium: Browser, address: str, alice: User
) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page, complaints = opened(context_for(chromium, address, alice))
    page.route("**/search/**", hold)
    page.goto(f"{address}/p/weather-lm/")
    page.keyboard.press("Control+k")
    with page.expect_request("**/search/**"):
        page.keyboard.type("members")
    highlighted = page.locator("#palette-list [aria-selected=true]")
    expect(highlighted).to_contain_text("Members")
    other = {"label": "members-eval", "note": "workspace", "group": "Workspaces", "url": "/account/"}
    held[-1].fulfill(json=[other])
    expect(page.locator("#palette-list [role=option]").first).to_contain_text("members-eval")
    expect(highlighted).to_contain_text("Members")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Members")
    assert complaints == []


def test_enter_takes_what_was_typed_and_not_what_was_shown_before(
    chromium: Browser, address: str, alice: User
) -> None:
    """By who types fast: before the list is drawn for the text, and where nothing is found yet."""
    typed = """(input, text) => {
        input.value = text;
        input.dispatchEvent(new Event("input", { bubbles: true }));
        input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
    }"""
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/")
    page.keyboard.press("Control+k")
    palette, text = page.locator("#palette"), page.locator(".g-palette__input")
    expect(palette.get_by_role("option").first).to_be_visible()
    text.evaluate(typed, "nothing of that name")
    expect(palette.get_by_text("No results.")).to_be_visible()
    text.evaluate(typed, "members")
    expect(page.locator("h1")).to_have_text("Members")
    assert complaints == []


def test_the_palette_says_that_the_portal_is_away_and_then_finds_again(
    chromium: Browser, address: str, alice: User, bob: User
) -> None:
    page = context_for(chromium, address, alice).new_page()
    page.goto(f"{address}/p/weather-lm/")
    page.route("**/search/**", lambda route: route.fulfill(status=503))
    page.keyboard.press("Control+k")
    page.keyboard.type("bob")
    palette = page.locator("#palette")
    expect(palette).to_contain_text("The portal does not answer")
    expect(palette.get_by_text("No results.")).to_be_hidden()
    page.unroute("**/search/**")
    page.keyboard.press("Backspace")
    expect(page.locator("#palette-list")).to_contain_text("member of weather-lm")
    expect(palette.get_by_text("The portal does not answer")).to_be_hidden()


def test_an_operator_renames_a_person_and_a_site_and_signs_somebody_out(
    chromium: Browser, address: str, olga: User, alice: User
) -> None:
    hers = context_for(chromium, address, alice).new_page()
    hers.goto(f"{address}/p/weather-lm/")
    page, complaints = opened(context_for(chromium, address, olga))
    page.goto(f"{address}/operator/")
    page.keyboard.press("Control+k")
    page.keyboard.type("alice@")
    expect(page.locator("#palette-list")).to_contain_text("alice")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("alice")
    looked_at(page, "desk", picture="person")
    page.get_by_label("User name").fill("alice.smith")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("alice.smith")
    page.get_by_role("button", name="Sign out everywhere").click()
    page.locator("#sign-out").get_by_role("button", name="Sign out everywhere").click()
    expect(page.locator("#toasts")).to_contain_text("alice.smith is signed out everywhere.")
    expect(hers).to_have_url(re.compile("/accounts/login/"), timeout=30_000)
    page.goto(address + reverse("frontend:operator_site", args=["ber-1"]))
    page.get_by_role("button", name="Rename").click()
    page.locator("#rename").get_by_label("Name").fill("Berlin, hall one")
    page.locator("#rename").get_by_role("button", name="Save name").click()
    expect(page.locator(".g-head")).to_contain_text("Berlin, hall one")
    assert complaints == []


def test_the_account_signs_the_others_out(chromium: Browser, address: str, alice: User) -> None:
    pages, complaints = [], []
    for size in SIZES:
        page, said = opened(chromium.new_context(viewport=SIZES[size]))
        complaints.append(said)
        page.goto(f"{address}/account/")
        sign_in(page, "alice")
        expect(page.locator("h1")).to_have_text("Account")
        looked_at(page, size, picture="account")
        pages.append(page)
    pages[0].reload()
    expect(pages[0].get_by_role("region", name="Sessions")).to_contain_text("this one")
    pages[0].get_by_role("button", name="Sign out the others").click()
    expect(pages[0].locator("#toasts")).to_contain_text("1 other session ended.")
    pages[1].reload()
    expect(pages[1]).to_have_url(re.compile("/accounts/login/"))
    assert complaints == [[], []]


def test_a_chart_stands_when_its_part_was_fetched_again(
    chromium: Browser, address: str, alice: User, workspace: Workspace, h100: Flavor
) -> None:
    now = clock.now()
    interval_make(workspace, h100, now - timedelta(hours=2), now - timedelta(hours=1))
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/")
    expect(page.locator("#cost-by-day [data-chart-canvas] canvas")).to_be_visible()
    with page.expect_response(lambda answer: answer.request.headers.get("hx-request") == "true"):
        page.evaluate("document.querySelector('#cost-by-day').id = 'old'")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#old")).to_have_count(0)
    expect(page.locator("#cost-by-day [data-chart-canvas] canvas")).to_be_visible()
    assert complaints == []


def test_what_many_workspaces_cost_fills_in_by_itself(
    chromium: Browser,
    address: str,
    alice: User,
    workspace: Workspace,
    h100: Flavor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(home, "SHOWN", 1)
    now = clock.now()
    interval_make(workspace, h100, now - timedelta(hours=2), now - timedelta(hours=1))
    workspace_request(
        actor=actor_for(user=alice), project=workspace.project, name="one-more", items=[("l40s.1", 1)]
    )
    for size in SIZES:
        page, complaints = opened(context_for(chromium, address, alice, size=size))
        page.goto(f"{address}/p/weather-lm/")
        expect(page.locator("#cost-by-day [data-chart-canvas] canvas")).to_be_visible()
        expect(page.locator("#home .g-skeleton")).to_have_count(0)
        expect(page.locator("#home tfoot")).not_to_contain_text("…")
        looked_at(page, size, picture="home-filled-in")
        assert complaints == []
