"""The API page in a real browser: it draws every operation, and the content policy refuses nothing."""

import shutil
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.api.addresses import addresses

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PATIENCE_MS = 120_000  # it draws some 200 operations

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


def test_the_page_draws_every_operation(live_server: Any) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{live_server.url}/api/docs/", wait_until="networkidle")
        operations = sum(len(address.methods) for address in addresses())
        expect(page.locator(".opblock")).to_have_count(operations, timeout=PATIENCE_MS)
        page.locator("#operations-workspaces-workspace_request .opblock-summary-control").click()
        expect(page.locator("#operations-workspaces-workspace_request")).to_contain_text("train-7b")
        assert complaints == []
        browser.close()
