"""An operator disables a person in a real browser: what the dialog says, what becomes of the person's page, and the way back."""

import re
from collections.abc import Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.browsing import NEEDED, SIZES, context_for, looked_at, opened, sign_in
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def address(workspace: Workspace, bob: User) -> Iterator[str]:
    del workspace, bob
    with served() as url:
        yield url


def disable(page: Page) -> None:
    page.get_by_role("button", name="Disable bob").click()
    dialog = page.get_by_role("dialog", name="Disable bob?")
    expect(dialog).to_contain_text("What they created stays and keeps running.")
    for size in SIZES:
        page.set_viewport_size(SIZES[size])
        looked_at(page, size, picture="person-disable")
    page.set_viewport_size(SIZES["desk"])
    dialog.get_by_role("button", name="Disable account").click()
    expect(page.locator("#toasts")).to_contain_text("bob is signed out and can no longer sign in.")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_person_is_disabled_and_enabled_again(
    chromium: Browser, address: str, olga: User, bob: User, theme: str
) -> None:
    his, noted = opened(context_for(chromium, address, bob))
    his.goto(f"{address}/p/weather-lm/workspaces/")
    page, complaints = opened(context_for(chromium, address, olga, theme=theme))
    page.goto(address + reverse("frontend:operator_people"))
    disable(page)
    row = page.get_by_role("row").filter(has_text="bob@example.org")
    expect(row.get_by_role("button", name="Enable bob")).to_be_visible()
    looked_at(page, "desk", picture=f"people-disabled-{theme}")
    row.get_by_role("link", name="bob", exact=True).click()
    expect(page.locator(".g-head__sub")).to_contain_text("disabled")

    sign_in(his, "bob")  # where his page has led by itself
    expect(his).to_have_url(re.compile("/accounts/inactive/"))
    expect(his.locator("main")).to_contain_text("An operator of the portal can enable it")
    looked_at(his, "desk", picture="account-disabled")

    page.get_by_role("button", name="Enable bob").click()  # on his own page
    expect(page.locator("#toasts")).to_contain_text("bob can sign in again.")
    expect(page.get_by_role("button", name="Disable bob")).to_be_visible()
    his.goto(f"{address}/p/weather-lm/workspaces/")
    sign_in(his, "bob")
    expect(his.locator("h1")).to_have_text("Workspaces")
    assert complaints == []
    assert [text for text in noted if "401" not in text] == [], "how his page has learned it"


def test_who_disabled_the_wrong_person_takes_it_back(
    chromium: Browser, address: str, olga: User, bob: User
) -> None:
    page, complaints = opened(context_for(chromium, address, olga))
    page.goto(address + reverse("frontend:operator_people"))
    disable(page)
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Disable bob")).to_be_visible()
    bob.refresh_from_db()
    assert bob.is_active
    assert complaints == []
