"""The new pages with the whole portal behind them, on the simulated site: sleep, service accounts, checks, adoption."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.pieces import Pieces
from tests.e2e.portal import Client
from tests.e2e.tenant import HOME, Tenant

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

SLOW = 60_000
AT_ONCE = 10_000
SITE = "/operator/sites/at/ber-1"


@pytest.fixture
def alice(portal: Pieces, tmp_path: Path) -> Tenant:
    return Tenant(Client(portal, "alice"), tmp_path)


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    found = chromium.new_page()
    complaints: list[str] = []
    found.on("pageerror", lambda error: complaints.append(str(error)))
    yield found
    found.close()
    assert complaints == []


def sign_in(page: Page, portal: Pieces, name: str) -> None:
    page.goto(f"{portal.url}/accounts/login/")
    page.get_by_label("Name or e-mail").fill(name)
    page.get_by_label("Password").fill("demo")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Switch theme")).to_be_visible()


def badge(page: Page, word: str) -> None:
    expect(page.locator(".g-head__line .badge").first).to_have_text(re.compile(word), timeout=SLOW)


def test_a_workspace_sleeps_and_wakes_and_a_pipeline_gets_in(
    portal: Pieces, page: Page, alice: Tenant
) -> None:
    before = alice.used()
    row = alice.request("h100-sxm-80gb.1", 2, name="sleeper")
    alice.in_state(row["id"], "ready")
    sign_in(page, portal, "alice")
    page.goto(f"{portal.url}/p/weather-lm/workspaces/{row['id']}/")
    page.get_by_role("button", name="Suspend").click()
    dialog = page.locator("#suspend")
    expect(dialog).to_contain_text("Its GPUs are released for others: 2 × H100 SXM 80 GB")
    dialog.get_by_label("Reason").fill("over the weekend")
    dialog.get_by_role("button", name="Suspend").click()
    badge(page, "Suspended")
    expect(page.locator("#workspace-live")).to_contain_text("Nothing runs and nothing can be started")
    assert alice.used()["gpu:h100-sxm-80gb"] == before["gpu:h100-sxm-80gb"]
    page.get_by_role("button", name="Resume").click()
    page.locator("#resume").get_by_role("button", name="Resume").click()
    badge(page, "Ready")
    pipeline_gets_in(page)
    alice.delete(row["id"])


def pipeline_gets_in(page: Page) -> None:
    page.get_by_role("button", name="Add service account").click()
    page.locator("#add-robot").get_by_label("Name").fill("ci")
    page.locator("#add-robot").get_by_role("button", name="Add").click()
    drawer = page.locator("#drawer")
    page.locator("#workspace-live").get_by_role("link", name="ci", exact=True).click()
    expect(drawer).to_contain_text("No credentials have been issued.")
    for _ in range(20):
        drawer.get_by_role("button", name="Issue credential").click()
        with_credential = drawer.locator("pre")
        page.wait_for_timeout(1000)
        if with_credential.count():
            break
    expect(drawer.locator("pre")).to_contain_text("apiVersion")
    page.keyboard.press("Escape")
    expect(page.locator("#workspace-live")).to_contain_text("1 credential, valid until", timeout=SLOW)


def test_two_tabs_hear_of_the_last_state_at_once(portal: Pieces, chromium: Browser, alice: Tenant) -> None:
    """Both by the socket: nobody waits for the poll, which comes every 30 s."""
    context = chromium.new_context()
    page, other = context.new_page(), context.new_page()
    sign_in(page, portal, "alice")
    other.goto(f"{portal.url}/p/weather-lm/workspaces/")
    expect(other.locator("[data-live-words]")).to_have_text("live")
    row = alice.request("h100-sxm-80gb.1", 1, name="two-tabs")
    page.goto(f"{portal.url}/p/weather-lm/workspaces/{row['id']}/")
    alice.in_state(row["id"], "ready")
    expect(page.locator(".g-head__line .badge").first).to_have_text("Ready", timeout=AT_ONCE)
    line = other.locator("#workspaces-list tr", has_text="two-tabs")
    expect(line).to_contain_text("Ready", timeout=AT_ONCE)
    alice.delete(row["id"])
    alice.in_state(row["id"], "deleted")
    expect(page.locator(".g-head__line .badge").first).to_have_text("Deleted", timeout=AT_ONCE)
    expect(line).to_have_count(0, timeout=AT_ONCE)
    context.close()


def test_an_operator_checks_a_node_and_sees_what_is_wrong(portal: Pieces, page: Page) -> None:
    sign_in(page, portal, "olga")
    page.goto(f"{portal.url}{SITE}/")
    page.get_by_role("button", name="Check now").click()
    expect(page.locator("#toasts")).to_contain_text("check", ignore_case=True)
    expect(page.locator("#site-live")).to_contain_text("Default storage class", timeout=SLOW)
    expect(page.locator("#site-live")).to_contain_text("Mark one as the default.")
    page.goto(f"{portal.url}{SITE}/nodes/")
    expect(page.locator("#site-nodes")).to_contain_text("1 of 8 A100 SXM 80 GB out", timeout=SLOW)
    page.get_by_role("link", name="h100-01").click()
    page.get_by_role("button", name="Run nvidia-smi").click()
    expect(page.locator("#node-live pre").first).to_contain_text("NVIDIA H100 80GB HBM3", timeout=SLOW)
    expect(page.locator("#node-live")).to_contain_text("Passed")


def test_what_was_there_is_taken_over_by_a_plan(portal: Pieces, page: Page, alice: Tenant) -> None:
    sign_in(page, portal, "olga")
    page.goto(f"{portal.url}{SITE}/adoption/")
    page.get_by_role("button", name="Scan now").click()
    page.get_by_role("link", name="Plan for old-lab").click(timeout=SLOW)
    page.locator("#id_project").fill("weather-lm")
    page.locator("#id_name").fill("taken-over")
    page.get_by_role("button", name="Create plan").click()
    badge(page, "Planned")
    expect(page.locator("#plan-live")).to_contain_text("Quota/gpuaas")
    page.get_by_role("button", name="Adopt workspace").first.click()
    page.locator("#confirm-plan").get_by_role("button", name="Adopt workspace").click()
    badge(page, "Done")
    found = {row["name"]: row for row in alice.client.get(HOME)["results"]}
    assert found["taken-over"]["external_name"] == "old-lab"
    alice.in_state(found["taken-over"]["id"], "ready")
    alice.delete(found["taken-over"]["id"])
