"""Ways on in a real browser: a first project, a site that is removed, long work after a reload, and a closed sign-in page."""

from collections.abc import Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.workspaces.models import Adoption, Workspace
from tenants.models import User
from tests.factories.catalog import SiteFactory
from tests.factories.tenants import OrganizationFactory, OrganizationMembershipFactory, UserFactory
from tests.frontend.operator.adopting import plan_at
from tests.frontend.pages.browsing import NEEDED, PASSWORD, context_for, looked_at, opened
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def address(workspace: Workspace) -> Iterator[str]:
    with served() as url:
        yield url


def test_a_new_organization_is_led_to_its_first_project(chromium: Browser, address: str) -> None:
    owner: User = UserFactory.create(username="nora")
    OrganizationMembershipFactory.create(
        organization=OrganizationFactory.create(slug="newco"), user=owner, role="owner"
    )
    page, complaints = opened(context_for(chromium, address, owner))
    page.goto(address)
    region = page.get_by_role("region", name="Projects")
    expect(region.first).to_contain_text("Create the first one")
    looked_at(page, "desk", picture="first-project")
    page.get_by_role("button", name="New project").last.click()
    dialog = page.locator("#new-project")
    dialog.get_by_role("textbox").first.fill("first")
    dialog.get_by_role("textbox").last.fill("First")
    dialog.get_by_role("button", name="Create").click()
    expect(page.locator("main")).to_contain_text("can hold nothing until a platform operator sets its limits")
    assert complaints == []


def test_a_site_without_anything_on_it_is_removed(
    chromium: Browser, address: str, workspace: Workspace, olga: User
) -> None:
    SiteFactory.create(slug="oslo-1", enabled=False)
    Site.objects.filter(pk=workspace.site_id).update(enabled=False)
    page, complaints = opened(context_for(chromium, address, olga))
    page.goto(address + reverse("frontend:operator_site", args=["ber-1"]))
    page.get_by_role("button", name="Remove").first.click()
    expect(page.locator("#remove")).to_contain_text("ber-1 cannot be removed yet")
    expect(page.locator("#remove")).to_contain_text(workspace.name)
    page.goto(address + reverse("frontend:operator_site", args=["oslo-1"]))
    page.get_by_role("button", name="Remove").first.click()
    expect(page.locator("#remove").get_by_role("button", name="Remove site")).to_be_disabled()
    page.locator("#remove").get_by_role("textbox").fill("oslo-1")
    page.locator("#remove").get_by_role("button", name="Remove site").click()
    expect(page.locator("#toasts")).to_contain_text("Site oslo-1 removed.")
    expect(page.locator("main").get_by_role("link", name="oslo-1")).to_have_count(0)
    expect(page.locator("main").get_by_role("link", name="ber-1").first).to_be_visible()
    assert complaints == []


def test_long_work_says_its_step_after_a_reload(
    chromium: Browser, address: str, workspace: Workspace, olga: User, bob: User
) -> None:
    row = plan_at(workspace.site, workspace.project, bob)
    Adoption.objects.filter(pk=row.pk).update(state="planning", steps=[], due_at=clock.now())
    page, complaints = opened(context_for(chromium, address, olga))
    page.goto(address + reverse("frontend:operator_adoption", args=["ber-1", row.pk]))
    for _ in range(2):
        expect(page.locator("main")).to_contain_text("Step 2 of 3, since")
        expect(page.locator("main")).to_contain_text("It waits for a free worker.")
        expect(page.locator("main .g-skeleton")).to_have_count(0)
        page.reload()
    assert complaints == []


def _sign_in(page: Page, password: str) -> None:
    page.get_by_label("Name or e-mail").fill("alice")
    page.get_by_label("Password").fill(password)
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in").click()


def test_after_too_many_tries_the_sign_in_page_says_until_when_and_what_else(
    chromium: Browser, address: str, alice: User
) -> None:
    page = chromium.new_page()
    page.goto(f"{address}/accounts/login/")
    expect(page.get_by_role("link", name="Forgot")).to_have_count(1)
    for _ in range(5):
        _sign_in(page, "wrong")
    _sign_in(page, PASSWORD)
    expect(page.locator("h1")).to_have_text("Too many tries")
    expect(page.locator("main")).to_contain_text("The next try is possible at")
    expect(page.locator("main")).to_contain_text("Ask an operator of the portal to end the wait.")
    page.get_by_role("link", name="Set a new password").click()
    expect(page.get_by_label("E-mail")).to_be_visible()
