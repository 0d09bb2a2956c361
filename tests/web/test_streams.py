"""A million rows through the real server: sent as they are read, in the memory of a few, for pages and API alike."""

import contextlib
import csv
import http.client
import io
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser

from billing.months import month_of, month_span
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.streams import AT_ONCE
from gpuaas.core.streams import ROWS as PART
from gpuaas.environments.home import FILE_MOST
from gpuaas.environments.services import files
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import V1
from tests.billing.stage import workspace_make
from tests.e2e.portal import wait_until
from tests.environments.conftest import workspace
from tests.environments.stage import ready
from tests.web.process import Web, web_process

__all__ = ["workspace"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1200)]

ROWS = 1_000_000
# Python's own swings; the file has some 200 MiB, and as many rows as objects would take gigabytes
KIB = 64 * 1024
FILL = """
INSERT INTO metering_usageinterval (id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node,
    meter, resource_name, quantity, started_at, ended_at, last_seen_at, ended_by)
SELECT gen_random_uuid(), %(site)s, %(project)s, %(workspace)s, %(flavor)s, 'uid-' || n, 'pod-' || n, 'node-1',
       'gpu_allocated', 'nvidia.com/gpu', 1, %(start)s + n * interval '1 second', %(start)s + (n + 60) * interval '1 second',
       %(start)s, 'observed'
FROM generate_series(1, %(rows)s) n
"""


@pytest.fixture
def web() -> Iterator[Web]:
    with web_process() as found:
        yield found


@pytest.fixture
def rows(project: Project, h100: Flavor, alice: User) -> int:
    return fill(project, h100, alice, ROWS)


def fill(project: Project, h100: Flavor, alice: User, rows: int) -> int:
    workspace = workspace_make(project, h100, alice, name="train")
    given: dict[str, Any] = {
        "site": h100.pool.site_id,
        "project": project.pk,
        "workspace": workspace.pk,
        "flavor": h100.pk,
        "start": month_span(month_of(clock.now())).starts_at,
        "rows": rows,
    }
    with connection.cursor() as cursor:
        cursor.execute(FILL, given)
        cursor.execute("ANALYZE metering_usageinterval")
    return rows


class Download:
    """One GET of a signed-in browser, read piece by piece."""

    def __init__(self, web: Web, path: str, cookie: str) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=300)
        began = time.monotonic()
        self.connection.request("GET", path, headers={"Cookie": cookie})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        self.first = self.answer.read1(65536)
        self.seconds_to_first = time.monotonic() - began

    def rest(self) -> Iterator[bytes]:
        yield self.first
        while piece := self.answer.read1(1 << 20):
            yield piece

    def leave(self) -> None:
        self.answer.close()
        self.connection.close()


def cookie_of(user: User) -> str:
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def others() -> int:
    """Connections to the database besides our own: the server holds one for each answer that is under way."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def test_a_million_rows(web: Web, rows: int, alice: User, project: Project) -> None:
    cookie, before = cookie_of(alice), others()
    api, page = (
        f"{V1}/projects/weather-lm/costs/intervals.csv",
        reverse("frontend:usage_csv", args=["weather-lm"]),
    )
    with contextlib.closing(http.client.HTTPConnection(urlsplit(web.url).netloc)) as warm:
        warm.request("GET", f"{V1}/projects", headers={"Cookie": cookie})
        assert warm.getresponse().read()
    small = web.memory()
    stalled = Download(web, api, cookie)  # reads nothing more: the server must wait for it
    for path in (api, page):
        download = Download(web, path, cookie)
        began, lines, size, last = time.monotonic(), 0, 0, b""
        for piece in download.rest():
            lines, size, last = lines + piece.count(b"\n"), size + len(piece), (last + piece)[-2000:]
        whole = time.monotonic() - began
        assert lines == rows + 1
        assert len(next(csv.reader(io.StringIO(last.splitlines()[-1].decode())))) == 15
        assert download.seconds_to_first < whole / 4
        assert web.memory() - small < KIB
        download.leave()
    stalled.leave()
    gone = Download(web, page, cookie)
    gone.leave()
    wait_until("the connections of those who left", lambda: others() <= before, seconds=60)
    assert web.memory() - small < KIB


def test_who_reads_nothing_stops_nobody_else(project: Project, h100: Flavor, alice: User, bob: User) -> None:
    """Ten downloads of which only the first bytes are read, and a pool of four connections."""
    fill(project, h100, alice, 50_000)  # more than fits into any buffer
    paths = [
        f"{V1}/projects/weather-lm/costs/intervals.csv",
        reverse("frontend:usage_csv", args=["weather-lm"]),
    ]
    with (
        web_process(GPUAAS_TEST_POOL="true", GPUAAS_DATABASE_POOL="4") as web,
        contextlib.ExitStack() as ended,
    ):
        asked = [ended.enter_context(asking(web, path, cookie_of(alice))) for path in paths for _ in range(5)]
        assert sorted(status for _, status in asked) == [200] * AT_ONCE + [429] * 8
        for user in (alice, bob):
            with asking(web, f"{V1}/projects", cookie_of(user)) as (said, status):
                assert (status, b"weather-lm" in said.read()) == (200, True)
        assert "PoolTimeout" not in web.said()


def test_a_file_that_nobody_reads_holds_its_place(as_alice: Actor, alice: User, workspace: Workspace) -> None:
    """It is in memory for as long as its client takes; others, and the list of its folder, do not wait for it."""
    lab = ready(as_alice, workspace, gpus=0)
    files.file_write(actor=as_alice, environment=lab, path="big", read=io.BytesIO(bytes(FILE_MOST)).read)
    place = f"{V1}/projects/weather-lm/environments/{lab.pk}/files"
    paths = [
        f"{place}/content?path=big",
        f"{reverse('frontend:environment_file', args=['weather-lm', lab.pk])}?path=big",
    ]
    with web_process() as web, contextlib.ExitStack() as ended:
        cookie = cookie_of(alice)
        asked = [ended.enter_context(asking(web, path, cookie)) for path in 2 * paths]
        assert [status for _, status in asked] == [200] * AT_ONCE + [429] * 2
        with asking(web, place, cookie) as (said, status):
            assert (status, b"big" in said.read()) == (200, True)
        ended.close()

        def left() -> bool:
            with asking(web, paths[0], cookie) as (_, status):
                return status == 200

        wait_until("the places of those who left", left, seconds=60)


@contextlib.contextmanager
def asking(web: Web, path: str, cookie: str) -> Iterator[tuple[http.client.HTTPResponse, int]]:
    """Of a client that takes what fits into the smallest buffer, and no more unless the test reads."""
    found = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=60)
    found.connect()
    found.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with contextlib.closing(found):
        found.request("GET", path, headers={"Cookie": cookie})
        answer = found.getresponse()
        yield answer, answer.status


@pytest.fixture
def few(project: Project, h100: Flavor, alice: User) -> tuple[int, str]:
    """More rows than one part has, and who reads them: asked of the database before there is a browser's loop."""
    return fill(project, h100, alice, 3 * PART + 1), cookie_of(alice)


@pytest.mark.browser
def test_a_browser_saves_all_of_it(web: Web, few: tuple[int, str], chromium: Browser) -> None:
    rows, cookie = few
    name, _, value = cookie.partition("=")
    with chromium.new_context() as context:
        context.add_cookies([{"name": name, "value": value, "url": web.url}])
        page = context.new_page()
        page.goto(f"{web.url}{reverse('frontend:cost_intervals', args=['weather-lm'])}")
        with page.expect_download() as saved:
            page.locator("a[href*='intervals.csv']").click()
        lines = saved.value.path().read_text().splitlines()
    assert len(lines) == rows + 1
    assert len({len(row) for row in csv.reader(lines)}) == 1
