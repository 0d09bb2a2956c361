"""Where the focus is, in a real browser, once a link or a form has changed what is shown."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from gpuaas.workspaces.models import Workspace
from tenants.models import Project, ProjectMembership, User
from tests.frontend.pages.browsing import NEEDED, context_for, opened
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def address(workspace: Workspace, project: Project, bob: User) -> Iterator[str]:
    del workspace
    ProjectMembership.objects.get_or_create(project=project, user=bob, defaults={"role": "member"})
    with served() as url:
        yield url


def test_a_link_a_form_and_a_refusal_lead_to_what_they_changed(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    page, _ = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/")
    expect(page.locator("html")).to_have_attribute("data-assets", "ready")
    assert page.evaluate("document.activeElement === document.body"), "entered by its address"
    page.get_by_role("link", name=workspace.name).first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_be_focused()
    page.goto(f"{address}/account/keys/")
    page.get_by_label("Name", exact=True).fill("laptop")
    page.locator("form:has([name=public_key])").evaluate("form => form.submit()")
    expect(page.locator("[name=public_key]")).to_be_focused()
    page.go_back()
    expect(page.locator("h1")).not_to_be_focused()


def test_who_is_removed_is_gone_from_the_list_and_the_focus_is_above_it(
    chromium: Browser, address: str, alice: User
) -> None:
    page, _ = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/members/")
    remove = page.get_by_role("button", name="Remove bob")
    remove.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("bob is no longer a member.")).to_be_visible()
    expect(remove).to_have_count(0)
    expect(page.locator("h1")).to_be_focused()
    page.get_by_role("button", name="Undo").click()
    expect(remove).to_have_count(1)
