"""A person in a browser: asks, watches it become ready, deletes it; both themes, a phone, no complaint from the page."""

from collections.abc import Callable, Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from billing.services import rate_set
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
from tests.frontend.pages.browsing import NEEDED, SIZES, beside, context_for, looked_at, opened
from tests.frontend.pages.scene import busy, grant_to, robot_of
from tests.frontend.pages.server import served

H100 = "h100-sxm-80gb.1"

pytestmark = NEEDED


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

    def work() -> None:
        for pk in Workspace.objects.exclude(state="deleted").values_list("pk", flat=True):
            run(pk)

    with beside(work) as start:
        yield start


def request_one(page: Page, address: str, name: str) -> None:
    page.goto(f"{address}/p/weather-lm/workspaces/new/")
    page.locator(f'input[name=flavor][value="{H100}"]').check()
    page.locator("input[name=count]").fill("2")
    expect(page.locator("#answer")).to_contain_text("Available now")
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
    expect(page.get_by_text("Give the members access")).to_be_visible()

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
    expect(page.locator("#answer")).to_contain_text("may hold at most 8")
    expect(page.locator("#count-said")).to_contain_text("3 more than")
    page.get_by_role("button", name="Set count to 8").click()
    expect(page.locator("input[name=count]")).to_have_value("8")
    expect(page.locator("#answer")).to_contain_text("Available now")
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
        name = {workspace: "workspace", f"{address}{robot}": "robot"}.get(url) or url.split("/")[-2]
        looked_at(page, size, picture=f"tenant-{name}-{theme}")
    assert complaints == []


def test_the_theme_is_kept(chromium: Browser, address: str, alice: User) -> None:
    page, _ = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/")
    page.get_by_role("button", name="Switch theme").click()
    page.goto(f"{address}/p/weather-lm/limits/")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
