"""One Chromium for each process of the suite; nothing of one test is left in it for the next.

Playwright keeps an event loop in this thread for as long as it lives. Between two tests it is hidden, so that a test without a
browser may start one of its own; in a test Django's ORM is told that it may be used beside it.
"""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connections

from deploy.testing import browser

if TYPE_CHECKING:  # every run loads this file, and most tests need no browser
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def chromium_process() -> Iterator[tuple["Browser", AbstractEventLoop]]:
    from playwright.sync_api import sync_playwright

    path = browser()
    assert path, "Chromium is missing; `make test` says how to get it"
    with sync_playwright() as playwright:
        loop = asyncio.get_running_loop()
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        asyncio._set_running_loop(None)
        yield found, loop
        asyncio._set_running_loop(loop)
        found.close()


@pytest.fixture
def chromium(chromium_process: tuple["Browser", AbstractEventLoop]) -> Iterator["Browser"]:
    """The process's own; every context that the test opens is closed at its end."""
    found, loop = chromium_process
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        asyncio._set_running_loop(loop)
        yield found
        # the ORM keeps a connection of its own for code that runs beside Playwright's loop
        connections.close_all()
        for context in found.contexts:
            context.close()
        asyncio._set_running_loop(None)
