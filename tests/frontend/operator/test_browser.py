"""The operators' pages in a real browser: both themes and a phone, axe, no refusal by the CSP, and the matrix by keys.

GPUAAS_PICTURES names a folder for pictures of the pages.
"""

import os
import re
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.test import Client
from playwright.sync_api import Browser, Page, ViewportSize, expect

from billing.models import Rate, RateCardVersion
from billing.months import month_of, month_previous, month_span
from billing.services import rate_draft_open
from frontend import vite
from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.core import clock
from gpuaas.workspaces.models import Adoption
from quotas.models import Limit
from tenants.actors import SYSTEM
from tenants.models import User
from tests.billing.stage import interval_make, workspace_make
from tests.factories.tenants import ProjectFactory
from tests.frontend.operator.stage import stage

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PREVIEW = re.compile("preview=1")
SIZES: dict[str, ViewportSize] = {
    "desk": {"width": 1440, "height": 900},
    "phone": {"width": 390, "height": 844},
}
PAGES = {
    "overview": "",
    "capacity": "capacity/",
    "sites": "sites/",
    "site-new": "sites/new/",
    "site": "sites/at/ber-2/",
    "site-in-trouble": "sites/at/ber-1/",
    "nodes": "sites/at/ber-1/nodes/",
    "node": "sites/at/ber-1/nodes/h100-10/",
    "drift": "sites/at/ber-1/drift/",
    "metering": "sites/at/ber-1/metering/",
    "adoption": "sites/at/ber-1/adoption/",
    "adoption-new": "sites/at/ber-1/adoption/of/old-lab/",
    "flavor-new": "flavors/new/{pool}/",
    "plan": "sites/at/ber-1/adoption/plans/{plan}/",
    "flavors": "flavors/",
    "gpu-types": "gpu-types/",
    "limits": "limits/",
    "workspaces": "workspaces/",
    "organizations": "organizations/",
    "organization": "organizations/climate-physics/",
    "people": "people/",
    "usage": "usage/",
    "rates": "rates/prices/",
    "rate-cards": "rates/",
    "rate-card": "rates/at/standard/",
    "rate-draft": "rates/drafts/{draft}/?line={line}",
    "billing": "organizations/climate-physics/billing/",
    "audit": "audit/",
    "system": "system/",
}
PICTURES = os.environ.get("GPUAAS_PICTURES", "")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(not vite.MANIFEST.exists(), reason="the front end is not built"),
]


@pytest.fixture
def portal(chromium: Browser, live_server: Any, settings: Any, olga: User) -> Iterator[tuple[str, str]]:
    """The address and olga's session; at the end no page of it is open any more."""
    settings.WHITENOISE_AUTOREFRESH = True
    stage(olga)
    client = Client()
    client.force_login(olga)
    yield f"{live_server.url}/operator/", client.cookies["sessionid"].value
    for context in chromium.contexts:
        context.close()


def opened(
    chromium: Browser, portal: tuple[str, str], size: str = "desk", theme: str = "light"
) -> tuple[Page, list[str]]:
    """A page and what it complained about. Nobody answers the socket here; that it is asked is not tested here."""
    scheme: Any = theme
    page = chromium.new_page(viewport=SIZES[size], color_scheme=scheme, is_mobile=size == "phone")
    page.context.add_cookies([{"name": "sessionid", "value": portal[1], "url": portal[0]}])
    page.route_web_socket("**/ws/live/**", lambda socket: None)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page, complaints


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"operator-{name}.png"), full_page=True)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
def test_every_page_is_sound(chromium: Browser, portal: tuple[str, str], size: str, theme: str) -> None:
    page, complaints = opened(chromium, portal, size, theme)
    found: list[str] = []
    pool = GpuPool.objects.get(site__slug="ber-1").pk
    plan = Adoption.objects.get().pk
    draft = rate_draft_open(actor=SYSTEM)
    line = draft.lines.order_by("pk")[0].pk
    for name, path in PAGES.items():
        named = path.format(pool=pool, plan=plan, draft=draft.pk, line=line)
        page.goto(f"{portal[0]}{named}", wait_until="load")
        expect(page.locator("main .g-skeleton")).to_have_count(0)
        violations = Axe().run(page).response["violations"]
        found += [
            f"{name}: {v['id']} {v['nodes'][0]['html'][:120]}"
            for v in violations
            if v["impact"] in {"serious", "critical"}
        ]
        if not page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]:
            found.append(f"{name} scrolls sideways")
        picture(page, f"{name}-{theme}-{size}")
    page.close()
    assert found + complaints == []


def test_a_limit_is_changed_by_keys_alone(chromium: Browser, portal: tuple[str, str]) -> None:
    page, complaints = opened(chromium, portal)
    page.goto(f"{portal[0]}limits/", wait_until="load")
    row = page.locator("#limit-project-weather-lm")
    row.locator("[data-cell]").nth(2).focus()
    page.keyboard.press("ArrowLeft")
    expect(row.locator("[data-cell]").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    field = row.locator("[data-limit-input]")
    expect(field).to_be_focused()
    expect(field).to_have_value("8")
    page.keyboard.type("12")
    effect = page.locator("#limit-effect")
    expect(effect).to_contain_text("8 → 12")
    expect(effect).to_contain_text("€9.60 per hour")
    expect(field).to_be_focused()
    picture(page, "limits-edit-light-desk")
    page.keyboard.press("Enter")
    expect(row).to_contain_text("6 of 12")
    expect(page.locator("#toasts .toast")).to_contain_text("weather-lm may hold 12")
    expect(row.locator("[data-cell]").nth(1)).to_be_focused()
    assert Limit.objects.get(project__slug="weather-lm", resource="gpu:h100-sxm-80gb").hard == 12
    assert complaints == []


def test_what_is_typed_into_a_cell_takes_the_place_of_the_old_limit(
    chromium: Browser, portal: tuple[str, str]
) -> None:
    """Opened by a click: 4 typed over 0 is 4, and a pause between two digits loses neither."""
    limit = Limit.objects.filter(project__slug="weather-lm", resource="gpu:h100-sxm-80gb")
    limit.update(hard=0, used=0)
    page, complaints = opened(chromium, portal)
    page.goto(f"{portal[0]}limits/", wait_until="load")
    row = page.locator("#limit-project-weather-lm")
    row.locator("[data-cell]").nth(1).click()
    field = row.locator("[data-limit-input]")
    expect(field).to_have_value("0")
    assert field.evaluate("input => input.selectionEnd - input.selectionStart") == 1
    page.keyboard.type("4")
    expect(page.locator("#limit-effect")).to_contain_text("0 → 4")
    page.keyboard.type("2")
    expect(page.locator("#limit-effect")).to_contain_text("0 → 42")
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts .toast")).to_contain_text("weather-lm may hold 4")
    assert limit.get().hard == 4
    assert complaints == []


def test_a_price_in_a_draft_is_typed_over_and_taken_back_by_escape(
    chromium: Browser, portal: tuple[str, str]
) -> None:
    draft = rate_draft_open(actor=SYSTEM)
    line = draft.lines.get(flavor__slug="h100.ber-1.1")
    page, complaints = opened(chromium, portal)
    with page.expect_response(PREVIEW):  # a later one would cut it off
        page.goto(f"{portal[0]}rates/drafts/{draft.pk}/", wait_until="load")
    field = page.locator(f"#price-{line.pk}")
    field.click()
    page.keyboard.type("9")
    expect(field).to_have_value("9")
    page.keyboard.press("Escape")
    expect(field).to_have_value("2.40")
    page.keyboard.type("3")
    with page.expect_response(PREVIEW):
        page.keyboard.press("Enter")
    expect(page.locator("#toasts .toast")).to_contain_text("h100.ber-1.1: 3.00 EUR")
    expect(field).to_be_focused()
    line.refresh_from_db()
    assert str(line.price) == "3.00"
    assert complaints == []


def test_escape_changes_nothing_and_nonsense_is_refused_beside_the_cell(
    chromium: Browser, portal: tuple[str, str]
) -> None:
    page, complaints = opened(chromium, portal)
    page.goto(f"{portal[0]}limits/", wait_until="load")
    row = page.locator("#limit-project-weather-lm")
    row.locator("[data-cell]").nth(1).click()
    row.locator("[data-limit-input]").fill("lots")
    page.keyboard.press("Enter")
    expect(page.locator("#limit-effect .invalid-feedback")).to_contain_text("whole number")
    expect(row.locator("[data-limit-input]")).to_have_attribute("aria-invalid", "true")
    page.keyboard.press("Escape")
    expect(page.locator("#limit-effect")).to_have_count(0)
    expect(row).to_contain_text("6 of 8")
    assert Limit.objects.get(project__slug="weather-lm", resource="gpu:h100-sxm-80gb").hard == 8
    # The browser itself notes every answer of 4xx; nothing else may stand there.
    assert [text for text in complaints if "422" not in text] == []


def test_somebody_else_was_faster(chromium: Browser, portal: tuple[str, str]) -> None:
    page, _ = opened(chromium, portal)
    page.goto(f"{portal[0]}limits/", wait_until="load")
    row = page.locator("#limit-project-weather-lm")
    row.locator("[data-cell]").nth(1).click()
    row.locator("[data-limit-input]").fill("12")
    limit = Limit.objects.filter(project__slug="weather-lm", resource="gpu:h100-sxm-80gb")
    limit.update(hard=10, version=7)
    page.keyboard.press("Enter")
    expect(page.locator("#limit-effect .invalid-feedback")).to_contain_text("changed to 10")
    assert limit.get().hard == 10
    page.keyboard.press("Enter")
    expect(row).to_contain_text("6 of 12")
    assert limit.get().hard == 12


def used_last_month(user: User) -> Flavor:
    """10 h of an H100 at 2.40, in a project `preview-lab`."""
    flavor = Flavor.objects.get(slug="h100.ber-1.1")
    start = month_span(month_previous(month_of(clock.now()))).starts_at + timedelta(days=3)
    Rate.objects.filter(flavor=flavor).update(valid_from=start - timedelta(days=60))
    lab = ProjectFactory.create(slug="preview-lab")
    interval_make(workspace_make(lab, flavor, user), flavor, start, start + timedelta(hours=10))
    return flavor


def publish_not_in_the_past(page: Page) -> None:
    dialog = page.locator("#publish")
    begins = dialog.get_by_label("From")
    proposed = begins.input_value()
    begins.fill("2020-01-01T00:00")
    problem = dialog.locator("#publish_valid_from-help.invalid-feedback")
    expect(problem).to_contain_text("choose a start now or later")
    expect(begins).to_have_attribute("aria-invalid", "true")
    expect(dialog.get_by_role("button", name="Publish")).to_be_disabled()
    assert RateCardVersion.objects.count() == 1
    begins.fill(proposed)
    dialog.get_by_role("button", name="Publish").click()


def test_a_draft_is_made_looked_at_and_published(
    chromium: Browser, portal: tuple[str, str], olga: User
) -> None:
    """10 h of last month at 2.40 would have been 6.00 more at 3.00; backdated it is refused, next month it begins."""
    flavor = used_last_month(olga)
    page, complaints = opened(chromium, portal)
    page.goto(f"{portal[0]}rates/", wait_until="load")
    page.get_by_role("link", name="Standard").first.click()
    with page.expect_response(PREVIEW):
        page.get_by_role("button", name="Start draft").click()
    field = page.get_by_label(f"Price of {flavor.slug}, GPU held, in EUR")
    row = page.locator("tbody", has=field)
    expect(row).to_contain_text("stays")
    field.fill("-3")
    field.press("Tab")
    expect(row.locator(".invalid-feedback")).to_contain_text("A price must be between")
    field.fill("3")
    field.press("Tab")
    expect(row).to_contain_text("changes")
    expect(field).to_have_value("3.00")
    shown = page.locator("#preview tbody", has_text="preview-lab")
    expect(shown.locator("tr").last).to_contain_text("€24.00")
    expect(shown.locator("tr").last).to_contain_text("+€6.00")
    page.get_by_role("button", name="Publish").first.click()
    publish_not_in_the_past(page)
    expect(page.locator("main")).to_contain_text("Version 2, announced")
    found = Rate.objects.filter(flavor=flavor).order_by("valid_from")
    assert [str(rate.price) for rate in found] == ["2.40", "3.00"]
    assert found[1].valid_from > clock.now()
    assert [text for text in complaints if "422" not in text] == []


def test_a_date_that_is_typed_is_when_a_draft_starts(
    chromium: Browser, portal: tuple[str, str], olga: User
) -> None:
    used_last_month(olga)
    page, complaints = opened(chromium, portal)
    page.goto(f"{portal[0]}rates/", wait_until="load")
    page.get_by_role("link", name="Standard").first.click()
    page.get_by_role("button", name="Start draft").click()
    page.get_by_role("button", name="Publish").first.click()
    dialog = page.locator("#publish")
    begins = dialog.get_by_label("From")
    dialog.get_by_label("Now", exact=True).check()
    expect(begins).to_have_value("")
    begins.fill("2031-01-01T00:00")
    expect(dialog.get_by_label("At a date and time")).to_be_checked()
    assert complaints == []


def test_what_a_dialog_lacks_disables_its_button(chromium: Browser, portal: tuple[str, str]) -> None:
    """A name that is emptied, and credentials that cannot be any; a file that is chosen is judged when it is sent."""
    page, complaints = opened(chromium, portal)
    page.goto(f"{portal[0]}sites/at/ber-2/")
    page.get_by_role("button", name="Rename").click()
    save = page.get_by_role("button", name="Save name")
    expect(save).to_be_enabled()
    page.locator("#rename [name=name]").fill("")
    expect(page.locator("#why-rename")).to_have_text("Name: Enter a name.")
    expect(save).to_be_disabled()
    page.locator("#rename").get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="New credentials").click()
    replace = page.get_by_role("button", name="Replace credentials")
    expect(replace).to_be_disabled()
    expect(page.locator("#why-rotate")).to_contain_text("Paste the new")
    page.locator("#rotate textarea").first.fill("nonsense")
    expect(page.locator("#rotate .invalid-feedback")).to_be_visible()
    expect(replace).to_be_disabled()
    page.locator("#rotate textarea").first.fill("")
    page.locator("#rotate [type=file]").set_input_files(
        {"name": "config", "mimeType": "text/plain", "buffer": b"nonsense"}
    )
    expect(replace).to_be_enabled()
    replace.click()
    expect(page.locator("#rotate .invalid-feedback")).to_be_visible()
    assert complaints == [
        "Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)"
    ]
