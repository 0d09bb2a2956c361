"""Traces by OpenTelemetry, as a collector gets them: from the request to the call to the site, without anything secret."""

import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from celery.contrib.testing.worker import start_worker
from celery.signals import task_postrun
from django.core.exceptions import ImproperlyConfigured, MiddlewareNotUsed
from django.db import connections
from django.http import HttpResponse
from django.test import Client
from kombu.transport.memory import Channel

from gpuaas.catalog.models import Site
from gpuaas.celery import app
from gpuaas.core import env, pulse, traces
from gpuaas.core.errors import Unavailable
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.core.collector import Collector, collector, said
from tests.e2e.portal import wait_until
from tests.factories.quotas import limits_give
from tests.web.process import web_process
from tests.workspaces.stage import fast

CANARY = "canary-51c0ffee-sings"
PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
ASKED = {"name": "train-7b", "items": [{"flavor": "h100.1", "count": 2}], "storage_gib": 100}


@pytest.fixture
def found(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setattr(traces, "END_SECONDS", 60)  # all of it arrives, however slow the machine is
    with collector() as one:
        settings.TRACES_ENDPOINT = one.url
        yield one
        traces.end()


@contextmanager
def worker(task: str) -> Iterator[threading.Event]:
    """In a thread of the test; what is sent and received is real, the broker is in memory. The event: `task` has ended."""
    ended = threading.Event()

    def end(task_id: str, **about: Any) -> None:
        connections.close_all()
        if about["task"].name == task:
            ended.set()

    task_postrun.connect(end)
    try:
        with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=60):
            yield ended
    finally:
        task_postrun.disconnect(end)
        pulse.end()
        Channel.queues.clear()  # what was sent meanwhile is nobody else's


@pytest.mark.django_db(transaction=True)
def test_from_the_request_to_the_call_to_the_site(
    alice: User, project: Project, site: Site, found: Collector, settings: Any
) -> None:
    settings.QUEUE_ENABLED = True
    limits_give(project)
    fast(site)
    with worker("workspaces.reconcile") as ended:
        made = Caller(alice).post("/projects/weather-lm/workspaces", ASKED, Idempotency_Key=uuid4().hex)
        assert made.status == 202, made.json
        assert ended.wait(120)
        traces.end()
    asked, task = found.one("POST api:workspaces"), found.one("workspaces.reconcile")
    visit, call = found.one("visit workspace"), found.one("sandbox perform")
    assert (asked.parent_span_id, task.parent_span_id) == (b"", asked.span_id)
    assert (visit.parent_span_id, call.parent_span_id) == (task.span_id, visit.span_id)
    assert {span.trace_id for span in (task, visit, call)} == {asked.trace_id}
    request_id = made.headers["X-Request-ID"]
    assert said(asked) == {
        "http.request.method": "POST",
        "http.route": "api/v1/projects/<name_slug:project>/workspaces",
        "http.response.status_code": 202,
        "gpuaas.request_id": request_id,
    }
    assert said(task)["gpuaas.request_id"] == request_id
    assert said(visit)["gpuaas.row"] == f"workspace:{made.json['id']}"
    assert said(call) == {"gpuaas.site": site.slug}
    assert found.services == {"gpuaas-worker"}


def refused() -> None:
    with traces.span("call") as told:
        told.error = "unavailable"
        raise Unavailable(CANARY)


@pytest.mark.django_db
def test_what_people_and_machines_say_is_in_no_span(found: Collector) -> None:
    traces.begin("web")
    client = Client(headers={"traceparent": PARENT, "Authorization": f"Bearer {CANARY}"})
    client.get(f"/health/live?token={CANARY}")
    client.get(f"/{CANARY}")
    client.generic(CANARY.upper(), "/health/live")
    client.post("/accounts/login/", {"login": CANARY, "password": CANARY})
    with pytest.raises(ValueError, match=CANARY), traces.span("outer"):
        raise ValueError(CANARY)
    with pytest.raises(Unavailable):
        refused()
    traces.end()
    names = ["GET health_live", "GET unknown", "_OTHER health_live", "POST account_login", "outer", "call"]
    assert found.names() == names
    assert CANARY.encode() not in found.raw.lower()
    assert [said(span).get("error.type") for span in found.spans[-2:]] == ["ValueError", "unavailable"]
    assert {span.parent_span_id for span in found.spans} == {
        b""
    }  # nobody outside decides what is traced, or below what


@pytest.mark.django_db
def test_a_collector_that_is_away_harms_nobody(settings: Any) -> None:
    settings.TRACES_ENDPOINT = "http://127.0.0.1:9"  # nobody listens there
    traces.begin("web")
    assert Client().get("/health/live").status_code == 200
    traces.end()
    assert Client().get("/health/live").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_a_web_process_sends_what_it_answered() -> None:
    with collector() as found:
        with web_process(OTEL_EXPORTER_OTLP_ENDPOINT=f"{found.url}/") as web:
            urllib.request.urlopen(f"{web.url}/health/live", timeout=60).close()
            wait_until("its span", lambda: "GET health_live" in found.names())
        assert said(found.one("GET health_live"))["http.response.status_code"] == 200
        assert found.services == {"gpuaas-web"}


OFF = """
import sys, django
django.setup()
from gpuaas.core import traces
traces.begin("web")
with traces.span("work") as told:
    told.error = "none of it"
assert traces.carried() == {}
assert not [name for name in sys.modules if name.startswith("opentelemetry.sdk")]
"""


def test_without_a_collector_nothing_is_loaded_measured_or_sent(settings: Any) -> None:
    assert settings.TRACES_ENDPOINT == ""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "gpuaas.settings.test"}
    subprocess.run([sys.executable, "-c", OFF], env=environment, check=True)
    with pytest.raises(MiddlewareNotUsed):
        traces.TraceMiddleware(lambda _: HttpResponse())


@pytest.mark.parametrize(
    ("url", "taken"), [("", ""), ("http://c:4318/", "http://c:4318"), ("https://c", "https://c")]
)
def test_addresses_of_collectors(monkeypatch: pytest.MonkeyPatch, url: str, taken: str) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    assert env.collector("OTEL_EXPORTER_OTLP_ENDPOINT") == taken


def test_what_is_no_address_or_lacks_its_packages_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")
    with pytest.raises(ImproperlyConfigured, match="OTEL_EXPORTER_OTLP_ENDPOINT is not an http"):
        env.collector("OTEL_EXPORTER_OTLP_ENDPOINT")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(ImproperlyConfigured, match=r"gpuaas\[traces\]"):
        env.collector("OTEL_EXPORTER_OTLP_ENDPOINT")
