"""A browser goes through the whole console: every link once for each kind of address, every dialog, four widths, both themes."""

from collections.abc import Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import Browser

from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.browsing import NEEDED, context_for, opened
from tests.frontend.pages.crawling import OPERATORS, TENANTS, Crawl
from tests.frontend.pages.server import served
from tests.jobs.stage import template_in

pytestmark = NEEDED


@pytest.fixture
def address(everything: Workspace) -> Iterator[str]:
    with served() as url:
        yield url


def further(workspace: Workspace) -> dict[str, str]:
    """Pages that only some rows link to, of which the crawler need not open the right one: by the name of their address."""
    slug = workspace.project.slug
    machines = Machine.objects.values_list("workspace", flat=True)
    template = template_in(workspace)
    rows = {
        "machine_new": machines[0],
        "job_template": template.pk,
        "job_template_edit": template.pk,
    }
    return {f"frontend:{name}": reverse(f"frontend:{name}", args=[slug, row]) for name, row in rows.items()}


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
    workspace: Workspace,
) -> None:
    page, complaints = opened(context_for(chromium, address, people[reader]))
    crawl = Crawl(page, address, complaints, inside, axe)
    more = further(workspace) if reader == "alice" else {}
    crawl.through(start, "/account/", *more.values())
    assert crawl.found == []
    assert more.keys() <= set(crawl.names)
    assert len(crawl.names) >= pages, sorted(crawl.names)
    assert crawl.dialogs >= dialogs
