"""The console by keyboard alone: every page and dialog with Tab, menus, the drawer of a phone, and each kind of control."""

import re
from collections.abc import Iterable, Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.browsing import NEEDED, context_for, opened
from tests.frontend.pages.crawling import OPERATORS, TENANTS, Crawl
from tests.frontend.pages.keys import menu, opens, skip_link, still, walk
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def all_of_it(everything: Workspace) -> Iterator[str]:
    with served() as url:
        yield url


@pytest.fixture
def address(workspace: Workspace) -> Iterator[str]:
    with served() as url:
        yield url


class ByKeys(Crawl):
    """Instead of being looked at, each page is walked through."""

    def look(self, path: str) -> None:
        still(self.page)
        wrong = walk(self.page)
        if self.page.locator("nav").count():  # there is something to skip
            wrong += skip_link(self.page)
        for opener in self.page.locator("[data-menu-open]:visible").all():
            wrong += menu(self.page, opener)
        self.found += [f"{path}: {what}" for what in wrong]

    def open_dialogs(self, path: str) -> None:
        for name in self.dialogs_of_page():
            opener = self.page.locator(f'[data-dialog="{name}"]:visible').first
            self.found += [f"{path}: {what}" for what in opens(self.page, opener, name)]
            self.dialogs += 1


@pytest.mark.parametrize(
    ("reader", "start", "inside", "pages", "dialogs"),
    [
        ("alice", "/p/weather-lm/", TENANTS, 60, 14),
        ("olga", "/operator/", OPERATORS, 60, 18),
        ("olga", "/p/weather-lm/", TENANTS, 60, 13),
    ],
    ids=["alice", "olga", "olga-visits"],
)
def test_every_page_and_dialog(
    reader: str,
    start: str,
    inside: tuple[str, ...],
    pages: int,
    dialogs: int,
    chromium: Browser,
    all_of_it: str,
    people: dict[str, User],
) -> None:
    page, complaints = opened(desk(chromium, all_of_it, people[reader]))
    crawl = ByKeys(page, all_of_it, complaints, inside, axe=False)
    crawl.through(start, "/account/")
    assert crawl.found == []
    assert len(crawl.names) >= pages, sorted(crawl.names)
    assert crawl.dialogs >= dialogs


def desk(chromium: Browser, address: str, user: User) -> BrowserContext:
    context = context_for(chromium, address, user)
    context.grant_permissions(["clipboard-write"])
    return context


def test_a_page_a_menu_and_a_dialog(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    """Of all that `test_every_page_and_dialog` walks through, this much in every run."""
    page, complaints = opened(desk(chromium, address, alice))
    for path in (reverse("frontend:account"), f"/p/weather-lm/workspaces/{workspace.pk}/"):
        page.goto(address + path)
        expect(page.locator("html[data-assets]")).to_have_count(1)
        still(page)
        assert walk(page) == []
        assert skip_link(page) == []
    assert menu(page, page.locator("[data-menu-open=account]")) == []
    assert opens(page, page.locator("[data-dialog=extend]").first, "extend") == []
    assert complaints == []


def test_the_drawer_of_a_phone(chromium: Browser, address: str, alice: User) -> None:
    """Closed, nothing in it is a stop; open, nothing else is; Escape closes it and gives the focus back."""
    page, complaints = opened(context_for(chromium, address, alice, size="phone"))
    page.goto(f"{address}/p/weather-lm/")
    expect(page.locator("html[data-assets]")).to_have_count(1)
    still(page)
    assert walk(page) == []
    button, side = page.locator("[data-drawer-open]"), page.locator("#side")
    button.focus()
    page.keyboard.press("Enter")
    expect(side).to_be_visible()
    expect(side.locator("a").first).to_be_focused()
    assert walk(page, "#side") == []
    page.keyboard.press("Escape")
    expect(side).not_to_be_visible()
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    page.set_viewport_size({"width": 1280, "height": 900})  # a tablet is turned round
    page.locator("main a").first.focus()
    expect(page.locator("main a").first).to_be_focused()
    assert complaints == []


def test_a_list_is_sorted_and_filtered(chromium: Browser, address: str, alice: User) -> None:
    page, complaints = opened(desk(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/")
    page.get_by_role("link", name="Name", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]sort=-?name"))
    page.locator("main input[type=search]").focus()
    page.keyboard.type("era5-nowhere")
    expect(page.locator("main")).to_contain_text("Nothing matches")
    page.keyboard.press("Tab")
    page.locator("main a", has_text="era5-nowhere").or_(page.locator(".g-empty a")).first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("main tbody")).to_contain_text("era5-finetune")
    assert complaints == []


def test_a_limit_is_changed_in_its_cell(chromium: Browser, address: str, olga: User) -> None:
    page, complaints = opened(desk(chromium, address, olga))
    page.goto(address + reverse("frontend:operator_limits"))
    expect(page.locator("html[data-assets]")).to_have_count(1)
    cell = page.locator("[data-cell]", has_text="weather-lm").filter(has_text="H100").first
    for key, closing in (("Enter", "Escape"), ("Space", "Enter")):
        cell.focus()
        page.keyboard.press(key)
        expect(page.locator("[data-limit-input]")).to_be_focused()
        page.keyboard.type("9")
        page.keyboard.press(closing)
        expect(page.locator("[data-limit-input]")).to_have_count(0)
        expect(cell).to_be_focused()
    expect(cell).to_contain_text("of 9")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-cell]:focus")).to_have_count(1)
    expect(cell).not_to_be_focused()
    assert complaints == []


def test_the_palette_is_closed_where_it_was_opened(chromium: Browser, address: str, alice: User) -> None:
    page, complaints = opened(desk(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/")
    expect(page.locator("html[data-assets]")).to_have_count(1)
    find, palette = page.locator("[data-palette-open]"), page.locator("#palette")
    find.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".g-palette__input")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(palette.locator("[aria-selected=true]")).to_have_attribute("id", "palette-1")
    page.keyboard.press("Escape")
    expect(palette).not_to_be_visible()
    expect(find).to_be_focused()
    avatar = page.locator("[data-menu-open=account]")
    avatar.focus()
    page.keyboard.press("Enter")
    page.locator("#account [data-dialog=shortcuts]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(avatar).to_be_focused()
    assert complaints == []


def test_what_copies_and_what_unfolds(
    chromium: Browser, all_of_it: str, alice: User, olga: User, workspace: Workspace
) -> None:
    """By Enter and by the space bar, as is a node of the map."""
    address = all_of_it
    page, complaints = opened(desk(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/{workspace.pk}/")
    still(page)
    for key in ("Enter", "Space"):
        copy = page.locator("[data-copy]:visible").first
        copy.focus()
        page.keyboard.press(key)
        expect(page.locator("[data-copied]")).to_have_count(1)
        expect(page.locator("[data-copied]")).to_have_count(0)
        summary = page.locator("main details:visible > summary").first
        was = summary.evaluate("each => each.parentElement.open")
        summary.focus()
        page.keyboard.press(key)
        assert summary.evaluate("each => each.parentElement.open") is not was
    assert complaints == []
    page, complaints = opened(desk(chromium, address, olga))
    page.goto(address + reverse("frontend:operator_capacity"))
    still(page)
    for key in ("Enter", "Space"):
        page.locator(".g-node[tabindex='0']").first.focus()
        page.keyboard.press("ArrowRight")
        name = page.evaluate("document.activeElement.dataset.name")
        page.keyboard.press(key)
        expect(page.locator("[data-map-readout]").first).to_contain_text(name)
        page.keyboard.press("Home")
    assert complaints == []


def test_the_focus_stays_when_its_part_is_fetched_again(
    chromium: Browser, address: str, alice: User, workspace: Workspace
) -> None:
    page, complaints = opened(desk(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/{workspace.pk}/")
    expect(page.locator("[data-live-state=on]").first).to_be_visible()
    for control in controls_in_parts(page):
        page.evaluate("document.activeElement.blur()")
        control.focus()
        with page.expect_response(lambda answer: answer.request.headers.get("hx-request") == "true"):
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for_load_state("networkidle")
        expect(control).to_be_focused()
    assert complaints == []


def controls_in_parts(page: Page) -> Iterable[Locator]:
    found = page.locator("[data-live] :is(a[href], button:enabled):visible")
    assert found.count() > 2
    return [found.first, found.nth(found.count() // 2), found.last]


BROKEN = """<style>:focus { outline: none } .seen:focus { outline: 2px solid red } [data-press] { cursor: pointer }</style>
<button class="seen">first</button> <button id="blind">blind</button> <b data-press>press</b>
<button class="seen" style="position: fixed; left: -400px" id="away">away</button>
<button class="seen" tabindex="1" id="early">early</button>
<button class="seen" id="covered">covered</button><p style="position: absolute; inset: 0; background: white"></p>"""


def test_what_a_walk_finds(chromium: Browser) -> None:
    page = chromium.new_page()
    page.set_content(BROKEN)
    found = " ".join(walk(page))
    for what, where in (
        ("one does not see the focus on", "blind"),
        ("a click only", "data-press"),
        ("the focus is outside the window", "away"),
        ("the focus is under", "covered"),
    ):
        assert re.search(f"{what}.*{where}", found), (what, found)
    page.set_content("<button>first</button> <button>late</button> <button tabindex=1>early</button>")
    assert "not in order" in " ".join(walk(page))
    page.set_content("<button onfocus='this.blur()'>never</button> <button>next</button>")
    assert "Tab does not reach" in " ".join(walk(page))
