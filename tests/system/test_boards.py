"""Every query of the boards, asked of a real Prometheus that scrapes a real portal: each finds what it names."""

import contextlib
import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from deploy.lab.prometheus import program
from gpuaas.core import clock
from gpuaas.core.models import Process, ProcessKind
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.core.scraped import broker, process, sender
from tests.factories.catalog import SiteFactory
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until
from tests.system.scene import TOKEN, full_swing
from tests.web.process import web_process

__all__ = ["broker"]
BOARDS = sorted((Path(__file__).resolve().parents[2] / "deploy" / "grafana").glob("*.json"))
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(program("prometheus") is None, reason="prometheus is not on this machine"),
]


def config(portal: str, worker: str) -> str:
    """As in docs/operators/alerts.md, but asked every second."""
    target = portal.removeprefix("http://")
    jobs: list[dict[str, Any]] = [
        {
            "job_name": path.strip("/").replace("/", "-"),
            "metrics_path": path,
            "authorization": {"credentials": TOKEN},
            "static_configs": [{"targets": [target]}],
        }
        for path in ("/metrics", "/metrics/portal")
    ]
    jobs.append(
        {
            "job_name": "worker",
            "authorization": {"credentials": TOKEN},
            "static_configs": [{"targets": [worker.removeprefix("http://").removesuffix("/metrics")]}],
        }
    )
    return json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs})


@contextlib.contextmanager
def prometheus(portal: str, worker: str, folder: Path) -> Iterator[str]:
    """Its address, while it runs."""
    address = f"127.0.0.1:{free_port()}"
    (folder / "prometheus.yml").write_text(config(portal, worker), "utf-8")
    process = subprocess.Popen(
        [
            str(program("prometheus")),
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={address}",
            "--log.level=warn",
        ]
    )
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait(30)


def asked(server: str, query: str) -> list[Any]:
    """The samples that the query finds now and that are numbers; none as long as the server does not answer."""
    with contextlib.suppress(OSError):
        text = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"{server}/api/v1/query?{text}", timeout=30) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return [sample for sample in found if sample["value"][1] != "NaN"]
    return []


def queries() -> list[tuple[str, str]]:
    """(where, the query) of each panel."""
    panels = [
        (path.stem, panel) for path in BOARDS for panel in json.loads(path.read_text("utf-8"))["panels"]
    ]
    return [
        (f"{board}: {panel['title']}", row["expr"]) for board, panel in panels for row in panel["targets"]
    ]


def work(queue: Celery) -> None:
    """For a worker: a visit, a site that answers and one that does not."""
    workspace, down = Workspace.objects.order_by("pk")[0], SiteFactory.create()
    Workspace.objects.filter(pk=workspace.pk).update(due_at=clock.now(), claim_until=None)
    dials_set(down.pk, down=True)
    for task, pk in (
        ("workspaces.reconcile", workspace.pk),
        ("catalog.probe", workspace.site_id),
        ("catalog.probe", down.pk),
    ):
        queue.send_task(task, args=[str(pk)], ignore_result=True)


def test_every_query_of_the_boards_finds_what_it_names(tmp_path: Path, olga: User, broker: str) -> None:
    full_swing(olga)
    Process.objects.filter(kind=ProcessKind.METER).delete()  # so that one part is sick
    with (
        web_process(GPUAAS_METRICS_TOKEN=TOKEN) as portal,
        process("worker", folder=tmp_path, broker=broker) as worker,
        prometheus(portal.url, worker, tmp_path) as server,
        sender(broker) as queue,
    ):
        work(queue)
        sick = urllib.request.Request(
            f"{portal.url}/health/parts", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(sick, timeout=60)
        until(lambda: len(asked(server, "up == 1")) == 3, "all addresses are scraped")
        until(partial(asked, server, "gpuaas_site_call_seconds_count"), "calls are counted")
        work(queue)  # a rate has to rise from something that was seen
        for where, query in queries():
            until(partial(asked, server, query), f"{where}: {query}")
