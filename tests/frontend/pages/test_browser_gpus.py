"""What GPUs do, in a real browser: the pages of a workspace and of what runs in it fetch it, in both themes and on a phone."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, expect

from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.environments.models import Environment
from gpuaas.jobs.models import Job
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.environments.stage import row_in as environment_in
from tests.frontend.pages.browsing import NEEDED, SIZES, context_for, looked_at, opened
from tests.frontend.pages.server import served
from tests.gpustats.stage import MINUTE, keep, keep_all, node_make, reading
from tests.jobs.stage import row_in as job_in

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


@pytest.fixture
def inside(workspace: Workspace, h100: Flavor) -> list[Job | Environment]:
    """A job that runs for an hour in two tasks, and an environment; each has its own use."""
    node_make(h100)
    begun = clock.now() - timedelta(hours=1)
    held = {"pool": h100.pool, "gpus": 1}
    job = job_in(workspace, "train", state="ready", holding=True, ready_at=begun, tasks=2, at_once=2, **held)
    Job.objects.update(created_at=begun)
    lab = environment_in(workspace, "lab", **held)
    told = [
        reading(workspace, pod=pod, device=f"GPU-{index}", index=str(index), utilization=20.0 + 25 * index)
        for index, pod in enumerate(
            [f"{job.external_name}-0-x7k2p", f"{job.external_name}-1-b4c5d", lab.external_name]
        )
    ]
    keep_all(workspace, begun, 60, told)
    return [job, lab]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_the_gpus_of_a_job_and_of_an_environment_do_is_on_their_pages(
    chromium: Browser, inside: list[Job | Environment], alice: User, theme: str
) -> None:
    with served() as address:
        page, complaints = opened(context_for(chromium, address, alice, theme=theme))
        for row, kind, pods in zip(inside, ("jobs", "environments"), (2, 1), strict=True):
            page.goto(f"{address}/p/weather-lm/{kind}/{row.pk}/")
            card = page.locator("#gpus-card")
            expect(card.get_by_role("row")).to_have_count(1 + pods)
            expect(card).to_contain_text(row.external_name)
            expect(card.locator("canvas")).to_be_visible()
            for size in SIZES:
                page.set_viewport_size(SIZES[size])
                looked_at(page, size, picture=f"gpus-{kind}-{theme}")
            page.set_viewport_size(SIZES["desk"])
    assert complaints == []
