"""What a new user does: `make demo`, a workspace in the browser, delete it, Ctrl-C, and back again."""

import logging
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from billing.months import month_of
from gpuaas.core import clock
from tests.e2e.portal import Client, Portal, wait_until
from tests.e2e.tenant import HOME, Tenant

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

log = logging.getLogger(__name__)

STEPS_AT_LEAST = 5


@pytest.fixture
def folder(demo_folder: Path) -> Iterator[Path]:
    yield demo_folder / "fresh"
    assert Portal.left_of(demo_folder / "fresh") == [], "the demo's processes outlived it"


def last_month() -> str:
    return f"{month_of(clock.now()) - timedelta(days=1):%Y-%m}"


def signed_in(browser: Browser, portal: Portal) -> Page:
    page = browser.new_page()
    page.goto(portal.url)
    page.get_by_label("Name or e-mail").fill("alice")
    page.get_by_label("Password").fill("demo")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("link", name="Workspaces").first).to_be_visible()
    return page


def requested(page: Page, portal: Portal, name: str) -> None:
    page.goto(f"{portal.url}/p/weather-lm/workspaces/new/")
    page.locator("#flavors tbody tr", has_text="h100-sxm-80gb.1").get_by_role("radio").check()
    page.get_by_role("spinbutton", name="Count").fill("2")
    page.get_by_role("textbox", name="Name", exact=True).fill(name)
    create = page.get_by_role("button", name=re.compile("Create"))
    expect(create).to_be_enabled()
    create.click()
    page.wait_for_url(re.compile("/p/weather-lm/workspaces/[0-9a-f-]{36}/"))


def badge(page: Page, word: str, *, seconds: float = 40) -> None:
    """Shown by the page itself: nobody reloads it."""
    expect(page.locator("#workspace-live .g-head__line .badge")).to_have_text(
        re.compile(word), timeout=seconds * 1000
    )


def test_a_workspace_in_the_browser_from_a_fresh_start(chromium: Browser, folder: Path) -> None:
    launched = time.monotonic()
    portal = Portal.start(folder)
    try:
        client = Client(portal, "alice")
        alice = Tenant(client, folder.parent)
        before = alice.used()
        by_project = client.get(
            f"/organizations/climate/costs/breakdown?group_by=project&month={last_month()}"
        )
        assert {row["key"]: float(row["amount"]) > 0 for row in by_project["rows"]} == {"downscale": True}
        page = signed_in(chromium, portal)
        loads: list[str] = []
        requested(page, portal, "first-try")
        page.on("load", lambda _page: loads.append(page.url))
        badge(page, "Ready")
        seconds = time.monotonic() - launched
        assert loads == [], "it became ready without a reload"
        steps = page.locator("#workspace-live .g-fall__step")
        assert steps.count() >= STEPS_AT_LEAST
        assert {steps.nth(n).get_attribute("data-state") for n in range(steps.count())} == {"done"}
        during = alice.used()
        assert during["gpu:h100-sxm-80gb"][0] == before["gpu:h100-sxm-80gb"][0] + 2
        deleted(page)
        badge(page, "Deleted")
        assert alice.used() == before
        kept = alice.request("h100-sxm-80gb.1", 1, name="kept")
        alice.in_state(kept["id"], "ready")
        assert alice.used()["gpu:h100-sxm-80gb"][0] == before["gpu:h100-sxm-80gb"][0] + 1
        log.info("from launch to ready in the browser: %.1f s", seconds)
    finally:
        portal.stop()
    came_back(folder, kept["id"], portal.seconds_to_answer)


def deleted(page: Page) -> None:
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.locator("#delete")
    submit = dialog.get_by_role("button", name="Delete workspace")
    dialog.get_by_role("textbox").fill("first")
    expect(submit).to_be_disabled()
    dialog.get_by_role("textbox").fill("first-try")
    submit.click()


def came_back(folder: Path, kept: str, first_seconds: float) -> None:
    """Everything is gone but the data, and a second start has them, sooner than the first had any."""
    assert wait_until("all processes to end", lambda: not Portal.left_of(folder), seconds=20)
    again = Portal.start(folder)
    try:
        client = Client(again, "alice")
        states = {row["name"]: row["state"] for row in client.get(HOME)["results"]}
        assert states == {"first-try": "deleted", "kept": "ready", "notebooks": "ready"}
        assert client.get(f"{HOME}/{kept}")["state"] == "ready"
        assert again.seconds_to_answer < first_seconds
        log.info("second start: %.1f s", again.seconds_to_answer)
        killed_comes_back(again, Tenant(client, folder.parent))
        services_come_back(again, Tenant(client, folder.parent))
    finally:
        again.stop()


def killed_comes_back(portal: Portal, alice: Tenant) -> None:
    """kill -9 of everything that a worker is, with an order under way: it is made all the same, and nobody starts anything."""
    workers = portal.processes("manage.py worker")
    assert workers
    wanted = alice.request("h100-sxm-80gb.1", 1, name="under-kill")
    for each in workers:
        with suppress(ProcessLookupError):  # a child may go with its parent
            os.kill(each, signal.SIGKILL)
    alice.in_state(wanted["id"], "ready")
    assert portal.process.poll() is None
    assert set(portal.processes("manage.py worker")).isdisjoint(workers)


def services_come_back(portal: Portal, alice: Tenant) -> None:
    """kill -9 of Redis, then of PostgreSQL, each with an order under way: the servers come back at their addresses."""
    for name, file in {"after-redis": "redis/redis.pid", "after-postgres": "postgres/postmaster.pid"}.items():
        wanted = alice.request("h100-sxm-80gb.1", 1, name=name)
        killed = int((portal.folder / file).read_text().split()[0])
        os.kill(killed, signal.SIGKILL)
        wait_until(f"a server in place of {killed}", partial(is_another, portal.folder / file, killed))
        wait_until("the portal", portal.answers)
        alice.in_state(wanted["id"], "ready")
        assert portal.process.poll() is None


def is_another(file: Path, killed: int) -> bool:
    """Its pid, once it is written."""
    found = file.read_text().split()[:1] if file.exists() else []
    return bool(found) and int(found[0]) != killed
