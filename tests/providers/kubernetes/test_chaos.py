"""The API server, etcd and the meter are killed in turn while pods start and finish: no interval lost, doubled or negative.

The truth is what the site itself kept: the pods' own objects, read by a client of the test's own at the end.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connection

from deploy.lab.kubernetes import Lab
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.errors import GpuaasError
from gpuaas.metering.models import EndedBy, SiteMeter, UsageInterval
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from tenants.models import Project, User
from tests.contracts.rigs import pod
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.lab.fixtures import LabSite, until
from tests.metering.stage import utc
from tests.providers.kubernetes.conftest import H100, make_spec, provision

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("own-lab"), pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).resolve().parents[3]
GPU = {"nvidia.com/gpu": "1"}
AT_ONCE = 8
Interval = tuple[str, datetime, datetime | None]


@dataclass
class Load:
    """Pods that start and finish all the time, one after the other in each thread, of 0 to 3 seconds."""

    api: Api
    space: str
    stop: threading.Event = field(default_factory=threading.Event)
    made: int = 0

    def run(self, number: int) -> None:
        turn = 0
        while not self.stop.is_set():
            turn += 1
            name = f"pod-{number}-{turn}"
            body = pod(name, GPU, run_seconds=turn % 4)
            try:
                self.api.create(f"/api/v1/namespaces/{self.space}/pods", body)
                self.made += 1
            except (
                GpuaasError
            ):  # it may have been made all the same: what the site keeps in the end is the truth
                self.stop.wait(0.2)
            while not self.stop.is_set() and not self._is_over(name):
                self.stop.wait(0.2)

    def _is_over(self, name: str) -> bool:
        try:
            found = self.api.find(f"/api/v1/namespaces/{self.space}/pods/{name}")
        except GpuaasError:
            return False
        return found is None or found["status"].get("phase") == "Succeeded"


class MeterProcess:
    """`manage.py meter` on the test's database."""

    def __init__(self) -> None:
        given = connection.settings_dict
        host, port = quote(str(given["HOST"] or ""), safe=""), f":{given['PORT']}" if given["PORT"] else ""
        login = quote(str(given["USER"])) + (f":{quote(str(given['PASSWORD']))}" if given["PASSWORD"] else "")
        self._environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "gpuaas.settings.test",
            "GPUAAS_TEST_DATABASE_URL": f"postgres://{login}@{host}{port}/{given['NAME']}",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "meter"], cwd=ROOT, env=self._environment, stderr=subprocess.DEVNULL
        )

    def end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(timeout=30)


@dataclass(frozen=True)
class World:
    lab: Lab
    api: Api
    space: str
    site: Site
    meter: MeterProcess
    load: Load

    def proven_since(self, moment: datetime) -> None:
        """The meter has heard of the site after `moment`."""
        rows = SiteMeter.objects.filter(site=self.site, last_proof_at__gt=moment)
        until(rows.exists, "the meter goes on", seconds=120)

    def ended(self) -> int:
        return UsageInterval.objects.filter(site=self.site, ended_at__isnull=False).count()

    def under_load(self, more: int = 8) -> None:
        """Some more pods have finished and are counted."""
        wanted = self.ended() + more
        until(lambda: self.ended() >= wanted, f"{more} more pods are counted", seconds=120)


@pytest.fixture
def world(own_lab: Lab, project: Project, alice: User) -> Iterator[World]:
    site: Site = SiteFactory.create(
        driver="kubernetes", credentials=encrypt_json({"kubeconfig": own_lab.kubeconfig.read_text()})
    )
    workspace: Workspace = Workspace.objects.create(
        id=uuid.uuid4(),
        project=project,
        site=site,
        name="chaos",
        state="ready",
        lease_ends_at=utc("2030-01-01"),
        created_by=alice,
        created_at=utc("2026-01-01"),
    )
    flavor: Flavor = FlavorFactory.create(pool=GpuPoolFactory.create(site=site))
    WorkspaceFlavor.objects.create(workspace=workspace, flavor=flavor, count=16, confirmed=16)
    lab, space = LabSite(own_lab.kubeconfig), workspace.external_name
    gpu = replace(H100, count=16)
    provision(lab.driver(), make_spec(id=workspace.pk, external_name=space, gpus=(gpu,)))
    api, load, meter = lab.api(), Load(lab.api(), space), MeterProcess()
    meter.start()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        try:
            made = World(own_lab, api, space, site, meter, load)
            made.proven_since(utc("2026-01-01"))
            for number in range(AT_ONCE):
                threads.submit(load.run, number)
            yield made
        finally:
            load.stop.set()
            meter.end(signal.SIGKILL)


def test_nothing_is_lost_doubled_or_negative(world: World) -> None:
    world.under_load()
    for program in ("kube-apiserver", "etcd"):
        world.lab.stop_program(program, kill=True)
        time.sleep(1)  # it is away for a while: pods that run meanwhile finish when it is back
        began = clock.now()
        world.lab.start_program(program)
        world.proven_since(began)
        world.under_load()
    world.meter.end(signal.SIGKILL)
    SiteMeter.objects.update(claim_until=clock.now())  # instead of waiting until it lapses
    made = world.load.made
    until(lambda: world.load.made > made + 8, "pods start and finish while nobody counts")
    began = clock.now()
    world.meter.start()
    world.proven_since(began)
    world.under_load()
    world.load.stop.set()
    truth = until(lambda: finished(world.api, world.space), "all pods have finished", seconds=120)
    assert len(truth) >= 40
    until(lambda: world.ended() >= len(truth), "all ends are counted", seconds=60)
    rows = UsageInterval.objects.filter(site=world.site)
    assert sorted(rows.values_list("consumer_uid", "started_at", "ended_at")) == truth
    assert set(rows.values_list("ended_by", "quantity", "surplus")) == {(EndedBy.OBSERVED.value, 1, False)}


def finished(api: Api, space: str) -> list[Interval] | None:
    """What each pod says of itself; None while one still runs or waits."""
    found = []
    for body in api.items(f"/api/v1/namespaces/{space}/pods"):
        if body["status"].get("phase") != "Succeeded":
            return None
        found.append((body["metadata"]["uid"], _bound(body), _last_finish(body)))
    return sorted(found)


def _bound(body: Object) -> datetime:
    conditions = {each["type"]: each for each in body["status"]["conditions"]}
    return datetime.fromisoformat(conditions["PodScheduled"]["lastTransitionTime"])


def _last_finish(body: Object) -> datetime:
    states = [each["state"]["terminated"] for each in body["status"]["containerStatuses"]]
    return max(datetime.fromisoformat(each["finishedAt"]) for each in states)
