"""The API page in a real browser: it draws every operation, and the content policy refuses nothing."""

import shutil
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.addresses import addresses
from tests.lab.fixtures import until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PATIENCE_MS = 120_000  # it draws some 200 operations

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


def scroll(page: Page, pixels: int) -> list[str]:
    """The operations that are there now: the page draws those in sight alone."""
    page.mouse.wheel(0, pixels)
    page.wait_for_timeout(100)
    found: list[str] = page.locator(".opblock").evaluate_all("rows => rows.map(row => row.id)")
    return found


def test_the_page_draws_every_operation(chromium: Browser, live_server: Any) -> None:
    page = chromium.new_page()
    page.set_default_timeout(PATIENCE_MS)
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{live_server.url}/api/docs/")
    expect(page.locator(".opblock").first).to_be_visible()
    page.mouse.move(300, 300)
    operations = sum(len(address.methods) for address in addresses())
    seen: set[str] = set()

    def all_seen() -> bool:
        seen.update(scroll(page, 300))
        return len(seen) >= operations

    until(all_seen, "every operation is drawn")
    assert len(seen) == operations
    asked = "operations-workspaces-workspace_request"
    until(lambda: asked in scroll(page, -300), "back at the request")
    page.locator(f"#{asked} .opblock-summary-control").click()
    expect(page.locator(f"#{asked}")).to_contain_text("train-7b")
    assert complaints == []
