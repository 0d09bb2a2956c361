"""A dialog names its effect on limits and price before anything is pressed, and what is refused cannot be pressed."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_suspend
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.metering.services import held_sync
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_suspend
from quotas.models import Limit
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.clusters import stage as clusters
from tests.frontend.pages.browsing import NEEDED, SIZES, context_for, looked_at, opened
from tests.frontend.pages.server import served
from tests.workspaces import stage as workspaces

pytestmark = NEEDED
H100 = "gpu:h100-sxm-80gb"


@dataclass(frozen=True)
class Priced:
    """What runs at this address, and its price per hour: awake, asleep, and what lies between."""

    row: Workspace | Cluster
    at: str
    awake: str
    asleep: str
    less: str


@pytest.fixture(params=["workspace", "cluster"])
def held(request: pytest.FixtureRequest, as_alice: Actor, limited: Project, site: Site) -> Priced:
    """Two H100 at 2.40; 100 GiB at 0.00012 stay with a workspace that sleeps, and nothing with a price with a cluster."""
    if request.param == "workspace":
        room = workspaces.ready(as_alice, limited, site)
        held_sync()
        return Priced(room, f"/p/weather-lm/workspaces/{room.pk}/", "€4.81", "€0.01", "€4.80")
    clusters.offered(SYSTEM, site)
    start = clock.now()
    rate_set(
        actor=SYSTEM,
        flavor=Flavor.objects.get(slug="h100.2"),
        meter=Meter.GPU_HELD,
        price="2.40",
        valid_from=start,
    )
    row = clusters.ready(as_alice, limited)
    held_sync()
    return Priced(row, f"/p/weather-lm/clusters/{row.pk}/", "€4.80", "€0.00", "€4.80")


@pytest.fixture
def address(held: Priced) -> Iterator[str]:
    with served() as url:
        yield url


def dialog_of(page: Page, url: str, name: str, press: str) -> Locator:
    page.goto(url)
    page.get_by_role("button", name=press).first.click()
    dialog = page.locator(f"#{name}")
    expect(dialog).to_contain_text("Difference per hour")
    return dialog


def costs(dialog: Locator, now: str, then: str, difference: str) -> None:
    for term, value in (("Per hour now", now), ("Per hour then", then), ("Difference per hour", difference)):
        expect(dialog.locator(".g-facts > div").filter(has_text=term)).to_contain_text(value)


def test_suspending_resuming_and_trying_again_say_their_effect(
    chromium: Browser, address: str, alice: User, held: Priced
) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    limit = Limit.objects.filter(project=held.row.project, resource=H100)
    limit.update(hard=8)
    dialog = dialog_of(page, address + held.at, "suspend", "Suspend")
    expect(dialog).to_contain_text("2 → 0 of 8")
    costs(dialog, held.awake, held.asleep, f"−{held.less}")
    for size in SIZES:
        page.set_viewport_size(SIZES[size])
        looked_at(page, size, picture="suspend")

    type(held.row).objects.filter(pk=held.row.pk).update(state="failed")
    dialog = dialog_of(page, address + held.at, "retry", "Try again")
    expect(dialog).to_contain_text("What it needs is still reserved")
    costs(dialog, held.awake, held.awake, "€0.00")
    expect(dialog.get_by_role("button", name="Try again")).to_be_enabled()
    assert complaints == []


def test_a_resumption_that_has_no_room_is_not_pressed(
    chromium: Browser, address: str, alice: User, held: Priced, as_alice: Actor
) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    asleep(as_alice, held.row)
    limit = Limit.objects.filter(project=held.row.project, resource=H100)
    limit.update(hard=1)
    dialog = dialog_of(page, address + held.at, "resume", "Resume")
    press = dialog.get_by_role("button", name="Resume")
    expect(dialog).to_contain_text("may hold at most 1")
    expect(press).to_be_disabled()
    expect(dialog.locator("#resume-button .g-reason")).to_have_text("It exceeds the limit.")
    limit.update(hard=8)
    dialog = dialog_of(page, address + held.at, "resume", "Resume")
    expect(dialog).to_contain_text("0 + 2 of 8")
    costs(dialog, held.asleep, held.awake, f"+{held.less}")
    looked_at(page, "desk", picture="resume")
    dialog.get_by_role("button", name="Resume").click()
    expect(page.locator(".g-head .badge")).to_have_text("Resuming")
    assert complaints == []


def asleep(actor: Actor, row: Workspace | Cluster) -> None:
    if isinstance(row, Workspace):
        workspaces.settle(workspace_suspend(actor=actor, workspace=row))
    else:
        clusters.settle(cluster_suspend(actor=actor, cluster=row))
    held_sync()
