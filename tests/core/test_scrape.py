"""What worker, scheduler and meter tell Prometheus, and whom they tell nothing."""

import contextlib
import os
import signal
import urllib.error
from functools import partial
from pathlib import Path

import pytest

from gpuaas.catalog.models import Site
from gpuaas.core.models import Process
from gpuaas.providers.sandbox.dials import dials_set
from tests.core.scraped import TOKEN, asked, broker, process, sender
from tests.factories.catalog import SiteFactory
from tests.lab.fixtures import until

__all__ = ["broker"]
pytestmark = pytest.mark.django_db(transaction=True)


def calls(page: str, site: Site, outcome: str) -> float:
    about = f'driver="sandbox",outcome="{outcome}",site="{site.slug}",verb="probe"'
    lines = [line for line in page.splitlines() if line.startswith("gpuaas_site_call_seconds_count{" + about)]
    return float(lines[0].rpartition(" ")[2]) if lines else 0


def test_a_worker_tells_what_its_children_did_even_of_one_that_died(broker: str, tmp_path: Path) -> None:
    good, down = SiteFactory.create(), SiteFactory.create()
    dials_set(down.pk, down=True)
    with (
        sender(broker) as queue,
        process("worker", "--concurrency", "1", folder=tmp_path, broker=broker) as url,
    ):

        def probe(site: Site) -> None:
            Site.objects.filter(pk=site.pk).update(claim_until=None, due_at="2020-01-01T00:00:00Z")
            queue.send_task("catalog.probe", args=[str(site.pk)], ignore_result=True)

        probe(good)
        probe(down)
        until(lambda: calls(asked(url), down, "unavailable") == 1, "the children's counts")
        assert calls(asked(url), good, "ok") == 1
        os.kill(Process.objects.get(kind="worker").pid, signal.SIGKILL)
        until(lambda: Process.objects.filter(kind="worker").count() == 2, "another child")
        probe(good)
        until(lambda: calls(asked(url), good, "ok") == 2, "the sum of both children")
        for answer, address, token in (
            ("401", url, ""),
            ("401", url, "another"),
            ("404", f"{url}/portal", TOKEN),
        ):
            with pytest.raises(urllib.error.HTTPError, match=answer):
                asked(address, token)


def test_meter_and_scheduler_tell_of_themselves(broker: str, tmp_path: Path) -> None:
    for name in ("meter", "scheduler"):
        with process(name, folder=tmp_path, broker=broker) as url:
            until(partial(answers, url), "its answer")
            assert "process_cpu_seconds_total" in asked(url)


def test_without_a_token_nothing_is_served(broker: str, tmp_path: Path) -> None:
    with process("meter", folder=tmp_path, broker=broker, GPUAAS_METRICS_TOKEN="") as url:
        assert not answers(url)


def answers(url: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(asked(url))
    return False
