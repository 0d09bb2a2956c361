"""Forms in a real browser: what would be refused is red, and its button says why, before anything is sent."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route, expect

from billing.models import Budget
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.browsing import NEEDED, context_for, looked_at, opened
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def address(workspace: Workspace) -> Iterator[str]:
    del workspace
    with served() as url:
        yield url


def test_a_budget(chromium: Browser, address: str, alice: User) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/budgets/new/")
    create, why = page.get_by_role("button", name="Create budget"), page.locator("#why")
    create.scroll_into_view_if_needed()
    expect(why).to_have_text("Name: Enter a name.")
    expect(create).to_be_disabled()
    expect(page.locator("#id_name-help")).not_to_have_class("invalid-feedback")
    page.locator("[name=name]").fill("stage")
    page.locator("[name=amount]").fill("1e5")
    expect(page.locator("#id_amount-help")).to_contain_text("without an exponent")
    expect(page.locator("[name=amount]")).to_have_attribute("aria-invalid", "true")
    expect(create).to_have_attribute("aria-describedby", "why")
    looked_at(page, "desk", picture="budget-checked")
    page.locator("[name=amount]").fill("100")
    expect(create).to_be_enabled()
    expect(why).to_have_text("")
    assert not Budget.objects.exists()
    create.click()
    expect(page.locator("body")).to_contain_text("Budget stage created")
    assert complaints == []


def test_a_check_that_the_next_key_overtakes_is_no_error(
    chromium: Browser, address: str, alice: User
) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(f"{address}/p/weather-lm/budgets/new/")
    why = page.locator("#why")
    page.get_by_role("button", name="Create budget").scroll_into_view_if_needed()
    expect(why).to_have_text("Name: Enter a name.")
    held: list[Route] = []
    page.route("**/*check*", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/*check*"):
        page.locator("[name=name]").fill("stage")
    page.locator("[name=name]").fill("stages")
    expect(why).to_contain_text("Amount: ")
    assert held
    assert complaints == []


def test_enter_sends_what_was_corrected_this_moment(chromium: Browser, address: str, alice: User) -> None:
    page, _ = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/budgets/new/")
    create = page.get_by_role("button", name="Create budget")
    create.scroll_into_view_if_needed()
    expect(create).to_be_disabled()
    page.route("**/*check*", lambda route: None)  # no answer comes in time
    page.locator("[name=amount]").fill("100")
    page.locator("[name=name]").fill("stage")
    expect(create).to_be_disabled()
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_contain_text("Budget stage created")


def test_a_check_without_an_answer_refuses_nothing(chromium: Browser, address: str, alice: User) -> None:
    page, _ = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/budgets/new/")
    create = page.get_by_role("button", name="Create budget")
    create.scroll_into_view_if_needed()
    expect(create).to_be_disabled()
    page.route("**/*check*", lambda route: route.fulfill(status=500))
    page.locator("[name=name]").fill("stage")
    expect(create).to_be_enabled()
    expect(page.locator("#why")).to_have_text("")


def test_what_is_typed_before_the_script_runs_is_answered(
    chromium: Browser, address: str, alice: User
) -> None:
    page, _ = opened(context_for(chromium, address, alice))
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/assets/main*.js", hold)
    with page.expect_request("**/assets/main*.js"):
        page.goto(f"{address}/p/weather-lm/workspaces/", wait_until="commit")
    page.locator("main input[type=search]").fill("era5-nowhere")
    for route in held:
        route.continue_()
    expect(page.locator("main")).to_contain_text("No workspaces match")


def test_a_token_and_a_project_in_its_dialog(chromium: Browser, address: str, alice: User) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/tokens/")
    create = page.get_by_role("button", name="Create token")
    expect(create).to_be_disabled()
    page.locator("[name=name]").fill("ci")
    expect(create).to_be_enabled()
    page.locator("[name=expires_at]").fill("2020-01-01T00:00")
    expect(page.locator("#id_expires_at-help")).to_have_class("invalid-feedback")
    expect(create).to_be_disabled()
    page.goto(f"{address}/p/weather-lm/members/")
    page.locator("[name=user]").fill("nobody")
    expect(page.locator("#id_user-help")).to_have_class("invalid-feedback")
    expect(page.get_by_role("button", name="Add member")).to_be_disabled()
    page.goto(f"{address}/o/climate/")
    page.get_by_role("button", name="New project").first.click()
    dialog = page.locator("#new-project")
    expect(dialog.get_by_role("button", name="Create project")).to_be_disabled()
    dialog.locator("[name=name]").fill("Again")
    dialog.locator("[name=slug]").fill("weather-lm")
    expect(dialog.locator("#id_slug-help")).to_have_class("invalid-feedback")
    expect(dialog).to_be_visible()
    assert complaints == []
