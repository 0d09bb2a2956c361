"""A browser goes through the whole console: every link once for each kind of address, every dialog, four widths, both themes."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.browsing import NEEDED, context_for, opened
from tests.frontend.pages.crawling import OPERATORS, TENANTS, Crawl
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def address(everything: Workspace) -> Iterator[str]:
    with served() as url:
        yield url


@pytest.mark.parametrize(
    ("reader", "start", "inside", "axe", "pages", "dialogs"),
    [
        ("alice", "/p/weather-lm/", TENANTS, True, 60, 14),
        ("bob", "/p/weather-lm/", TENANTS, False, 35, 7),
        ("olga", "/operator/", OPERATORS, True, 60, 18),
        ("olga", "/p/weather-lm/", TENANTS, False, 60, 13),
    ],
    ids=["alice", "bob", "olga", "olga-visits"],
)
def test_nothing_is_a_dead_end(
    reader: str,
    start: str,
    inside: tuple[str, ...],
    axe: bool,
    pages: int,
    dialogs: int,
    chromium: Browser,
    address: str,
    people: dict[str, User],
) -> None:
    page, complaints = opened(context_for(chromium, address, people[reader]))
    crawl = Crawl(page, address, complaints, inside, axe)
    crawl.through(start, "/account/")
    assert crawl.found == []
    assert len(crawl.names) >= pages, sorted(crawl.names)
    assert crawl.dialogs >= dialogs
