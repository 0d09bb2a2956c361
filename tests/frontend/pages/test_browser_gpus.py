"""What GPUs do, in a real browser: the page of a workspace fetches it, in both themes and on a phone."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, expect

from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.browsing import NEEDED, SIZES, context_for, looked_at, opened
from tests.frontend.pages.server import served
from tests.gpustats.stage import MINUTE, keep, keep_all, node_make, reading

pytestmark = NEEDED


@pytest.fixture
def address(workspace: Workspace, h100: Flavor) -> Iterator[str]:
    """Of three hours, of which one was not seen, with two pods and a slice."""
    node_make(h100)
    now = clock.now()
    told = [
        reading(workspace),
        reading(workspace, device="GPU-1", index="1", pod="notebook-0", utilization=3.0),
    ]
    keep_all(workspace, now - timedelta(hours=3), 45, told)
    keep_all(workspace, now - 50 * MINUTE, 49, told)
    part = {"instance": "3", "profile": "1g.10gb", "power_watts": None, "energy_mj": None, "xid": 31}
    keep(workspace.site, now, *told, reading(workspace, device="GPU-2", index="2", **part))
    with served() as url:
        yield url


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_gpus_do_is_on_the_page_of_the_workspace(
    chromium: Browser, address: str, alice: User, workspace: Workspace, theme: str
) -> None:
    page, complaints = opened(context_for(chromium, address, alice, theme=theme))
    page.goto(f"{address}/p/weather-lm/workspaces/{workspace.pk}/")
    card = page.locator("#gpus-card")
    expect(card.get_by_role("row")).to_have_count(4)
    expect(card).to_contain_text("GPU 2, slice 3 (1g.10gb)")
    expect(card.locator("canvas")).to_be_visible()
    for size in SIZES:
        page.set_viewport_size(SIZES[size])
        looked_at(page, size, picture=f"gpus-{theme}")
    page.set_viewport_size(SIZES["desk"])
    card.get_by_role("button", name="Table").click()
    expect(card.get_by_role("columnheader", name="Total")).to_have_count(0)
    assert complaints == []
