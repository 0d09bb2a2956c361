"""`manage.py meter` as a process: killed without a word, succeeded by another, stopped by SIGTERM."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connection

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.metering.models import SiteMeter
from tests.metering.test_meter import wait_for

ROOT = Path(__file__).parent.parent.parent
Started = list[subprocess.Popen[bytes]]


def start(processes: Started) -> subprocess.Popen[bytes]:
    given = connection.settings_dict
    host, port = quote(str(given["HOST"] or ""), safe=""), f":{given['PORT']}" if given["PORT"] else ""
    login = quote(str(given["USER"])) + (f":{quote(str(given['PASSWORD']))}" if given["PASSWORD"] else "")
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "gpuaas.settings.test",
        "GPUAAS_TEST_DATABASE_URL": f"postgres://{login}@{host}{port}/{given['NAME']}",
    }
    process = subprocess.Popen([sys.executable, "manage.py", "meter"], cwd=ROOT, env=environment)
    processes.append(process)
    return process


@pytest.fixture
def processes() -> Iterator[Started]:
    started: Started = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.django_db(transaction=True)
def test_a_killed_meter_is_succeeded_and_a_stopped_one_leaves_in_order(
    site: Site, processes: Started
) -> None:
    def proven(holder_is_not: str = "") -> SiteMeter | None:
        rows = SiteMeter.objects.filter(site=site, last_proof_at__isnull=False)
        return rows.exclude(holder__in=["", holder_is_not]).first()

    first = start(processes)
    killed = wait_for(proven, seconds=60)
    first.kill()
    first.wait()
    SiteMeter.objects.filter(site=site).update(lease_until=clock.now())  # instead of waiting until it lapses
    second = start(processes)
    heir = wait_for(lambda: proven(killed.holder), seconds=60)
    assert int(heir.cursor) >= int(killed.cursor)
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=30) == 0
    row = SiteMeter.objects.get(site=site)
    assert (row.holder, row.lease_until) == ("", None)
