"""A browser goes through the whole console: every link once for each kind of address, every dialog, four widths, both themes."""

import time
from collections.abc import Iterator

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.browsing import NEEDED, PASSWORD, context_for, opened
from tests.frontend.pages.crawling import OPERATORS, TENANTS, Crawl
from tests.frontend.pages.crawling_unscripted import UnscriptedCrawl
from tests.frontend.pages.server import served
from tests.frontend.pages.test_browser_forms import unscripted
from tests.jobs.stage import template_in

pytestmark = NEEDED


@pytest.fixture
def address(everything: Workspace) -> Iterator[str]:
    with served() as url:
        yield url


def further(workspace: Workspace) -> dict[str, str]:
    """Pages that only some rows link to, of which the crawler need not open the right one: by the name of their address."""
    slug = workspace.project.slug
    machines = Machine.objects.values_list("workspace", flat=True)
    template = template_in(workspace)
    rows = {
        "machine_new": machines[0],
        "job_template": template.pk,
        "job_template_edit": template.pk,
    }
    return {f"frontend:{name}": reverse(f"frontend:{name}", args=[slug, row]) for name, row in rows.items()}


@pytest.mark.parametrize(
    ("reader", "start", "inside", "axe", "pages", "dialogs"),
    [
        ("alice", "/p/weather-lm/", TENANTS, True, 60, 28),
        ("bob", "/p/weather-lm/", TENANTS, False, 35, 7),
        ("olga", "/operator/", OPERATORS, True, 60, 24),
        ("olga", "/p/weather-lm/", TENANTS, False, 60, 13),
    ],
    ids=["alice", "bob", "olga", "olga-visits"],
)
def test_nothing_is_a_dead_end(
    reader: str,
    start: str,
    inside: tuple[str, ...],
    axe: bool,
    pages: int,
    dialogs: int,
    chromium: Browser,
    address: str,
    people: dict[str, User],
    workspace: Workspace,
) -> None:
    page, complaints = opened(context_for(chromium, address, people[reader]))
    crawl = Crawl(page, address, complaints, inside, axe)
    more = further(workspace) if reader == "alice" else {}
    crawl.through(start, "/account/", *more.values())
    page.goto(address + start)
    crawl.open_frame()
    assert crawl.found == []
    assert more.keys() <= set(crawl.names)
    assert len(crawl.names) >= pages, sorted(crawl.names)
    assert crawl.dialogs >= dialogs


@pytest.mark.parametrize(
    ("reader", "start", "inside", "pages", "dialogs"),
    [("alice", "/p/weather-lm/", TENANTS, 60, 28), ("olga", "/operator/", OPERATORS, 60, 24)],
    ids=["alice", "olga"],
)
def test_without_scripts_nothing_is_a_dead_end(
    reader: str,
    start: str,
    inside: tuple[str, ...],
    pages: int,
    dialogs: int,
    chromium: Browser,
    address: str,
    people: dict[str, User],
    workspace: Workspace,
) -> None:
    crawl = UnscriptedCrawl(unscripted(chromium, address, people[reader]), address, [], inside, axe=False)
    crawl.through(start, "/account/", *(further(workspace).values() if reader == "alice" else ()))
    assert crawl.found == []
    assert len(crawl.names) >= pages, sorted(crawl.names)
    assert crawl.dialogs >= dialogs


def test_the_password_and_the_second_factor_are_no_dead_ends(
    chromium: Browser, address: str, alice: User
) -> None:
    """Before there is a second factor, and with one. Some of these pages are open only to who has just typed the password."""
    page, complaints = opened(context_for(chromium, address, alice))
    found: list[str] = []

    def crawled(*names: str) -> set[str]:
        crawl = Crawl(page, address, complaints, ("/accounts/",), axe=True)
        crawl.through(*map(reverse, names))
        found.extend(crawl.found)
        return set(crawl.names)

    assert "account_reauthenticate" in crawled("account_change_password", "mfa_index")
    page.goto(address + reverse("mfa_activate_totp"))
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator("[name=code]")).to_be_visible()
    assert "mfa_activate_totp" in crawled("mfa_activate_totp")
    activate(page, address)
    wanted = {"mfa_deactivate_totp", "mfa_view_recovery_codes", "mfa_generate_recovery_codes"}
    assert wanted <= crawled("mfa_index", "mfa_reauthenticate")
    assert found == []


def activate(page: Page, address: str) -> None:
    """An authenticator app, with the code that it would show now."""
    page.goto(address + reverse("mfa_activate_totp"))
    secret = page.locator("#authenticator_secret").input_value()
    page.locator("[name=code]").fill(format_hotp_value(hotp_value(secret, int(time.time()) // 30)))
    page.get_by_role("button", name="Activate").click()
    expect(page.get_by_role("heading", name="Recovery Codes")).to_be_visible()


BROKEN = """<html lang="en"><title>broken</title><dialog id="one" aria-label="one">
<p style="width: 600px; color: #ddd; background: white">pale and wide</p><input><button disabled>never</button></dialog>"""


def test_what_is_found_in_a_dialog(chromium: Browser) -> None:
    page, complaints = opened(chromium.new_context())
    page.set_content(BROKEN)
    page.evaluate("document.getElementById('one').showModal()")
    crawl = Crawl(page, "", complaints, (), axe=True)
    crawl.look_into("/", "one")
    found = " ".join(crawl.found)
    for what in (
        "#one is too wide at 390: <p",
        "in light at 390: label",
        "in light at 390: color-contrast",
        "in dark at 390: color-contrast",
        "#one does not say why: <button",
    ):
        assert what in found, what
