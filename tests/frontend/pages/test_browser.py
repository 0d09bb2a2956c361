"""A person in a browser: signs in, asks, watches it become ready, keeps it longer, deletes it and is sent the invoice; both themes, a
phone, no complaint from the page."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db.models import Sum
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from billing.models import Invoice, InvoiceLine
from billing.money import amount_of
from billing.months import month_of, month_previous, month_span
from billing.services import rate_set
from billing.states import CloseState
from frontend.formats import money
from gpuaas.catalog.models import GpuPool, Site
from gpuaas.catalog.services.flavors import pool_publish
from gpuaas.catalog.services.probe import site_probe
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.workspaces.models import Holding, Workspace
from gpuaas.workspaces.reconcile import run
from quotas.models import SiteCapacity
from quotas.tasks import capacity_sync
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.factories.catalog import SiteFactory
from tests.factories.quotas import limits_give
from tests.frontend.pages.browsing import NEEDED, SIZES, beside, context_for, looked_at, opened, sign_in
from tests.frontend.pages.scene import busy, grant_to, robot_of
from tests.frontend.pages.server import served

H100 = "h100-sxm-80gb.1"

pytestmark = NEEDED


@pytest.fixture
def stage(project: Project, alice: User) -> Project:
    """A simulated site as the portal itself discovers it, on offer since the month before this one, with limits."""
    since = month_span(month_previous(month_of(clock.now()))).starts_at
    site: Site = SiteFactory.create(slug="ber-1")
    fleet_seed(site.pk, slug="ber-1")
    assert site_probe(site.pk)
    capacity_sync(str(site.pk))
    for pool in GpuPool.objects.select_related("gpu_type", "site"):
        flavor = pool_publish(actor=SYSTEM, pool=pool)
        rate_set(actor=SYSTEM, flavor=flavor, meter=Meter.GPU_HELD, price="2.40", valid_from=since)
    rate_set(actor=SYSTEM, flavor=None, meter=Meter.STORAGE_HELD, price="0.001", valid_from=since)
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


def take_kubeconfig(page: Page) -> None:
    page.get_by_role("button", name="Get kubeconfig").click()
    expect(page.locator("#drawer pre")).to_contain_text("apiVersion")
    page.keyboard.press("Escape")


def extend(page: Page, workspace: Workspace) -> None:
    """By a week."""
    before = workspace.lease_ends_at
    page.get_by_role("button", name="Extend").first.click()
    dialog = page.locator("#extend")
    dialog.locator("#id_until").fill(f"{before + timedelta(days=7):%Y-%m-%dT%H:%M}")
    expect(dialog.locator("#extend-effect")).to_contain_text("Added cost")
    dialog.get_by_role("button", name="Extend").click()
    expect(page.locator("#toasts")).to_contain_text("Lease extended")
    workspace.refresh_from_db()
    assert workspace.lease_ends_at > before + timedelta(days=6)


def delete(page: Page, name: str) -> None:
    page.get_by_role("button", name="Delete", exact=True).click()
    confirm = page.locator("#delete").get_by_role("button", name="Delete workspace")
    expect(confirm).to_be_disabled()
    page.locator("#delete-name").fill(name)
    confirm.click()
    expect(page.locator(".g-head .badge")).to_have_text("Deleted", timeout=30_000)


def invoiced(operator: Actor) -> Invoice:
    """The month before this one, closed by an operator, as if all that was held had been held on its second day for ten hours."""
    month = month_previous(month_of(clock.now()))
    start = month_span(month).starts_at + timedelta(days=1)
    assert not Holding.objects.filter(ended_at=None).exists()
    Holding.objects.update(started_at=start, ended_at=start + timedelta(hours=10))
    assert month_close(operator, month).state == CloseState.CLOSED
    return Invoice.objects.get(month=month)


def see_invoice(page: Page, address: str, invoice: Invoice) -> None:
    """Two H100 for ten hours at 2.40, and a total that is the sum of the lines in the database."""
    summed = InvoiceLine.objects.filter(invoice=invoice).aggregate(sum=Sum("amount_minor"))["sum"]
    total = money(amount_of(summed + invoice.tax_minor, invoice.currency), invoice.currency)
    page.goto(f"{address}/o/climate/invoices/")
    page.get_by_role("link", name=invoice.number).click()
    expect(page.locator("h1")).to_have_text(re.compile(invoice.number))
    gpus = page.locator(".g-sheet__lines tbody tr").filter(has_text="H100")
    expect(gpus.locator("td[data-l=Quantity]")).to_have_text("20.00")
    expect(gpus.locator("td[data-l=Price]")).to_have_text(money("2.40", invoice.currency))
    expect(gpus.locator("td[data-l=Amount]")).to_have_text(money("48.00", invoice.currency))
    expect(page.locator(".g-sheet__lines .g-total b")).to_have_text(total)


def test_from_request_to_the_invoice(
    chromium: Browser, address: str, alice: User, as_olga: Actor, worker: Callable[[], None]
) -> None:
    page, complaints = opened(chromium.new_context(viewport=SIZES["desk"]))
    page.goto(f"{address}/p/weather-lm/workspaces/new/")
    sign_in(page, alice.username)
    expect(page).to_have_url(f"{address}/p/weather-lm/workspaces/new/")
    request_one(page, address, "era5-finetune")
    expect(page.locator(".g-head .badge")).to_have_text("Requested")
    worker()
    expect(page.locator(".g-head .badge")).to_have_text("Ready", timeout=30_000)
    expect(page.get_by_text("Give the members access")).to_be_visible()
    take_kubeconfig(page)
    extend(page, Workspace.objects.get(name="era5-finetune"))
    delete(page, "era5-finetune")
    see_invoice(page, address, invoiced(as_olga))
    assert complaints == []


def test_the_answer_takes_what_fits(chromium: Browser, address: str, alice: User) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/new/?flavor={H100}")
    page.locator("input[name=count]").fill("11")
    expect(page.locator("#answer")).to_contain_text("may hold at most 8")
    expect(page.locator("#id_count-help")).to_contain_text("3 more than")
    expect(page.locator("input[name=count]")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("input[name=count]")).to_have_attribute("aria-describedby", "id_count-help")
    page.get_by_role("button", name="Set count to 8").click()
    expect(page.locator("input[name=count]")).to_have_value("8")
    expect(page.locator("input[name=count]")).not_to_have_attribute("aria-invalid", "true")
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
