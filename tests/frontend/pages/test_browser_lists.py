"""Lists in a real browser: sorted by their heads, filtered while it is typed, led out of an empty result, taken as a file."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from gpuaas.core import clock
from gpuaas.core.models import Process
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.browsing import NEEDED, SIZES, context_for, looked_at, opened
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def address(workspace: Workspace) -> Iterator[str]:
    for name in ("alpha", "beta"):
        copy = Workspace.objects.get(pk=workspace.pk)
        copy.pk, copy.name, copy.id, copy._state.adding = None, name, Workspace().id, True
        copy.save()
    with served() as url:
        yield url


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_list_is_sorted_filtered_and_taken(
    chromium: Browser, address: str, alice: User, theme: str, tmp_path: Path
) -> None:
    page, complaints = opened(context_for(chromium, address, alice, theme=theme))
    page.goto(f"{address}/p/weather-lm/workspaces/")
    rows = page.locator("tbody th[scope=row] a")
    page.get_by_role("link", name="Name", exact=True).click()
    expect(rows).to_have_text(["alpha", "beta", "era5-finetune"])
    page.get_by_role("link", name="Name", exact=True).click()
    expect(rows).to_have_text(["era5-finetune", "beta", "alpha"])
    expect(page).to_have_url(f"{address}/p/weather-lm/workspaces/?sort=-name")
    page.get_by_label("Find by name").fill("a")
    expect(page).to_have_url(re.compile(r"\?q=a&.*sort=-name"))
    with page.expect_download() as taken:
        page.get_by_role("link", name="CSV").click()
    taken.value.save_as(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open() as file:
        assert [row["name"] for row in csv.DictReader(file)] == [
            text.strip() for text in rows.all_inner_texts()
        ]
    page.get_by_label("Find by name").fill("nothing")
    expect(page.get_by_text("No workspaces match")).to_be_visible()
    for size in SIZES:
        page.set_viewport_size(SIZES[size])
        looked_at(page, size, picture=f"no-match-{theme}")
    page.get_by_role("link", name="Without Name: 3").click()
    expect(rows).to_have_text(["era5-finetune", "beta", "alpha"])
    assert complaints == []


def test_what_is_filtered_stays_so_while_the_page_fetches_itself(
    chromium: Browser, address: str, olga: User
) -> None:
    now = clock.now()
    for number in range(12):
        about = {"kind": "worker", "host": f"w-{number:02}", "version": "1"}
        Process.objects.create(**about, pid=number, started_at=now, seen_at=now)
    page, complaints = opened(context_for(chromium, address, olga))
    page.clock.install()
    page.goto(f"{address}/operator/system/")
    rows, typed = page.locator("#processes-list tbody tr"), page.get_by_label("Find a process, host or state")
    typed.press_sequentially("w-07")
    page.clock.run_for(300)
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile(r"process-q=w-07"))
    expect(typed).to_be_focused()
    Process.objects.filter(host="w-07").update(version="2")
    page.clock.run_for(10_000)
    expect(rows).to_contain_text("w-07")
    expect(rows.locator("[data-l=Version]")).to_have_text("2")
    expect(typed).to_have_value("w-07")
    assert complaints == []


def test_the_dialog_of_a_row_stays_open_while_the_filter_is_answered(
    chromium: Browser, address: str, olga: User
) -> None:
    """A click beside the field that was typed in makes the filter ask once more."""
    page, complaints = opened(context_for(chromium, address, olga))
    page.goto(f"{address}/operator/gpu-types/?q=none-of-them")
    page.locator("[name=q]").fill("")
    retire = page.get_by_role("button", name="Retire").first
    expect(retire).to_be_visible()
    with page.expect_response(lambda answer: "gpu-types" in answer.url):
        retire.click()
    page.wait_for_load_state("networkidle")
    expect(page.locator("dialog[open]")).to_have_count(1)
    with page.expect_response(lambda answer: "gpu-types" in answer.url):
        page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    assert complaints == []
