"""One portal for the tests that leave it running, and a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from deploy.testing import browser as chromium_path
from tests.e2e.portal import Portal


@pytest.fixture(scope="session")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """Made anew for this run; tests that share it use names of their own."""
    started = Portal.start(tmp_path_factory.mktemp("portal") / "demo")
    yield started
    started.stop()


@pytest.fixture
def chromium() -> Iterator[Browser]:
    path = chromium_path()
    assert path, "Chromium is missing; `make test` says how to get it"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
