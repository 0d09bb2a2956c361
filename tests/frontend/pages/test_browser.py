"""A person in a browser: asks, watches it become ready, deletes it; both themes, a phone, no complaint from the page.

GPUAAS_PICTURES names a folder for pictures of the pages.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.db import connections
from django.test import Client
from django.urls import reverse
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from billing.services import rate_set
from frontend import vite
from gpuaas.catalog.models import GpuPool, Site
from gpuaas.catalog.services.flavors import pool_publish
from gpuaas.catalog.services.probe import site_probe
from gpuaas.metering.models import Meter
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import run
from quotas.models import SiteCapacity
from quotas.tasks import capacity_sync
from tenants.actors import SYSTEM
from tenants.models import Project, User
from tests.factories.catalog import SiteFactory
from tests.factories.quotas import limits_give
from tests.frontend.pages.scene import busy, grant_to, robot_of
from tests.frontend.pages.server import served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIZES: dict[str, ViewportSize] = {
    "desk": {"width": 1440, "height": 900},
    "phone": {"width": 390, "height": 844},
}
H100 = "h100-sxm-80gb.1"
PICTURES = os.environ.get("GPUAAS_PICTURES", "")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(not vite.MANIFEST.exists(), reason="the front end is not built"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def chromium() -> Iterator[Browser]:
    """Playwright keeps an event loop in its thread, beside which Django's ORM refuses to work unless told."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        with sync_playwright() as playwright:
            found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            yield found
            # the ORM keeps a connection of its own for code that runs beside Playwright's loop
            connections.close_all()
            found.close()


@pytest.fixture
def stage(project: Project, alice: User) -> Project:
    """A simulated site as the portal itself discovers it, on offer, with limits."""
    site: Site = SiteFactory.create(slug="ber-1")
    fleet_seed(site.pk, slug="ber-1")
    assert site_probe(site.pk)
    capacity_sync(str(site.pk))
    for pool in GpuPool.objects.select_related("gpu_type", "site"):
        flavor = pool_publish(actor=SYSTEM, pool=pool)
        rate_set(actor=SYSTEM, flavor=flavor, meter=Meter.GPU_HELD, price="2.40")
    resources = SiteCapacity.objects.values_list("resource", flat=True)
    limits_give(project, dict.fromkeys(resources, 8) | {"vcpu": 1000, "memory": 9000, "storage": 9000})
    return project


@pytest.fixture
def address(stage: Project) -> Iterator[str]:
    with served() as url:
        yield url


@pytest.fixture
def worker(address: str) -> Iterator[Callable[[], None]]:
    """Call it to let the reconciler run beside the browser, until the test ends."""
    stop = threading.Event()

    def work() -> None:
        from django.db import connection

        while not stop.wait(0.1):
            for pk in Workspace.objects.exclude(state="deleted").values_list("pk", flat=True):
                run(pk)
        connection.close()

    thread = threading.Thread(target=work, daemon=True)
    yield thread.start
    stop.set()
    if thread.is_alive():
        thread.join(10)


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


def opened(context: BrowserContext) -> tuple[Page, list[str]]:
    """A page and what it complained about; a refusal of the content security policy is such a complaint."""
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.extend(complaint(message)))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page, complaints


def complaint(message: ConsoleMessage) -> list[str]:
    """htmx also logs a request that a change of page cut off; failed ones the browser itself complains about."""
    return [message.text] if message.type == "error" and not message.text.startswith("htmx:") else []


def request_one(page: Page, address: str, name: str) -> None:
    page.goto(f"{address}/p/weather-lm/workspaces/new/")
    page.locator(f'input[name=flavor][value="{H100}"]').check()
    page.locator("input[name=count]").fill("2")
    expect(page.locator("#answer")).to_contain_text("You can have this now")
    page.locator("input[name=name]").fill(name)
    expect(page.locator("#answer")).to_contain_text(f"gpu-…-{name}")
    page.get_by_role("button", name="Create workspace").click()
    expect(page.locator("h1")).to_have_text(name)


def test_from_request_to_ready_to_gone(
    chromium: Browser, address: str, alice: User, worker: Callable[[], None]
) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    request_one(page, address, "era5-finetune")
    expect(page.locator(".g-head .badge")).to_have_text("Requested")
    worker()
    expect(page.locator(".g-head .badge")).to_have_text("Ready", timeout=30_000)
    expect(page.get_by_text("Let the members in")).to_be_visible()

    page.get_by_role("button", name="Get kubeconfig").click()
    expect(page.locator("#drawer pre")).to_contain_text("apiVersion")
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Delete", exact=True).click()
    confirm = page.locator("#delete").get_by_role("button", name="Delete workspace")
    expect(confirm).to_be_disabled()
    page.locator("#delete-name").fill("era5-finetune")
    confirm.click()
    expect(page.locator(".g-head .badge")).to_have_text("Deleted", timeout=30_000)
    assert complaints == []


def test_the_answer_takes_what_fits(chromium: Browser, address: str, alice: User) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/new/?flavor={H100}")
    page.locator("input[name=count]").fill("11")
    expect(page.locator("#answer")).to_contain_text("may hold 8")
    expect(page.locator("#count-said")).to_contain_text("3 more than")
    page.get_by_role("button", name="Take 8").click()
    expect(page.locator("input[name=count]")).to_have_value("8")
    expect(page.locator("#answer")).to_contain_text("You can have this now")
    assert complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
def test_no_page_complains_or_scrolls_sideways(
    chromium: Browser, address: str, alice: User, size: str, theme: str
) -> None:
    context = context_for(chromium, address, alice, size=size, theme=theme)
    page, complaints = opened(context)
    request_one(page, address, "looked-at")
    workspace = page.url
    row = busy(Workspace.objects.get(name="looked-at"))
    grant_to(row, alice)
    robot = reverse("frontend:workspace_robot", args=["weather-lm", row.pk, robot_of(row).pk])
    places = "", "workspaces/", "workspaces/new/", "usage/", "limits/", "members/", "tokens/", "audit/"
    urls = [f"{address}/p/weather-lm/{place}" for place in places]
    for url in [*urls, workspace, f"{address}{robot}", f"{address}/o/climate/", f"{address}/account/"]:
        page.goto(url)
        found = Axe().run(page).response["violations"]
        assert [(v["id"], v["nodes"][0]["html"]) for v in found] == [], url
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"], url
        if PICTURES:
            name = {workspace: "workspace", f"{address}{robot}": "robot"}.get(url) or url.split("/")[-2]
            page.screenshot(path=str(Path(PICTURES) / f"tenant-{name}-{theme}-{size}.png"), full_page=True)
    assert complaints == []


def test_the_theme_is_kept(chromium: Browser, address: str, alice: User) -> None:
    page, _ = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/")
    page.get_by_role("button", name="Switch theme").click()
    page.goto(f"{address}/p/weather-lm/limits/")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
