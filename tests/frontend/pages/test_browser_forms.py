"""Forms in a real browser: what is typed is answered beside its field, nothing is pressed in vain, and paper is A4."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from billing.months import month_of, month_span
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.billing.stage import interval_make
from tests.frontend.pages.browsing import NEEDED, SIZES, context_for, looked_at, opened
from tests.frontend.pages.scene import busy
from tests.frontend.pages.server import served

pytestmark = NEEDED
A4 = {"width": 673, "height": 1000}  # 210 mm less two margins of 16 mm, at 96 dots per inch


@pytest.fixture
def address(workspace: Workspace) -> Iterator[str]:
    busy(workspace)
    with served() as url:
        yield url


def new_request(page: Page, address: str) -> None:
    page.goto(f"{address}/p/weather-lm/workspaces/new/?flavor=h100.1")


def test_a_filter_of_flavors_is_answered_beside_what_is_typed(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    """The form asks again a quarter of a second after the filter has asked, which may take longer."""
    pool = workspace.flavors.get().flavor.pool
    page, complaints = opened(context_for(chromium, address, alice))
    new_request(page, address)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/flavors/*", hold)
    with page.expect_response("**/answer/"):
        page.locator("select[name=memory_gib_min]").select_option(str(pool.gpu_type.memory_gib))
    (asked,) = held
    asked.continue_()
    rows = page.locator("#flavors tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.locator("input[name=flavor]")).to_be_checked()
    page.unroute("**/flavors/*")
    page.locator("select[name=memory_gib_min]").select_option("")
    expect(rows).to_have_count(2)
    page.locator("input[value='l40s.1']").check()
    page.locator("select[name=memory_gib_min]").select_option(str(pool.gpu_type.memory_gib))
    expect(page.locator("#flavors")).to_contain_text("1 of 2 flavors match; the one you chose stays listed.")
    expect(page.locator("input[value='l40s.1']")).to_be_checked()
    looked_at(page, "desk", picture="request-filtered")
    assert complaints == []


def test_a_request_is_answered_field_by_field(chromium: Browser, address: str, alice: User) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    new_request(page, address)
    create = page.get_by_role("button", name="Create workspace")
    expect(page.locator("#answer")).to_contain_text("Available now")
    expect(create).to_be_disabled()
    page.locator("input[name=name]").fill("second")
    expect(create).to_be_enabled()

    day = page.locator("input[name=lease_ends_at]")
    day.fill("2020-01-01T00:00")
    expect(page.locator("input[name=lease][value=date]")).to_be_checked()
    expect(page.locator("#id_lease_ends_at-help")).to_contain_text("A lease must end in the future")
    expect(day).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#answer")).not_to_contain_text("Available now")
    expect(create).to_be_disabled()
    page.locator("input[name=lease][value='1']").check()
    expect(day).to_have_value("")
    expect(page.locator("#answer")).to_contain_text("Available now")
    expect(day).not_to_have_attribute("aria-invalid", "true")
    page.locator("input[name=lease][value=date]").check()
    expect(day).to_have_value("2020-01-01T00:00")
    day.fill(f"{clock.now() + timedelta(days=3):%Y-%m-%dT%H:%M}")
    expect(create).to_be_enabled()

    members = page.locator("input[name=members]")
    members.fill("nobody-here")
    expect(page.locator("#id_members-help")).to_contain_text("User nobody-here is not a member")
    expect(members).to_have_attribute("aria-invalid", "true")
    expect(create).to_be_disabled()
    members.fill("")
    expect(page.locator("#id_members-help")).to_contain_text("User names from this project")
    expect(create).to_be_enabled()
    looked_at(page, "desk", picture="request-typed")
    create.click()
    expect(page.locator("h1")).to_have_text("second")
    assert complaints == []


def unscripted(chromium: Browser, address: str, user: User, size: str = "desk") -> Page:
    cookies = context_for(chromium, address, user).cookies()
    context = chromium.new_context(java_script_enabled=False, viewport=SIZES[size])
    context.add_cookies([{"name": one["name"], "value": one["value"], "url": address} for one in cookies])
    return context.new_page()


def test_without_scripts_a_dialog_opens_and_its_form_is_sent(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    page = unscripted(chromium, address, alice)
    page.goto(f"{address}/p/weather-lm/workspaces/{workspace.pk}/")
    dialog = page.locator("#suspend")
    expect(dialog).not_to_be_visible()
    page.get_by_role("button", name="Suspend").first.click()
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("The effect on limits and price is worked out by a script")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).not_to_be_visible()
    page.get_by_role("button", name="Suspend").first.click()
    dialog.get_by_label("Reason").fill("over the weekend")
    dialog.get_by_role("button", name="Suspend workspace").click()
    expect(page.locator("#toasts")).to_contain_text("suspend", ignore_case=True)
    workspace.refresh_from_db()
    assert workspace.state == "suspending"

    Workspace.objects.filter(pk=workspace.pk).update(state="ready")
    page.goto(f"{address}/p/weather-lm/workspaces/{workspace.pk}/")
    page.get_by_role("button", name="Extend").first.click()
    page.locator("#extend #id_until").fill("2020-01-01T00:00")
    page.locator("#extend").get_by_role("button", name="Extend lease").click()
    expect(page.locator("#extend .invalid-feedback")).to_be_visible()
    page.locator("#extend").get_by_role("button", name="Cancel").click()
    expect(page.locator("#extend")).not_to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator("#delete-name").fill(workspace.name)
    page.get_by_role("button", name="Delete workspace").click()
    expect(page.locator("#toasts")).to_contain_text("delet", ignore_case=True)
    workspace.refresh_from_db()
    assert workspace.state == "deleting"


def test_without_scripts_a_token_is_made_and_revoked_and_one_signs_out(
    chromium: Browser, address: str, alice: User, project: Project, workspace: Workspace
) -> None:
    now = clock.now()
    interval_make(workspace, workspace.flavors.get().flavor, now - timedelta(hours=2), now)
    page = unscripted(chromium, address, alice, "phone")
    page.goto(f"{address}/p/weather-lm/tokens/")
    expect(page.get_by_role("button", name="Switch theme")).to_have_count(0)
    page.get_by_label("Name", exact=True).fill("ci")
    page.locator("input[name=scopes]").first.check()
    page.locator("main form").get_by_role("button", name="Create token").click()
    expect(page.locator("main")).to_contain_text("gpa_")
    page.goto(f"{address}/p/weather-lm/tokens/")
    page.get_by_role("button", name="Revoke").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    assert project.tokens.get().revoked_at
    expect(page.get_by_role("link", name="Usage")).not_to_be_visible()
    page.get_by_role("button", name="Menu", exact=True).click()
    page.get_by_role("link", name="Usage").click()
    page.get_by_role("link", name="By day").click()
    expect(page.locator("[data-chart-part=table]").first).to_be_visible()
    expect(page.locator("[data-chart-canvas]").first).not_to_be_visible()
    page.get_by_role("button", name="alice, account menu").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("body")).to_contain_text("Sign in")


def test_a_dialog_that_was_opened_by_its_link_is_taken_over(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    """And a link that opens one is pressed by the space bar, as a button is."""
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/{workspace.pk}/#delete")
    expect(page.locator("#delete:modal")).to_be_visible()
    expect(page.locator("#delete-name")).to_be_focused()
    expect(page.get_by_role("button", name="Delete workspace")).to_be_disabled()
    expect(page).to_have_url(f"{address}/p/weather-lm/workspaces/{workspace.pk}/")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Extend").first.focus()
    page.keyboard.press("Space")
    expect(page.locator("#extend:modal")).to_be_visible()
    page.locator("#extend").get_by_role("button", name="Cancel").click()
    expect(page.locator("#extend")).not_to_be_visible()
    assert complaints == []


def test_without_scripts_the_form_is_sent_and_says_what_is_missing(
    chromium: Browser, address: str, alice: User
) -> None:
    page = unscripted(chromium, address, alice)
    new_request(page, address)
    page.locator("input[name=members]").fill("nobody-here")
    page.get_by_role("button", name="Create workspace").click()
    expect(page.locator("#id_name-help")).to_contain_text("Enter a name.")
    page.locator("input[name=name]").fill("plain")
    page.get_by_role("button", name="Create workspace").click()
    expect(page.locator("#id_members-help")).to_contain_text("User nobody-here is not a member")
    page.locator("input[name=members]").fill("")
    page.get_by_role("button", name="Create workspace").click()
    expect(page.locator("h1")).to_have_text("plain")


def test_a_resize_is_pressed_only_when_it_can_be_had(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/{workspace.pk}/resize/")
    press = page.get_by_role("button", name="Resize")
    count = page.locator('input[name="count-h100.1"]')
    expect(press).to_be_disabled()
    count.fill("9")
    expect(page.locator("#effect")).to_contain_text("may hold at most 8")
    expect(press).to_be_disabled()
    count.fill("8")
    expect(page.locator("#effect")).to_contain_text("Difference")
    expect(press).to_be_enabled()
    looked_at(page, "desk", picture="resize-typed")
    for width in (390, 768, 1190, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        scrolls = "[...document.querySelectorAll('#effect .g-scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
        assert page.evaluate(scrolls) == 0, width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []


def test_a_request_costs_what_its_lease_costs(chromium: Browser, address: str, alice: User) -> None:
    """The column of the month ends with the lease: the price of a whole month is not what one pays for a day."""
    page, complaints = opened(context_for(chromium, address, alice))
    new_request(page, address)
    answer = page.locator("#answer")
    page.locator("input[name=storage_gib]").fill("0")
    month, whole = answer.locator("thead th").last, answer.locator(".g-answer__whole")
    for days, cost in (("1", "€57.60"), ("7", "€403.20")):
        page.locator(f"input[name=lease][value='{days}']").check()
        expect(whole).to_contain_text(f"{24 * int(days)} h")
        expect(whole).to_contain_text(cost)
        now = clock.now()
        end = min(now + timedelta(days=int(days)), month_span(month_of(now)).ends_at)
        expect(month).to_have_text(f"In {month_of(now):%B} ({round((end - now).total_seconds() / 3600)} h)")
        if end - now == timedelta(days=int(days)):
            expect(answer.locator("tfoot td").last).to_have_text(cost)
    assert complaints == []


def test_a_longer_lease_shows_its_price(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/{workspace.pk}/")
    page.get_by_role("button", name="Extend").first.click()
    dialog = page.locator("#extend")
    press = dialog.get_by_role("button", name="Extend")
    expect(press).to_be_disabled()
    dialog.locator("#id_until").fill(f"{workspace.lease_ends_at + timedelta(days=7):%Y-%m-%dT%H:%M}")
    expect(dialog.locator("#extend-effect")).to_contain_text("Added cost")
    expect(press).to_be_enabled()
    looked_at(page, "desk", picture="extend-typed")
    press.click()
    expect(page.locator("#toasts")).to_contain_text("Lease extended")
    assert complaints == []


@pytest.mark.parametrize("name", ["costs/", "costs/intervals/", "usage/"])
def test_lists_of_money_print_whole_under_their_headings(
    chromium: Browser,
    address: str,
    alice: User,
    limited: Project,
    workspace: Workspace,
    h100: Flavor,
    name: str,
) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(name="a-name-of-forty-characters-as-long-as-it")
    interval_make(workspace, h100, clock.now() - timedelta(hours=3), None, quantity=4)
    page, _ = opened(context_for(chromium, address, alice))
    page.set_viewport_size({"width": A4["width"], "height": A4["height"]})
    page.goto(f"{address}/p/{limited.slug}/{name}", wait_until="networkidle")
    page.emulate_media(media="print", color_scheme="light")
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator(".g-head__sub")).to_contain_text(limited.slug)
    for gone in ("button", ".btn", ".nav-tabs", ".g-side"):
        assert not any(each.is_visible() for each in page.locator(gone).all()), gone
    last = page.locator(".g-scroll tbody tr").first.locator("td:visible").last.bounding_box()
    assert last is not None
    assert last["x"] + last["width"] <= A4["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= A4["width"]
    looked_at(page, "desk", picture=f"print-{name.strip('/').replace('/', '-')}")


def test_a_statement_prints_as_a_table_on_a4(
    chromium: Browser, address: str, alice: User, limited: Project, workspace: Workspace, h100: Flavor
) -> None:
    interval_make(workspace, h100, clock.now() - timedelta(hours=3), None, quantity=4)
    page, _ = opened(context_for(chromium, address, alice))
    page.set_viewport_size({"width": A4["width"], "height": A4["height"]})
    page.goto(f"{address}/p/{limited.slug}/statements/{clock.now():%Y-%m}/")
    page.emulate_media(media="print", color_scheme="light")
    expect(page.locator(".g-sheet")).to_be_visible()
    assert (
        page.locator(".g-sheet__head").evaluate(
            "e => getComputedStyle(e).gridTemplateColumns.split(' ').length"
        )
        == 2
    )
    table = page.locator(".g-sheet__lines")
    assert table.evaluate("e => getComputedStyle(e).display") == "table"
    assert table.locator("thead").evaluate("e => getComputedStyle(e).display") == "table-header-group"
    assert page.evaluate("document.documentElement.scrollWidth") <= A4["width"]


def test_a_text_that_is_selected_beyond_the_edge_of_its_dialog_leaves_it_open(
    chromium: Browser, address: str, alice: User
) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/o/climate/")
    page.get_by_role("button", name="New project").click()
    dialog, name = page.locator("#new-project"), page.locator("#new-project [name=slug]")
    name.fill("ocean")
    at, edge = name.bounding_box(), dialog.bounding_box()
    assert at is not None
    assert edge is not None
    page.mouse.move(at["x"] + 60, at["y"] + at["height"] / 2)
    page.mouse.down()
    page.mouse.move(edge["x"] - 40, at["y"] + at["height"] / 2, steps=4)
    page.mouse.up()
    expect(dialog).to_be_visible()
    expect(name).to_have_value("ocean")
    page.mouse.click(edge["x"] - 40, edge["y"] - 40)
    expect(dialog).to_be_hidden()
    assert complaints == []
