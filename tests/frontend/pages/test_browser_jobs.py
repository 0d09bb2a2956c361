"""Jobs in a browser: the turn of one that waits is changed, and a form that is not complete yet is filled in step by step."""

import re

import pytest
from playwright.sync_api import Browser, expect

from gpuaas.catalog.models import Site
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.frontend.pages.browsing import NEEDED, SIZES, context_for, looked_at, opened
from tests.frontend.pages.server import served
from tests.jobs.stage import running, submitted, workspace_ready

pytestmark = NEEDED


@pytest.fixture
def room(as_alice: Actor, limited: Project, site: Site) -> Workspace:
    return workspace_ready(as_alice, limited, site)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_its_turn_is_changed(
    chromium: Browser, alice: User, as_alice: Actor, room: Workspace, theme: str
) -> None:
    running(as_alice, room, gpus=4, deadline_seconds=3600)
    submitted(as_alice, room, "first", gpus=4, deadline_seconds=3600)
    row = submitted(as_alice, room, "second", gpus=1)
    with served() as address:
        page, complaints = opened(context_for(chromium, address, alice, theme=theme))
        page.goto(f"{address}/p/weather-lm/jobs/{row.pk}/")
        notice = page.locator(".g-notice").filter(has_text="in the queue")
        expect(notice).to_contain_text("Number 2")
        expect(notice).to_contain_text("at the latest, if nothing comes before it")
        page.get_by_role("button", name="Priority").click()
        dialog = page.locator("#priority")
        expect(dialog).to_contain_text("leave the queue")
        for size in SIZES:
            page.set_viewport_size(SIZES[size])
            looked_at(page, size, picture=f"priority-{theme}")
        dialog.get_by_label("Priority").select_option("high")
        dialog.get_by_role("button", name="Set priority").click()
        expect(page.locator(".toast")).to_contain_text("The priority of second is high.")
        expect(notice).to_contain_text("Number 1")
        for size in SIZES:
            page.set_viewport_size(SIZES[size])
            looked_at(page, size, picture=f"job-queued-{theme}")
    assert complaints == []


def test_rows_and_a_template_are_had_of_a_form_that_is_not_complete(
    chromium: Browser, alice: User, room: Workspace
) -> None:
    with served() as address:
        page, complaints = opened(context_for(chromium, address, alice))
        page.goto(f"{address}/p/weather-lm/jobs/new/")
        page.get_by_label("Image").fill("ghcr.io/lab/train:3")
        submit = page.get_by_role("button", name="Submit job")
        submit.scroll_into_view_if_needed()
        expect(page.locator("#why")).to_contain_text("Enter")
        expect(submit).to_be_disabled()
        addresses = page.locator("[name^=inputs_][name$=_url]")
        expect(addresses).to_have_count(2)
        page.get_by_role("button", name="More rows for files").click(timeout=5_000)
        expect(addresses).to_have_count(4)
        expect(page.get_by_label("Image")).to_have_value("ghcr.io/lab/train:3")
        submit.scroll_into_view_if_needed()
        expect(submit).to_be_disabled()
        page.get_by_role("button", name="Save as template").click(timeout=5_000)
        expect(page).to_have_url(re.compile("/jobs/templates/new/"))
        expect(page.locator("[name=image]")).to_have_value("ghcr.io/lab/train:3")
    assert complaints == []
