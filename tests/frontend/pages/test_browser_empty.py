"""Where an operator finds nothing yet, in a real browser: the page names what is missing and leads to where it is made."""

from collections.abc import Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, expect

from gpuaas.catalog.models import Site
from tenants.models import Project, User
from tests.frontend.pages.browsing import NEEDED, SIZES, context_for, looked_at, opened
from tests.frontend.pages.server import served

pytestmark = NEEDED
# by the page: what it says, the link that it shows there, and the heading of where that leads
NOTHING = {
    "operator": ("No sites yet", "Add a site", "Add a site"),
    "operator_sites": ("No sites yet", "Add a site", "Add a site"),
    "operator_capacity": ("No GPUs yet", "Sites", "Sites"),
    "operator_limits": ("No organizations yet", "Organizations", "Organizations"),
}


@pytest.fixture
def address(olga: User) -> Iterator[str]:
    del olga
    with served() as url:
        yield url


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_without_a_site_each_page_leads_on(chromium: Browser, address: str, olga: User, theme: str) -> None:
    page, complaints = opened(context_for(chromium, address, olga, theme=theme))
    for name, (what, link, heading) in NOTHING.items():
        page.goto(address + reverse(f"frontend:{name}"))
        for size in SIZES:
            page.set_viewport_size(SIZES[size])
            looked_at(page, size, picture=f"nothing-{name}-{theme}")
        empty = page.locator(".g-empty").filter(has_text=what)
        empty.get_by_role("link", name=link).click()
        expect(page.locator("h1")).to_have_text(heading)
    assert complaints == []


def test_the_limits_of_a_portal_without_a_site_lead_to_its_sites(
    chromium: Browser, address: str, olga: User, project: Project
) -> None:
    del project
    page, complaints = opened(context_for(chromium, address, olga))
    page.goto(address + reverse("frontend:operator_limits"))
    empty = page.locator(".g-empty").filter(has_text="Nothing to limit yet")
    empty.get_by_role("link", name="Sites").click()
    expect(page.locator(".g-empty")).to_contain_text("No sites yet")
    assert complaints == []


def test_a_project_without_limits_leads_to_them_and_then_has_one(
    chromium: Browser, address: str, olga: User, project: Project, site: Site
) -> None:
    del site
    page, complaints = opened(context_for(chromium, address, olga))
    home = address + reverse("frontend:home", args=[project.slug])
    page.goto(home)
    empty = page.locator(".g-empty").filter(has_text="No limits yet")
    for size in SIZES:
        page.set_viewport_size(SIZES[size])
        looked_at(page, size, picture="no-limits")
    empty.get_by_role("link", name="Limits").click()
    cell = page.locator(f"#limit-project-{project.slug} [data-cell]").filter(has_text="H100").first
    cell.click()
    page.locator("[data-limit-input]").fill("4")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("weather-lm may hold 4")
    page.goto(home)
    expect(page.locator(".g-empty").filter(has_text="No limits yet")).to_have_count(0)
    assert complaints == []
