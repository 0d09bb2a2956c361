"""Worker, scheduler and meter as processes, asked as Prometheus asks them."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from django.conf import settings

from deploy.embedded import redis
from gpuaas.core.models import Process
from tests.core.test_production import ROOT, SAFE
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until
from tests.metering.meters import database_here

TOKEN = "token-for-prometheus-alone"


@pytest.fixture
def broker() -> Iterator[str]:
    """One of its own: others' workers would take its tasks."""
    with tempfile.TemporaryDirectory(prefix="gpuaas-broker-") as folder:
        yield redis.start(Path(folder))
        redis.stop(Path(folder))


@contextlib.contextmanager
def sender(broker: str) -> Iterator[Celery]:
    """Sends tasks from outside the portal. It is not this process's own app, by which the tests after it send theirs."""
    with Celery(broker=broker, set_as_current=False) as made:
        yield made


@contextlib.contextmanager
def process(*words: str, folder: Path, broker: str, **changes: str) -> Iterator[str]:
    """Its address; it ends in order, and leaves nothing in its folder for temporary files but the schedule."""
    address = f"127.0.0.1:{free_port()}"
    mine = {"GPUAAS_METRICS_BIND": address, "GPUAAS_METRICS_TOKEN": TOKEN, "TMPDIR": str(folder), **changes}
    services = {"GPUAAS_DATABASE_URL": database_here(), "GPUAAS_BROKER_URL": broker}
    keys = {"GPUAAS_ENCRYPTION_KEYS": ",".join(settings.ENCRYPTION_KEYS)}
    others = set(Process.objects.filter(kind=words[0]).values_list("pk", flat=True))
    running = subprocess.Popen(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env={**os.environ, **SAFE, **services, **keys, **mine},
    )
    try:
        until(
            lambda: Process.objects.filter(kind=words[0]).exclude(pk__in=others).exists(),
            f"the heartbeat of {words[0]}",
        )
        assert running.poll() is None
        yield f"http://{address}/metrics"
        running.terminate()
        assert running.wait(60) in {0, -signal.SIGTERM}
    finally:
        running.kill()
    assert not list(folder.glob("gpuaas-metrics-*"))


def asked(url: str, token: str = TOKEN) -> str:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        content: bytes = answer.read()
    return content.decode()
