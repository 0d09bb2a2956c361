"""A session that ends while somebody looks: the whole window signs in, and comes back to where it was."""

import re
from collections.abc import Iterator

import pytest
from django.contrib.sessions.models import Session
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.browsing import NEEDED, context_for
from tests.frontend.pages.scene import busy
from tests.frontend.pages.server import served

pytestmark = NEEDED
PASSWORD = "correct horse battery"


@pytest.fixture
def address(workspace: Workspace) -> Iterator[str]:
    busy(workspace)
    with served() as url:
        yield url


def sign_in_again(page: Page) -> None:
    expect(page).to_have_url(re.compile("/accounts/login/"))
    expect(page.locator(".g-side")).to_have_count(0)
    page.get_by_label("Name or e-mail").fill("alice")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_a_page_that_fetches_itself(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    page = context_for(chromium, address, alice).new_page()
    here = address + reverse("frontend:workspace", args=["weather-lm", workspace.pk])
    page.goto(here)
    expect(page.locator("#workspace-live")).to_contain_text("finetune-0")
    Session.objects.all().delete()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    sign_in_again(page)
    expect(page).to_have_url(here)
    expect(page.locator("#workspace-live")).to_contain_text("finetune-0")


def test_a_button(chromium: Browser, address: str, alice: User, workspace: Workspace) -> None:
    page = context_for(chromium, address, alice).new_page()
    here = address + reverse("frontend:workspace", args=["weather-lm", workspace.pk])
    page.goto(here)
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator("#delete-name").fill(workspace.name)
    Session.objects.all().delete()
    page.locator("#delete").get_by_role("button", name="Delete workspace").click()
    sign_in_again(page)
    expect(page).to_have_url(here)
    expect(page.locator("h1")).to_have_text(workspace.name)


def test_the_palette(chromium: Browser, address: str, alice: User) -> None:
    page = context_for(chromium, address, alice).new_page()
    here = f"{address}/p/weather-lm/limits/"
    page.goto(here)
    Session.objects.all().delete()
    page.get_by_role("button", name="Search or jump to").click()
    page.keyboard.type("era5", delay=20)
    sign_in_again(page)
    expect(page).to_have_url(here)
