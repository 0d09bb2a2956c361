"""The real database is taken away from the real server while somebody works, and comes back."""

import os
import signal
from collections.abc import Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.away import PORTAL, away_from_portal
from tests.frontend.pages.browsing import NEEDED, context_for
from tests.frontend.pages.scene import busy
from tests.web.process import web_process

pytestmark = NEEDED
SAYS = "The portal cannot reach its database"


@pytest.fixture
def address(workspace: Workspace) -> Iterator[str]:
    busy(workspace)
    with web_process(PGAPPNAME=PORTAL) as web:
        yield web.url


def saved_zone(alice: User) -> str:
    alice.refresh_from_db()
    return alice.time_zone


def test_with_scripts_everything_stays(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    context = context_for(chromium, address, alice)
    live, form = context.new_page(), context.new_page()
    live.goto(address + reverse("frontend:workspace", args=["weather-lm", workspace.pk]))
    expect(live.locator("#workspace-live")).to_contain_text("finetune-0")
    form.goto(address + reverse("frontend:account"))
    form.get_by_label("Time zone").fill("Asia/Tokyo")
    with away_from_portal():
        live.bring_to_front()
        live.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(live.locator("[data-outage]")).to_contain_text(SAYS)
        expect(live.locator("#workspace-live")).to_contain_text("finetune-0")
        # what is still on its way when the database comes back is saved, rightly
        with form.expect_response(lambda answer: answer.status == 503):
            form.get_by_role("button", name="Save").click()
        expect(form.locator("[data-outage]")).to_contain_text(SAYS)
        expect(form.get_by_label("Time zone")).to_have_value("Asia/Tokyo")
    for page in (live, form):
        expect(page.locator("[data-outage]")).to_have_count(0, timeout=20_000)
    expect(live.locator("#workspace-live")).to_contain_text("finetune-0")
    assert saved_zone(alice) == "Europe/Berlin"
    form.get_by_role("button", name="Save").click()
    expect(form.locator("#toasts .toast")).to_have_attribute("data-tone", "ok")
    assert saved_zone(alice) == "Asia/Tokyo"


def without_scripts(chromium: Browser, address: str, user: User) -> Page:
    (cookie,) = context_for(chromium, address, user).cookies()
    context = chromium.new_context(java_script_enabled=False)
    context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": address}])
    return context.new_page()


def test_without_scripts_it_is_sent_again(chromium: Browser, address: str, alice: User) -> None:
    page = without_scripts(chromium, address, alice)
    here = address + reverse("frontend:account")
    page.goto(here)
    page.get_by_label("Time zone").fill("Asia/Tokyo")
    with away_from_portal():
        page.get_by_role("button", name="Save").click()
        expect(page.locator("h1")).to_have_text(SAYS)
        page.get_by_role("button", name="Send again").click()
        expect(page.locator("h1")).to_have_text(SAYS)
    page.get_by_role("button", name="Send again").click()
    expect(page.locator("h1")).to_have_text("Account")
    assert saved_zone(alice) == "Asia/Tokyo"


def test_what_was_typed_outlives_the_web_process(
    chromium: Browser, workspace: Workspace, alice: User
) -> None:
    with web_process() as web:
        page = context_for(chromium, web.url, alice).new_page()
        page.goto(web.url + reverse("frontend:account"))
        page.get_by_label("Time zone").fill("Asia/Tokyo")
        os.killpg(web.pid, signal.SIGKILL)
        page.get_by_role("button", name="Save").click()
        expect(page.locator("[data-outage]")).to_contain_text("The portal does not answer")
        expect(page.get_by_label("Time zone")).to_have_value("Asia/Tokyo")


def test_a_request_that_is_answered_while_typed_stays_too(
    chromium: Browser, workspace: Workspace, alice: User
) -> None:
    with web_process() as web:
        page = context_for(chromium, web.url, alice).new_page()
        page.goto(web.url + reverse("frontend:workspace_new", args=[workspace.project.slug]))
        page.get_by_label("Name", exact=True).fill("typed")
        os.killpg(web.pid, signal.SIGKILL)
        page.locator("form[hx-post]:has([name=name])").evaluate("form => form.requestSubmit()")
        expect(page.locator("[data-outage]")).to_contain_text("The portal does not answer")
        expect(page.get_by_label("Name", exact=True)).to_have_value("typed")


def test_a_page_that_is_asked_for_comes_by_itself(chromium: Browser, address: str, alice: User) -> None:
    page = context_for(chromium, address, alice).new_page()
    with away_from_portal():
        said = page.goto(address + reverse("frontend:account"))
        assert said is not None
        assert said.status == 503
        expect(page.locator("h1")).to_have_text(SAYS)
    expect(page.locator("h1")).to_have_text("Account", timeout=20_000)
