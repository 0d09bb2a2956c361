"""`manage.py meter` as a process: killed without a word, succeeded by another, stopped by SIGTERM."""

import signal
from collections.abc import Iterator

import pytest

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.metering.models import SiteMeter
from tests.metering.meters import Started, end, start
from tests.metering.test_meter import wait_for


@pytest.fixture
def processes() -> Iterator[Started]:
    started: Started = []
    yield started
    end(started)


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
    SiteMeter.objects.filter(site=site).update(claim_until=clock.now())  # instead of waiting until it lapses
    second = start(processes)
    heir = wait_for(lambda: proven(killed.holder), seconds=60)
    assert int(heir.cursor) >= int(killed.cursor)
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=30) == 0
    row = SiteMeter.objects.get(site=site)
    assert (row.holder, row.claim_until) == ("", None)
