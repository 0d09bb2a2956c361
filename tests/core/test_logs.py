"""What the portal writes to its log."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog
from celery.contrib.testing.worker import start_worker
from celery.signals import task_postrun
from django.conf import settings
from django.db import OperationalError, connections
from django.test import Client, override_settings

from gpuaas.catalog.models import Site
from gpuaas.celery import app
from gpuaas.core import claims, pulse
from gpuaas.core.queue import poke
from gpuaas.system import health
from tests.factories.catalog import SiteFactory

log = structlog.get_logger(__name__)
ASKED = "asked-by-a-person-1"
CANARY = "canary-7f3a9c-sings"
Lines = Callable[[], list[dict[str, Any]]]

SAID_ONCE = """
import logging
import django
django.setup()
logging.getLogger("django.request").warning("Not Found: /nothing", extra={"password": "hunter2"})
"""


def test_django_says_each_thing_once_and_through_our_mask() -> None:
    """Also while debugging, when Django's own console handler would say it too."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "gpuaas.settings.test", "GPUAAS_LOG_JSON": "true"}
    program = f"from django.conf import settings\nsettings.DEBUG = True\n{SAID_ONCE}"
    said = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    lines = (said.stdout + said.stderr).splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["Not Found: /nothing"]
    assert "hunter2" not in said.stdout + said.stderr


@contextmanager
def listened() -> Iterator[Lines]:
    """What was logged until now, as it is written in production."""
    written, root = io.StringIO(), logging.getLogger()
    chosen = {
        key: value for key, value in settings.LOGGING["formatters"]["structured"].items() if key != "()"
    }
    handler = logging.StreamHandler(written)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(**chosen))
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(before)


@pytest.fixture
def lines() -> Iterator[Lines]:
    with listened() as found:
        yield found


@pytest.mark.django_db
class TestRequests:
    @pytest.mark.parametrize("path", ["/nothing-here", "/api/v1/nothing-here"])
    def test_what_is_said_of_a_request_has_its_id(self, client: Client, lines: Lines, path: str) -> None:
        answer = client.get(path, headers={"X-Request-ID": ASKED})
        assert answer["X-Request-ID"] == ASKED
        assert lines()
        assert {line.get("request_id") for line in lines()} == {ASKED}
        log.warning("afterwards")
        assert "request_id" not in lines()[-1]

    @pytest.mark.parametrize("given", ["", "short", "with spaces in it", "x" * 65, "line\nbreak-in-it"])
    def test_an_id_that_is_not_well_formed_is_replaced(
        self, client: Client, lines: Lines, given: str
    ) -> None:
        answer = client.get("/nothing-here", headers={"X-Request-ID": given})
        assert answer["X-Request-ID"] != given
        assert [line["request_id"] for line in lines()] == [answer["X-Request-ID"]]

    def test_a_sick_part_is_no_error_of_its_address(
        self, client: Client, lines: Lines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away() -> int:
            raise OperationalError("the server is away")

        monkeypatch.setattr(health, "migrations_missing", away)
        assert client.get("/health/ready").status_code == 503
        assert lines() == []
        assert client.get("/health/nothing").status_code == 404
        assert [line["event"] for line in lines()] == ["Not Found: /health/nothing"]

    def test_no_secret_of_a_request_is_written(self, client: Client, lines: Lines) -> None:
        client.cookies["sessionid"] = CANARY
        client.get("/api/v1/projects", headers={"Authorization": f"Bearer {CANARY}"})
        client.post("/accounts/login/", {"login": "alice", "password": CANARY})
        client.post("/api/v1/projects", {"token": CANARY}, content_type="application/json")
        log.error(
            "told", password=CANARY, site={"credentials": {"token": CANARY}}, rows=[{"kubeconfig": CANARY}]
        )
        assert lines()
        assert CANARY not in json.dumps(lines())


@pytest.mark.django_db
def test_what_is_said_during_a_visit_names_the_row(lines: Lines) -> None:
    outer, inner = SiteFactory.create(), SiteFactory.create()

    def work(row: Site) -> bool:
        log.warning("working")
        if row.pk == outer.pk:
            claims.claimed(Site, inner.pk, work)
            log.warning("working")
            raise RuntimeError("nobody expected this")
        return True

    claims.claimed(Site, outer.pk, work)
    log.warning("afterwards")
    named = [(line["event"], line.get("row")) for line in lines()]
    own = f"site:{outer.pk}"
    assert named == [
        ("working", own),
        ("working", f"site:{inner.pk}"),
        ("working", own),
        ("unexpected_error", own),
        ("afterwards", None),
    ]


@app.task(name="tests.says", ignore_result=True)
def says(word: str) -> None:
    log.warning(word)


@pytest.mark.django_db(transaction=True)
def test_what_a_task_says_has_its_id_and_that_of_the_request_it_goes_back_to() -> None:
    """A worker of Celery in a thread of the test; what is sent and received is real, the broker is in memory."""
    ended = threading.Event()

    def end(**_: Any) -> None:
        connections.close_all()
        ended.set()

    task_postrun.connect(end)
    try:
        with (
            override_settings(QUEUE_ENABLED=True),
            start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=60),
            listened() as lines,  # the worker's start sets the logging up anew
        ):
            with structlog.contextvars.bound_contextvars(request_id=ASKED):
                poke("tests.says", "working")
            assert ended.wait(60)
    finally:
        task_postrun.disconnect(end)
        pulse.end()  # that worker's heartbeat, which ends with a process otherwise
    (line,) = [line for line in lines() if line["event"] == "working"]
    assert (line["task"], line["request_id"], len(line["task_id"])) == ("tests.says", ASKED, 36)
