"""A session that ends while somebody looks: the whole window signs in, and comes back to where it was."""

import contextlib
import re
from collections.abc import Iterator

import pytest
from django.contrib.sessions.models import Session
from django.urls import reverse
from playwright.sync_api import Browser, Error, expect

from billing.models import Budget
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.browsing import NEEDED, context_for, sign_in
from tests.frontend.pages.scene import busy
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def address(workspace: Workspace) -> Iterator[str]:
    busy(workspace)
    with served() as url:
        yield url


def test_a_page_that_fetches_itself(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    page = context_for(chromium, address, alice).new_page()
    here = address + reverse("frontend:workspace", args=["weather-lm", workspace.pk])
    page.goto(here)
    expect(page.locator("#workspace-live")).to_contain_text("finetune-0")
    Session.objects.all().delete()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    sign_in(page, "alice")
    expect(page).to_have_url(here)
    expect(page.locator("#workspace-live")).to_contain_text("finetune-0")


def test_a_button(chromium: Browser, address: str, alice: User, workspace: Workspace) -> None:
    page = context_for(chromium, address, alice).new_page()
    here = address + reverse("frontend:workspace", args=["weather-lm", workspace.pk])
    page.goto(here)
    page.wait_for_load_state("networkidle")  # a part that is still fetched would sign in first
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator("#delete-name").fill(workspace.name)
    Session.objects.all().delete()
    page.locator("#delete").get_by_role("button", name="Delete workspace").click()
    sign_in(page, "alice")
    expect(page).to_have_url(here)
    expect(page.locator("h1")).to_have_text(workspace.name)


def test_what_is_entered_stays_until_one_is_signed_in_again(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    """In another tab; then the same form is sent from where it stands."""
    context = context_for(chromium, address, alice)
    page = context.new_page()
    here = f"{address}/p/weather-lm/budgets/new/"
    page.goto(here, wait_until="networkidle")
    page.get_by_label("Name", exact=True).fill("half")
    Session.objects.all().delete()
    page.get_by_label("Amount").fill("100")
    warning = page.locator("[data-signed-out]")
    expect(warning).to_contain_text("What you entered stays here.")
    page.get_by_label("Amount").fill("1000")
    expect(warning).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(here)
    with context.expect_page() as opening:
        warning.get_by_role("link", name="Sign in").click()
    sign_in(opening.value, "alice")
    expect(opening.value).to_have_url(here)
    opening.value.close()
    page.bring_to_front()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(warning).to_have_count(0)
    expect(page.get_by_label("Name", exact=True)).to_have_value("half")
    page.get_by_label("Amount").fill("1001")
    page.get_by_role("button", name="Create budget").click()
    expect(page.locator("#toasts")).to_contain_text("half")
    assert Budget.objects.get().name == "half"


def test_the_palette(chromium: Browser, address: str, alice: User) -> None:
    page = context_for(chromium, address, alice).new_page()
    here = f"{address}/p/weather-lm/limits/"
    page.goto(here)
    Session.objects.all().delete()
    page.get_by_role("button", name="Search or jump to").click()
    page.keyboard.type("era5", delay=20)
    sign_in(page, "alice")
    expect(page).to_have_url(here)


def test_two_tabs(chromium: Browser, address: str, alice: User, workspace: Workspace) -> None:
    """Both meet the end of the session; who signed in in the one is led on in the other."""
    context = context_for(chromium, address, alice)
    here = address + reverse("frontend:workspace", args=["weather-lm", workspace.pk])
    first, second = context.new_page(), context.new_page()
    third = context.new_page()
    third.goto(f"{address}{reverse('frontend:account')}")
    for page in (first, second):
        page.goto(here)
    Session.objects.all().delete()
    for page in (first, second):
        page.bring_to_front()
        with contextlib.suppress(Error):  # to come to the front may have been enough
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(page).to_have_url(re.compile("/accounts/login/"))
    sign_in(first, "alice")
    expect(first).to_have_url(here)
    sign_in(second, "alice")
    expect(second).to_have_url(here)
    expect(second.locator("h1")).to_have_text(workspace.name)
    third.get_by_role("button", name="Save").click()
    expect(third.locator("#toasts")).to_contain_text("This page was older than your sign-in")
    expect(third.locator("h1")).to_have_text("Account")
    third.get_by_role("button", name="Save").click()
    expect(third.locator("#toasts")).not_to_contain_text("older than your sign-in")
