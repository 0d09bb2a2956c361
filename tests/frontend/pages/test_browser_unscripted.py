"""In a browser that runs no script: a workspace from its request to its deletion, and a pool from its reservation to its end."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from gpuaas.catalog.models import Flavor
from gpuaas.workspaces.models import Workspace
from quotas.models import PoolReservation
from tenants.models import Project, User
from tests.factories.catalog import FlavorFactory
from tests.frontend.pages.browsing import NEEDED
from tests.frontend.pages.server import served
from tests.frontend.pages.test_browser_forms import unscripted

pytestmark = NEEDED


@pytest.fixture
def address(limited: Project, h100: Flavor) -> Iterator[str]:
    FlavorFactory.create(pool=h100.pool, slug="h100.own", price_class="reserved")
    with served() as url:
        yield url


def test_a_workspace_is_requested_and_deleted(chromium: Browser, address: str, alice: User) -> None:
    page = unscripted(chromium, address, alice)
    page.goto(f"{address}/p/weather-lm/workspaces/new/")
    page.locator("input[name=flavor][value='h100.1']").check()
    page.get_by_role("button", name="Create workspace").click()
    expect(page.locator("input[name=name]")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("input[name=flavor][value='h100.1']")).to_be_checked()
    page.locator("input[name=name]").fill("by-hand")
    page.get_by_role("button", name="Create workspace").click()
    expect(page.locator("h1")).to_have_text("by-hand")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator("#delete-name").fill("by-hands")
    page.get_by_role("button", name="Delete workspace").click()
    expect(page.locator("#delete .invalid-feedback")).to_contain_text("type by-hand exactly")
    page.locator("#delete-name").fill("by-hand")
    page.get_by_role("button", name="Delete workspace").click()
    expect(page.locator("#toasts")).to_contain_text("delet", ignore_case=True)
    assert Workspace.objects.get().state == "deleting"


def test_a_pool_is_reserved_and_its_reservation_ended(chromium: Browser, address: str, olga: User) -> None:
    page = unscripted(chromium, address, olga, "phone")
    page.goto(f"{address}/operator/reservations/")
    page.get_by_role("button", name="Review").click()
    expect(page.locator("#id_flavor-help")).to_contain_text("Choose a pool and price")
    page.locator("#id_flavor").select_option("h100.own")
    page.locator("#id_project").fill("weather-lm")
    page.locator("#id_note").fill("the big run")
    page.get_by_role("button", name="Review").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#id_note")).to_have_value("the big run")
    page.get_by_role("button", name="Review").click()
    page.get_by_role("button", name="Reserve pool").click()
    expect(page.locator("#toasts")).to_contain_text("is reserved for")
    row = PoolReservation.objects.get()
    page.get_by_role("button", name="Change").click()
    page.locator(f"#change-{row.pk}-note").fill("the bigger run")
    page.get_by_role("button", name="Save reservation").click()
    expect(page.locator("main")).to_contain_text("the bigger run")
    page.get_by_role("button", name="End").click()
    page.get_by_role("button", name="End reservation").click()
    expect(page.locator("#toasts")).to_contain_text("others may have GPUs of it again")
    row.refresh_from_db()
    assert row.valid_to is not None
