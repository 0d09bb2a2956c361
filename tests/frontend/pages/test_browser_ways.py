"""Ways on in a real browser: a first project, a site that is removed, long work after a reload, and a closed sign-in page."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, Request, expect

from billing.models import LedgerEntry
from billing.services.accounts import account_ensure
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.workspaces.models import Adoption, Workspace
from tenants.models import Organization, User
from tests.factories.catalog import SiteFactory
from tests.factories.tenants import OrganizationFactory, OrganizationMembershipFactory, UserFactory
from tests.frontend.operator.adopting import plan_at
from tests.frontend.pages.browsing import (
    NEEDED,
    PASSWORD,
    connection_words,
    context_for,
    looked_at,
    opened,
    until,
)
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


@contextmanager
def booking_held(organization: Organization) -> Iterator[None]:
    """Somebody else books on the account: whoever comes next waits."""
    account_ensure(organization=organization)
    with psycopg.connect(connection_words(), autocommit=False) as other:
        other.execute(
            "SELECT 1 FROM billing_billingaccount WHERE organization_id = %s FOR UPDATE", [organization.pk]
        )
        yield


def test_what_is_under_way_is_sent_once_and_back_leads_to_pages(
    chromium: Browser, address: str, workspace: Workspace, olga: User
) -> None:
    """Impatient presses while the portal takes its time; then Back, from what was recorded over the question to the form."""
    organization = workspace.project.organization
    page, complaints = opened(context_for(chromium, address, olga))
    posts: list[str] = []

    def note(request: Request) -> None:
        if request.method == "POST" and not request.url.endswith("?check"):
            posts.append(request.url)

    page.on("request", note)
    page.goto(address + reverse("frontend:operator_credits", args=[organization.slug]))
    ask = page.locator("form:has(#payment_amount) button[type=submit]")
    ask.scroll_into_view_if_needed()
    with page.expect_response(
        lambda tried: "?check" in tried.url and "amount=25" in (tried.request.post_data or "")
    ):
        page.locator("#payment_amount").fill("25")
    expect(ask).to_be_enabled()
    box = ask.bounding_box()
    assert box is not None
    other = page.context.new_page()
    with booking_held(organization):
        for _ in range(3):
            page.mouse.click(box["x"] + 5, box["y"] + 5)
            other.goto(address + reverse("frontend:account"))
            until(lambda: other.evaluate("1") and posts, "the form was not sent")
        assert len(posts) == 1
    answer = page.locator("#sure button[type=submit]")
    with page.expect_navigation():
        answer.dblclick(no_wait_after=True)
    expect(page.locator("#toasts")).to_contain_text("recorded")
    assert LedgerEntry.objects.filter(kind="prepaid").count() == 1
    for _ in range(2):
        page.go_back()
        expect(page.locator("h1")).to_contain_text(organization.name)
    assert LedgerEntry.objects.filter(kind="prepaid").count() == 1
    assert complaints == []


def test_back_from_what_was_made_does_not_ask_to_send_it_again(
    chromium: Browser, address: str, olga: User
) -> None:
    page, complaints = opened(context_for(chromium, address, olga))
    page.goto(address + reverse("frontend:operator_organizations"))
    for slug in ("Not A Slug", "glaciology"):
        page.locator("#new_slug").fill(slug)
        page.locator("#new_name").fill("Glaciology")
        # as Enter does, before the page knows what would be refused and disables its button
        page.locator("form:has(#new_slug)").evaluate("form => form.requestSubmit()")
        expect(page.locator("#new_slug[aria-invalid]")).to_have_count(int(slug != "glaciology"))
    expect(page.locator("h1")).to_have_text("Glaciology")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Organizations")
    page.reload()
    expect(page.locator("h1")).to_have_text("Organizations")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Organizations")
    assert [each for each in complaints if "422" not in each] == []
