"""Tables on a phone, where each row is a block: what a cell holds is whole, and not squeezed beside its label."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Locator, expect

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.services import token_create
from tests.environments.stage import workspace_ready
from tests.frontend.pages.browsing import NEEDED, SIZES, context_for, looked_at, opened, until
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.server import served
from tests.frontend.pages.test_budgets import FORM
from tests.jobs.stage import lender_ready, row_in

pytestmark = NEEDED
BOX = "each => { const at = each.getBoundingClientRect(); return [at.top, at.width, at.height] }"
NOTE = "Waits for 2 GPUs: 8 of 8 are taken by what was submitted before"


@pytest.fixture
def address(alice: User, as_alice: Actor, site: Site, limited: Project) -> Iterator[str]:
    room = workspace_ready(as_alice, limited, site, h100s=2)
    row_in(room, name="train-the-largest-weather-model", waiting=NOTE)
    month = clock.now() + timedelta(days=30)
    token_create(actor=as_alice, project=limited, name="ci", scopes=["project:view"], expires_at=month)
    signed_in(alice).post(reverse("frontend:budget_new", args=[limited.slug]), FORM)
    with served() as url:
        yield url


@pytest.fixture
def lender(as_alice: Actor, site: Site, limited: Project) -> Workspace:
    """With a guest whose name is long."""
    room = workspace_ready(as_alice, limited, site, h100s=1)
    lender = lender_ready(as_alice, limited, site, h100s=2)
    guest = {"place": lender, "placed_at": clock.now(), "pool": lender.flavors.get().flavor.pool}
    row_in(room, "train-the-largest-weather-model", state="ready", holding=True, gpus=1, **guest)
    return lender


def box(of: Locator) -> tuple[float, float, float]:
    """Top, width and height. Rows fetch themselves: what has just been replaced has none."""
    seen = [0.0, 0.0, 0.0]

    def attached() -> bool:
        seen[:] = of.evaluate(BOX)
        return seen[1] > 0

    until(attached, "it is not shown")
    return seen[0], seen[1], seen[2]


def test_what_a_cell_holds_is_whole(chromium: Browser, address: str, alice: User) -> None:
    page, complaints = opened(context_for(chromium, address, alice, size="phone"))
    page.goto(f"{address}/p/weather-lm/jobs/")
    state = page.locator("td[data-l=State]")
    expect(state).to_be_visible()
    assert box(state.locator("small"))[0] > box(state.locator(":scope > :first-child"))[0]
    looked_at(page, "phone", picture="jobs")
    page.goto(f"{address}/account/")
    assert box(page.locator("td[data-l=Project]"))[1] > SIZES["phone"]["width"] * 0.75
    page.goto(f"{address}/p/weather-lm/budgets/")
    spent, thresholds = page.locator("td[data-l^=Spent] small"), page.locator("td[data-l=Thresholds] span")
    assert box(spent)[2] < 24, "on one line"
    assert box(thresholds.nth(1))[0] > box(thresholds.nth(0))[0], "one below the other"
    looked_at(page, "phone", picture="budgets")
    page.goto(f"{address}/p/weather-lm/budgets/new/")
    assert box(page.get_by_label("Threshold 3, action"))[1] > 200, "Block new requests"
    looked_at(page, "phone", picture="budget-new")
    assert complaints == []


def test_guests_fit_on_it(chromium: Browser, lender: Workspace, alice: User) -> None:
    with served() as url:
        page, complaints = opened(context_for(chromium, url, alice, size="phone"))
        page.goto(f"{url}/p/weather-lm/workspaces/{lender.pk}/queue/")
        expect(page.locator("td[data-l='Here since']")).to_be_visible()
        looked_at(page, "phone")
        page.goto(f"{url}/p/weather-lm/workspaces/{lender.pk}/")
        expect(page.get_by_role("link", name="train-the-largest-weather-model")).to_be_visible()
        looked_at(page, "phone")
        assert complaints == []
