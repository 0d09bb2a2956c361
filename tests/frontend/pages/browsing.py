"""A real browser beside the test's own portal: signed in, watched for complaints, looked at in every size and theme.

GPUAAS_PICTURES names a folder for pictures of the pages in every size; those of the guides are in pictures.py.
"""

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.db import connection
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize, expect
from psycopg.conninfo import make_conninfo

from frontend import vite
from tenants.models import User

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIZES: dict[str, ViewportSize] = {
    "desk": {"width": 1440, "height": 900},
    "phone": {"width": 390, "height": 844},
}
PASSWORD = "correct horse battery"  # everybody's
PICTURES = os.environ.get("GPUAAS_PICTURES", "")
# what a test module that uses a browser has as its `pytestmark`
NEEDED = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(not vite.MANIFEST.exists(), reason="the front end is not built"),
    pytest.mark.django_db(transaction=True),
]


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """What it yields starts a thread that does `work` over and over, until the end."""
    stop = threading.Event()

    def rounds() -> None:
        while not stop.wait(0.1):
            work()
        connection.close()

    thread = threading.Thread(target=rounds, daemon=True)
    try:
        yield thread.start
    finally:
        stop.set()
        if thread.is_alive():
            thread.join(10)


def connection_words() -> str:
    """What psycopg needs for a connection of its own, beside the pages'."""
    known = connection.settings_dict
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return make_conninfo(**{name: str(known[key]) for name, key in names.items()})


def context_for(
    chromium: Browser, address: str, user: User, *, size: str = "desk", theme: str = "light"
) -> BrowserContext:
    client = Client()
    client.force_login(user)
    context = chromium.new_context(
        viewport=SIZES[size], color_scheme="dark" if theme == "dark" else "light", is_mobile=size == "phone"
    )
    cookie = client.cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": cookie, "url": address}])
    return context


def sign_in(page: Page, name: str) -> None:
    """By the form that the page shows to whoever is not signed in."""
    expect(page).to_have_url(re.compile("/accounts/login/"))
    expect(page.locator(".g-side")).to_have_count(0)
    page.get_by_label("Name or e-mail").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def opened(context: BrowserContext) -> tuple[Page, list[str]]:
    """A page and what it complained about; a refusal of the content security policy is such a complaint."""
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.extend(complaint(message)))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page, complaints


def complaint(message: ConsoleMessage) -> list[str]:
    """htmx also logs a request that a change of page cut off; failed ones the browser itself complains about."""
    cut_off = message.text.startswith(("htmx:afterRequest", "htmx:sendError"))
    return [message.text] if message.type == "error" and not cut_off else []


def until(is_so: Callable[[], object], what: str) -> None:
    """For what Playwright does not wait for itself. A page whose form is under way answers nothing that it is asked: look at
    what it sends, while another page is asked something."""
    for _ in range(300):
        if is_so():
            return
        threading.Event().wait(0.1)
    raise AssertionError(what)


def looked_at(page: Page, size: str, *, picture: str = "") -> None:
    """Nothing that axe finds, nothing wider than the screen."""
    found = Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found] == [], page.url
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"], page.url
    if PICTURES and picture:
        page.screenshot(path=str(Path(PICTURES) / f"{picture}-{size}.png"), full_page=True)
