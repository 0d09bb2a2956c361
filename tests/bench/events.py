"""Pod events from the lab's API server to rows in the database, against reading the same watch and doing nothing with it.

The pods are real objects whose life is written by this bench instead of a kubelet, so that thousands of events lie ready and the
API server sends them as fast as it can.
"""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.errors import GpuaasError
from gpuaas.metering.batch import Batch
from gpuaas.metering.meter import FLUSH_EVENTS
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.services import meter_claim, meter_flush
from gpuaas.metering.stream import End, Stream
from gpuaas.metering.warden import Ledger
from gpuaas.providers.base import GpuAmount, UsageKind, WorkspaceSpec
from gpuaas.providers.kubeapi import manifests
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards import install
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from gpuaas.workspaces.site import driver_of
from tests.bench.ready import lab_kubeconfig
from tests.bench.table import Measured
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.factories.tenants import ProjectFactory, UserFactory

PODS, WORKSPACES, WRITERS, ROUNDS = 1200, 12, 8, 5
WRITE_SECONDS = 40.0  # the API server keeps what is younger than 75 s for those who watch
PATH = "/api/v1/pods"


def measure() -> list[Measured]:
    kubeconfig = lab_kubeconfig()
    api = Api(kubeconfig)
    install(api)
    site, specs = _stage(kubeconfig)
    spaces = [spec.external_name for spec in specs]
    try:
        for spec in specs:
            api.apply("/api/v1/namespaces", manifests.namespace(spec))
        _until_let_in(api, spaces[0])
        cursor, version = _now(site, api)
        pods = _live(kubeconfig, spaces)
        told = [
            (_raw(api, version, set(spaces), pods), _ours(site, cursor, set(spaces), pods))
            for _ in range(ROUNDS)
        ]
    finally:
        for space in spaces:
            api.delete(f"/api/v1/namespaces/{space}")
    floor, ours = (
        statistics.median(events / seconds for events, seconds in column)
        for column in zip(*told, strict=True)
    )
    rounds = ", ".join(f"{raw[1] / ours[1]:.2f}" for raw, ours in told)
    note = f"{told[0][0][0]:,} events of {pods:,} pods, until committed; rounds {rounds}"
    return [Measured("pod events ingested", "/s", ours, floor, "same watch, read as JSON", note=note)]


def _stage(kubeconfig: str) -> tuple[Site, list[WorkspaceSpec]]:
    site: Site = SiteFactory.create(
        slug="bench-events", driver="kubernetes", credentials=encrypt_json({"kubeconfig": kubeconfig})
    )
    flavor: Flavor = FlavorFactory.create(pool=GpuPoolFactory.create(site=site), slug="bench-events.1")
    project, user, now = ProjectFactory.create(slug="bench-events"), UserFactory.create(), clock.now()
    made = [
        Workspace.objects.create(
            project=project,
            site=site,
            name=f"events-{number}",
            state="ready",
            lease_ends_at=now + timedelta(days=1),
            created_by=user,
            created_at=now,
        )
        for number in range(WORKSPACES)
    ]
    for each in made:
        WorkspaceFlavor.objects.create(workspace=each, flavor=flavor, count=PODS, confirmed=PODS)
    return site, [_spec(each) for each in made]


def _spec(workspace: Workspace) -> WorkspaceSpec:
    return WorkspaceSpec(
        id=workspace.pk,
        external_name=workspace.external_name,
        project_slug="bench-events",
        organization_slug="bench",
        gpus=(GpuAmount("nvidia.com/gpu", PODS, {"gpuaas.io/pool": "h100-sxm-80gb"}),),
        vcpus=16,
        memory_gib=180,
        storage_gib=10,
        members=(),
    )


def _now(site: Site, api: Api) -> tuple[str, str]:
    """The cursor of the meter, and the version of pods, from which both will read."""
    driver = driver_of(site)
    assert isinstance(driver, KubernetesDriver)
    events = driver.watch_usage("", seconds=1)
    cursor = next(event.cursor for event in events if event.kind is UsageKind.RELISTED)
    version: str = api.get(PATH, limit="1")["metadata"]["resourceVersion"]
    return cursor, version


def _until_let_in(api: Api, space: str) -> None:
    """Policies act a moment after they were written."""
    end = time.monotonic() + 30
    while True:
        try:
            api.create(f"/api/v1/namespaces/{space}/pods", _pod(0), dryRun="All")
        except GpuaasError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def _live(kubeconfig: str, spaces: list[str]) -> int:
    """How many pods have lived a whole life."""
    end = time.monotonic() + WRITE_SECONDS
    with ThreadPoolExecutor(WRITERS) as threads:
        return sum(threads.map(lambda n: _lives(Api(kubeconfig), spaces, n, end), range(WRITERS)))


def _lives(api: Api, spaces: list[str], first: int, end: float) -> int:
    done = 0
    for number in range(first, PODS, WRITERS):
        if time.monotonic() > end:
            break
        collection = f"/api/v1/namespaces/{spaces[number % len(spaces)]}/pods"
        api.create(collection, _pod(number))
        path = f"{collection}/pod-{number}"
        for status in _statuses():
            api.merge(f"{path}/status", {"status": status})
        api.delete(path, gracePeriodSeconds="0")
        done += 1
    return done


def _pod(number: int) -> Object:
    """As tenants write them: labels, environment, requests. Behind a gate, so that the scheduler leaves it to us."""
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "args": ["--epochs", "10", "--data", "/data"],
        "env": [{"name": f"SETTING_{each}", "value": f"value-{each}"} for each in range(6)],
        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}},
    }
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"app": "train", "run": f"run-{number}"}},
        "spec": {
            "schedulingGates": [{"name": "gpuaas.io/bench"}],
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
        },
    }


def _statuses() -> list[Object]:
    now = clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")

    def condition(kind: str) -> Object:
        return {"type": kind, "status": "True", "lastTransitionTime": now}

    def container(state: Object) -> Object:
        named = {"name": "main", "image": "x", "imageID": "x", "ready": True, "restartCount": 0}
        return named | {"state": state}

    running = {"running": {"startedAt": now}}
    ended = {"terminated": {"exitCode": 0, "startedAt": now, "finishedAt": now}}
    kinds = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
    return [
        {"phase": "Pending", "conditions": [condition("PodScheduled")]},
        {
            "phase": "Running",
            "conditions": [condition(kind) for kind in kinds],
            "containerStatuses": [container(running)],
        },
        {"phase": "Succeeded", "containerStatuses": [container(ended)]},
    ]


def _raw(api: Api, version: str, spaces: set[str], pods: int) -> tuple[int, float]:
    """How many events of our namespaces there are until the last pod is gone, and in how many seconds from the first."""
    seen, gone, began = 0, 0, 0.0
    for event in api.watch(PATH, version=version, seconds=60):
        if event["object"]["metadata"].get("namespace") in spaces:
            began = began or time.monotonic()
            seen += 1
            gone += event["type"] == "DELETED"
            if gone == pods:
                return seen, time.monotonic() - began
    raise RuntimeError(f"{gone} of {pods} pods are gone")


def _ours(site: Site, cursor: str, spaces: set[str], pods: int) -> tuple[int, float]:
    """All that the meter does with an event, from the first until the last is committed; without its pauses."""
    UsageInterval.objects.filter(site=site).delete()
    meter_claim(site_id=site.pk, holder="bench", now=clock.now(), seconds=600)
    driver = driver_of(site)
    assert isinstance(driver, KubernetesDriver)
    seen, gone, batch, ledger = 0, 0, Batch(), Ledger({})
    began = 0.0
    stream = Stream(driver, cursor, seconds=60, name="bench")
    try:
        while gone < pods:
            for item in stream.take(timeout=0.25):
                if isinstance(item, End):
                    raise item.error or RuntimeError(f"{gone} of {pods} pods are gone")
                ledger.note(item)
                batch.add(item)
                if item.workspace_name in spaces:
                    began = began or time.monotonic()
                    seen += 1
                    gone += item.kind is UsageKind.GONE
            if len(batch.events) >= FLUSH_EVENTS or gone == pods:
                events = batch.take()
                meter_flush(
                    site_id=site.pk, holder="bench", events=events, now=clock.now(), claim_seconds=600
                )
        seconds = time.monotonic() - began
    finally:
        stream.close()
    ended = UsageInterval.objects.filter(site=site, ended_at__isnull=False).count()
    if ended != pods:
        raise RuntimeError(f"{ended} of {pods} intervals")
    return seen, seconds
