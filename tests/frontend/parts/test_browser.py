"""The style page in a real browser: both themes and a phone, no serious axe finding, nothing the CSP refuses."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.test import override_settings
from django.test.testcases import LiveServerThread
from playwright.sync_api import Browser, Page, Route, ViewportSize, WebSocketRoute, expect

from frontend import vite

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIZES: dict[str, ViewportSize] = {
    "desk": {"width": 1440, "height": 900},
    "phone": {"width": 390, "height": 844},
}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(not vite.MANIFEST.exists(), reason="the front end is not built"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of our own without a database: the style page reads nothing."""
    with override_settings(WHITENOISE_AUTOREFRESH=True, ROOT_URLCONF="tests.frontend.parts.urls"):
        server = LiveServerThread("localhost", StaticFilesHandler, connections_override={})
        server.daemon = True
        server.start()
        server.is_ready.wait()
        assert server.error is None
        yield f"http://localhost:{server.port}/dev/parts/"
        server.terminate()


def opened(
    chromium: Browser, address: str, size: str = "desk", theme: str = "light"
) -> tuple[Page, list[str]]:
    """A page with what it complained about; a refusal of the content security policy is such a complaint."""
    page = chromium.new_page(
        viewport=SIZES[size], color_scheme="dark" if theme == "dark" else "light", is_mobile=size == "phone"
    )
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address, wait_until="networkidle")
    page.locator("html[data-assets=ready]").wait_for()  # else a key may be pressed before scripts have run
    return page, complaints


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
def test_nothing_serious_and_nothing_refused(chromium: Browser, address: str, size: str, theme: str) -> None:
    page, complaints = opened(chromium, address, size, theme)
    expect(page.locator(".g-chart__canvas canvas")).to_be_visible()
    found = Axe().run(page).response["violations"]
    serious = [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in {"serious", "critical"}]
    assert serious == []
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]


def test_nothing_is_styled_or_scripted_inline(chromium: Browser, address: str) -> None:
    page, _ = opened(chromium, address)
    source = page.request.get(address).text()
    assert "style=" not in source
    assert "<style" not in source
    assert "<script>" not in source
    assert " onclick" not in source


def test_theme_key_switches_and_stays(chromium: Browser, address: str) -> None:
    page, _ = opened(chromium, address)
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")


def test_palette_finds_a_place_and_an_action(chromium: Browser, address: str) -> None:
    page, _ = opened(chromium, address)
    page.keyboard.press("Control+k")
    page.keyboard.type("short")
    expect(page.locator("#palette-list [role=option]")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#shortcuts")).to_be_visible()


def test_single_keys_walk_and_select_rows_and_can_be_turned_off(chromium: Browser, address: str) -> None:
    page, _ = opened(chromium, address)
    for here in (1, 2):
        page.keyboard.press("j")
        expect(page.locator("[data-rows] tbody tr").nth(here - 1)).to_have_class(re.compile("g-cursor"))
    page.keyboard.press("x")
    expect(page.locator("[data-bulk-count]")).to_have_text("1 selected")
    expect(page.get_by_label("Select relion")).to_be_checked()
    page.keyboard.press("?")
    page.get_by_label("Single keys do something").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.locator("html").get_attribute("data-bs-theme") is None


def test_confirm_wants_the_whole_name_and_answers_with_a_toast(chromium: Browser, address: str) -> None:
    page, complaints = opened(chromium, address)
    page.get_by_role("button", name="Delete", exact=True).first.click()
    dialog = page.locator("#delete")
    submit = dialog.get_by_role("button", name="Delete workspace")
    dialog.get_by_role("textbox").fill("llama")
    expect(submit).to_be_disabled()
    expect(submit).to_have_accessible_description("Type llama-tune above to enable this button.")
    expect(dialog.locator(".g-reason")).to_be_visible()
    dialog.get_by_role("textbox").fill("llama-tune")
    expect(dialog.locator(".g-reason")).to_be_hidden()
    submit.click()
    expect(page.locator("#toasts .toast")).to_contain_text("Lease extended")
    expect(dialog).not_to_be_visible()
    assert complaints == []


def test_map_is_walked_with_arrows(chromium: Browser, address: str) -> None:
    page, _ = opened(chromium, address)
    page.locator(".g-node").first.click()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("[data-map-readout]")).to_contain_text("h100-04")
    expect(page.locator("[data-map-readout]")).to_contain_text("6 allocated, 1 unhealthy, 1 free")


def test_chart_is_a_table_too(chromium: Browser, address: str) -> None:
    page, _ = opened(chromium, address)
    page.evaluate(
        """() => {
            window.written = [];
            const write = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
                window.written.push(text);
                return write.call(this, text, ...rest);
            };
            document.dispatchEvent(new Event("theme"));
            return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
        }"""
    )
    written = page.evaluate("window.written")
    assert {"€800.00", "budget per day", "expected", "21"} <= set(written)
    page.locator("#cost").get_by_role("button", name="Table").click()
    expect(page.locator("#cost").get_by_role("cell", name="€770.00")).to_be_visible()


def test_what_the_socket_names_fetches_itself_once_for_each_change(chromium: Browser, address: str) -> None:
    page = chromium.new_page()
    sockets: list[WebSocketRoute] = []

    def keep(socket: WebSocketRoute) -> None:
        sockets.append(socket)

    page.route_web_socket("**/ws/live/**", keep)
    page.goto(f"{address}?live=1", wait_until="networkidle")
    expect(page.locator("[data-live-words]")).to_have_text("live")
    assert sockets[0].url.endswith("/ws/live/?topics=sample%3A1")
    # what changed before the socket was open was told to nobody
    expect(page.locator("#live-sample")).to_have_text("Fetched again.")
    page.wait_for_load_state("networkidle")
    fetched: list[str] = []
    page.on(
        "request", lambda request: fetched.append(request.url) if request.url.endswith("/live/") else None
    )
    sockets[0].send('{"kind": "other", "id": "1", "mark": "a"}')
    with page.expect_response("**/live/"):
        sockets[0].send('{"kind": "sample", "id": "1", "mark": "b"}')
    sockets[0].send('{"kind": "sample", "id": "1", "mark": "b"}')
    with page.expect_response("**/live/"):
        sockets[0].send('{"kind": "sample", "id": "1", "mark": "c"}')
    page.wait_for_load_state("networkidle")
    assert len(fetched) == 2


def test_what_changes_during_a_fetch_is_fetched_too(chromium: Browser, address: str) -> None:
    """The answer under way may be older than the change, and there may be no other one: the last state."""
    page = chromium.new_page()
    sockets: list[WebSocketRoute] = []
    held: list[Route] = []

    def keep(socket: WebSocketRoute) -> None:
        sockets.append(socket)

    def hold(route: Route) -> None:
        held.append(route)

    page.route_web_socket("**/ws/live/**", keep)
    page.route("**/live/", hold)
    page.goto(f"{address}?live=1")
    until_held(page, held, 1)
    with page.expect_response("**/live/"):
        held[0].continue_()
    sockets[0].send('{"kind": "sample", "id": "1", "mark": "b"}')
    until_held(page, held, 2)
    sockets[0].send('{"kind": "sample", "id": "1", "mark": "c"}')
    page.wait_for_timeout(200)  # the message is there before the answer
    held[1].continue_()
    until_held(page, held, 3)
    held[2].continue_()


def live_page(chromium: Browser, address: str) -> tuple[Page, WebSocketRoute]:
    """With the socket that it opened, after the fetch that follows."""
    page = chromium.new_page()
    sockets: list[WebSocketRoute] = []

    def keep(socket: WebSocketRoute) -> None:
        sockets.append(socket)

    page.route_web_socket("**/ws/live/**", keep)
    page.goto(f"{address}?live=1", wait_until="networkidle")
    expect(page.locator("#live-sample")).to_have_text("Fetched again.")
    return page, sockets[0]


def test_an_open_dialog_stays_with_what_is_entered_in_it(chromium: Browser, address: str) -> None:
    page, socket = live_page(chromium, address)
    entered = page.locator("#asked input")
    page.evaluate(
        """() => {
            document.getElementById("live-sample").innerHTML = "<dialog id='asked'><input></dialog>";
            document.getElementById("asked").showModal();
        }"""
    )
    entered.fill("half a na")
    for mark in "bc":
        with page.expect_response("**/live/"):
            socket.send(f'{{"kind": "sample", "id": "1", "mark": "{mark}"}}')
        page.wait_for_load_state("networkidle")
        expect(entered).to_have_value("half a na")
    with page.expect_response("**/live/"):
        page.keyboard.press("Escape")
    expect(page.locator("#live-sample")).to_have_text("Fetched again.")


def test_a_log_is_followed_at_its_end_and_stays_where_it_is_read(chromium: Browser, address: str) -> None:
    page, socket = live_page(chromium, address)
    lines = "<br>".join(str(number) for number in range(300))
    page.locator("#live-sample").evaluate(
        "(part, text) => part.insertAdjacentHTML('afterend', `<div id='log' data-tail><pre>${text}</pre></div>`)",
        lines,
    )
    log = page.locator("#log pre")
    page.evaluate(
        "document.addEventListener('htmx:afterSwap', () => document.querySelector('#log pre').append('\\nmore\\nlines'))"
    )
    left = "text => Math.round(text.scrollHeight - text.clientHeight - text.scrollTop)"
    assert log.evaluate("text => text.clientHeight < text.scrollHeight / 3")
    for place, mark, measured, expected in (
        ("text.scrollHeight", "b", left, 0),
        ("40", "c", "text => text.scrollTop", 40),
    ):
        log.evaluate(f"text => text.scrollTo(0, {place})")
        with page.expect_response("**/live/"):
            socket.send(f'{{"kind": "sample", "id": "1", "mark": "{mark}"}}')
        page.wait_for_load_state("networkidle")
        assert log.evaluate(measured) == expected


def until_held(page: Page, held: list[Route], count: int) -> None:
    """Playwright's own events come only while it is waited in its words."""
    for _ in range(200):
        if len(held) == count:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{len(held)} fetches where {count} were to come")


def test_phone_menu_is_a_drawer(chromium: Browser, address: str) -> None:
    page, _ = opened(chromium, address, "phone")
    expect(page.locator("#side")).not_to_be_visible()
    page.get_by_role("button", name="Menu", exact=True).click()
    expect(page.get_by_role("link", name="Home", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#side")).not_to_be_visible()


def test_styles_are_ours() -> None:
    css = next((vite.DIRECTORY / "assets").glob("main-*.css"))
    assert css.stat().st_size < 90_000
    assert "http" not in Path(css).read_text(encoding="utf-8").replace("http://www.w3.org", "")
