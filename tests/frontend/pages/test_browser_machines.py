"""Machines in a real browser: their whole life by a person, an order by keys alone, every page in both themes and on a phone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.services.flavors import pool_publish
from gpuaas.catalog.services.probe import site_probe
from gpuaas.metering.models import Meter
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.fleet import H100, Rack, fleet_seed
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.services import MachineOrder, machine_order
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import run
from gpuaas.workspaces.services import workspace_request
from quotas.tasks import capacity_sync
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.factories.catalog import SiteFactory
from tests.factories.quotas import limits_give
from tests.frontend.pages.browsing import NEEDED, beside, context_for, looked_at, opened
from tests.frontend.pages.scene import put_away
from tests.frontend.pages.server import served
from tests.workspaces.stage import settle

pytestmark = NEEDED
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl alice"
ORDERED = "train-vm"


@pytest.fixture
def cloud(project: Project, alice: User) -> Site:
    """A simulated cloud of 2 hosts with 8 H100 each as the portal itself discovers it, on offer, with limits."""
    site: Site = SiteFactory.create(slug="ham-1", driver="sandbox-cloud")
    fleet_seed(site.pk, slug=site.slug, racks=(Rack("gpu", 2, H100, 8),))
    dials_set(site.pk, machine_ms=200)
    assert site_probe(site.pk)
    capacity_sync(str(site.pk))
    flavor = pool_publish(actor=SYSTEM, pool=GpuPool.objects.get(site=site))
    Flavor.objects.filter(pk=flavor.pk).update(disk_gib=14)
    rate_set(actor=SYSTEM, flavor=flavor, meter=Meter.GPU_HELD, price="2.40")
    limits_give(
        project, {f"gpu:{flavor.pool.gpu_type.slug}": 8, "vcpu": 1000, "memory": 9000, "storage": 9000}
    )
    return site


@pytest.fixture
def address(cloud: Site) -> Iterator[str]:
    with served() as url:
        yield url


@pytest.fixture
def worker(address: str) -> Iterator[None]:
    """What brings wishes to the site, beside the browser."""

    def work() -> None:
        for pk in Workspace.objects.exclude(state="deleted").values_list("pk", flat=True):
            run(pk)
            visit(pk)

    with beside(work) as start:
        start()
        yield


@pytest.fixture
def room(as_alice: Actor, project: Project, cloud: Site) -> Workspace:
    """Of 2 machines; one is ordered."""
    flavor = Flavor.objects.get(pool__site=cloud)
    dials_set(cloud.pk, machine_ms=0, confirm_ms=0, latency_ms=0)
    made = settle(
        workspace_request(
            actor=as_alice, project=project, name="vm-lab", items=[(flavor.slug, 2)], storage_gib=100
        )
    )
    assert visit(made.pk)
    machine_order(actor=as_alice, workspace=made, order=MachineOrder(ORDERED, flavor.slug, "img-debian-12"))
    assert visit(made.pk)
    return made


def state_of(page: Page) -> Locator:
    return page.locator("#machine-title")


def workspace_asked(page: Page, address: str) -> None:
    page.goto(f"{address}/p/weather-lm/workspaces/new/")
    page.get_by_role("radio").first.check()
    page.locator("input[name=count]").fill("2")
    page.locator("input[name=name]").fill("vm-lab")
    expect(page.locator("#answer")).to_contain_text("Available now")
    expect(page.locator("#answer")).to_contain_text("gpu-…-vm-lab")
    page.get_by_role("button", name="Create workspace").click()
    expect(page.locator(".g-head .badge")).to_have_text("Ready")


def key_added(page: Page, address: str) -> None:
    page.goto(f"{address}/account/keys/")
    expect(page.get_by_text("No keys yet")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("laptop")
    page.get_by_label("Public key").fill(KEY)
    page.get_by_role("button", name="Add key").click()
    expect(page.get_by_role("row", name="laptop")).to_contain_text("SHA256:")


def machine_launched(page: Page) -> None:
    page.get_by_role("link", name="New machine").first.click()
    expect(page.get_by_role("row", name="H100")).to_contain_text("0 of 2")
    page.get_by_label("Name", exact=True).fill(ORDERED)
    page.get_by_label("Image").select_option(label="Rocky Linux 9 with CUDA")
    page.locator("#id_key").select_option(label="laptop")
    page.get_by_label("Cloud-init").fill("#cloud-config\npackages: [htop]\n")
    page.get_by_role("button", name="Order machine", exact=True).click()
    row = page.locator("#machines-live").get_by_role("row", name=ORDERED)
    expect(row).to_contain_text("Running")
    expect(row).to_contain_text("Rocky Linux 9 with CUDA")
    page.get_by_role("link", name=ORDERED).click()
    expect(state_of(page)).to_have_text("Running")


def test_the_life_of_a_machine(
    chromium: Browser, address: str, alice: User, charlie: User, worker: None
) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    key_added(page, address)
    workspace_asked(page, address)
    page.get_by_role("button", name="Get clouds.yaml").click()
    expect(page.locator("#drawer pre")).to_contain_text("clouds:")
    page.reload()
    expect(page.locator("body")).not_to_contain_text("auth_url")
    page.get_by_role("link", name="Machines", exact=True).click()
    expect(page.get_by_text("Order one here or create one with your own client")).to_be_visible()
    machine_launched(page)
    outsider, _ = opened(context_for(chromium, address, charlie))
    answer = outsider.goto(page.url)
    assert answer is not None
    assert answer.status == 404
    asked_of_it(page)
    page.get_by_role("button", name="Delete", exact=True).click()
    confirm = page.locator("#delete").get_by_role("button", name="Delete machine")
    expect(confirm).to_be_disabled()
    page.locator("#delete-name").fill(ORDERED)
    confirm.click()
    expect(page.get_by_text("No machines yet")).to_be_visible()
    assert Machine.objects.get().state == "deleted"
    assert complaints == []


def asked_of_it(page: Page) -> None:
    page.get_by_role("button", name="Stop").focus()
    page.keyboard.press("Enter")
    stop = page.get_by_role("dialog", name=f"Stop {ORDERED}?")
    expect(stop).to_contain_text("Everything that runs on it ends")
    expect(state_of(page)).to_have_text("Running")
    stop.get_by_role("button", name="Stop machine").focus()
    page.keyboard.press("Enter")
    expect(state_of(page)).to_have_text("Stopped")
    expect(page.get_by_role("button", name="Console")).to_have_count(0)
    page.get_by_role("button", name="Start").click()
    expect(state_of(page)).to_have_text("Running")
    page.get_by_role("button", name="Rebuild").click()
    dialog = page.get_by_role("dialog", name=f"Rebuild {ORDERED}?")
    expect(dialog).to_contain_text("everything on it is lost")
    dialog.get_by_label("Image").select_option(label="Debian 12")
    dialog.get_by_role("button", name="Rebuild").click()
    expect(page.locator("#machine-live")).to_contain_text("Debian 12")
    expect(state_of(page)).to_have_text("Running")
    page.get_by_role("button", name="Console").click()
    link = page.locator("#drawer").get_by_role("link", name="Open the console")
    assert (link.get_attribute("href") or "").startswith("https://console.ham-1.example/")
    page.keyboard.press("Escape")


def to_field(page: Page, name: str) -> None:
    """By Tab alone."""
    for _ in range(60):
        if page.evaluate("document.activeElement.name") == name:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {name}")


def test_an_order_by_keys_alone_and_refused_beside_its_field(
    chromium: Browser, address: str, alice: User, room: Workspace
) -> None:
    page, _ = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/{room.pk}/machines/")
    page.keyboard.press("c")
    expect(page.locator("h1")).to_have_text("New machine")
    to_field(page, "name")
    page.keyboard.type("No Such Name")
    page.keyboard.press("Enter")
    field = page.get_by_label("Name", exact=True)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".g-field", has=field)).to_contain_text("use 1 to 40 lower-case", ignore_case=True)
    to_field(page, "name")
    page.keyboard.press("Control+a")
    page.keyboard.type("second-vm")
    page.keyboard.press("Enter")
    expect(page.locator("#machines-live").get_by_role("row", name="second-vm")).to_contain_text("Ordered")
    page.goto(f"{address}/p/weather-lm/workspaces/{room.pk}/machines/new/")
    expect(page.get_by_role("button", name="Order machine", exact=True)).to_be_disabled()
    expect(page.get_by_text("All 2 that the workspace has bought are in use").first).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
def test_pages_of_machines_are_whole(
    chromium: Browser, address: str, alice: User, room: Workspace, size: str, theme: str
) -> None:
    put_away(Machine.objects.get(workspace=room))
    at = f"{address}/p/weather-lm/workspaces/{room.pk}/"
    page, complaints = opened(context_for(chromium, address, alice, size=size, theme=theme))
    machine = f"{at}machines/{Machine.objects.get(workspace=room).pk}/"
    places = {
        "workspace": at,
        "machines": f"{at}machines/",
        "machine-new": f"{at}machines/new/",
        "machine": machine,
        "keys": f"{address}/account/keys/",
    }
    for name, url in places.items():
        page.goto(url)
        looked_at(page, size, picture=f"cloud-{name}-{theme}")
        if name in {"workspace", "machines", "machine"}:
            expect(page.get_by_text("Shelved or deleted by the portal: with it").first).to_be_visible()
    page.goto(machine)
    page.get_by_role("button", name="Delete", exact=True).click()
    looked_at(page, size)
    assert complaints == []


def test_images_that_are_still_asked_for_appear_by_themselves(
    chromium: Browser, address: str, alice: User, room: Workspace
) -> None:
    """What was typed meanwhile stays, and is answered with them."""
    known = MachineLook.objects.get(workspace=room)
    MachineLook.objects.filter(pk=known.pk).update(images=[], slow_at=None)
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/workspaces/{room.pk}/machines/new/")
    page.locator("[name=name]").fill("second")
    order = page.get_by_role("button", name="Order machine")
    expect(page.locator("#images")).to_contain_text("Loading the site's images")
    expect(page.locator("#images")).not_to_contain_text("Reload this page", use_inner_text=True)
    expect(order).to_be_disabled()
    MachineLook.objects.filter(pk=known.pk).update(images=known.images, slow_at=known.slow_at)
    expect(page.locator("#images")).not_to_contain_text("Loading")
    expect(page.get_by_label("Image")).to_have_value(known.images[0]["id"])
    expect(page.locator("[name=name]")).to_have_value("second")
    expect(order).to_be_enabled()
    assert complaints == []
