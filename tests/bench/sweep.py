"""One sweep over 200 projects of the OpenStack lab, field by field, against the very same calls made bare.

What counts is how many calls it takes: the same for every project, however many machines there are, and the site's own once.
"""

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import requests

from deploy.lab.openstack import Lab
from gpuaas.core.ids import short
from gpuaas.providers.base import Change, Connection, FlavorAmount, GpuAmount, WorkspaceSpec
from gpuaas.providers.openstack import projects
from gpuaas.providers.openstack.client import shared
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.bench.table import Measured
from tests.contracts.rigs import ensure_step, release_step
from tests.lab.openstack.fixtures import STATE_DIR
from tests.providers.openstack.calls import Calls, counted

PROJECTS, AT_ONCE = 200, 4
H100, ALIAS = "CUSTOM_PCI_10DE_2330", {"pci_passthrough:alias": "h100"}
FLAVOR = FlavorAmount("bench-h100", 1, 1, 4, 8, 1, H100, ALIAS)


def measure() -> list[Measured]:
    lab = Lab(state_dir=STATE_DIR)
    lab.up()
    credentials = {"clouds_yaml": lab.clouds.read_text(), "cloud": "lab"}
    connection = Connection(uuid.uuid4(), "bench", "", credentials, {"aliases": {H100: "h100"}})
    specs = [_spec() for _ in range(PROJECTS)]
    try:
        _all(partial(_make, connection), specs)
        _all(partial(_look, connection), specs[:AT_ONCE])  # pays for what a process does once
        with counted() as calls:
            ours = _all(partial(_look, connection), specs)
        floor = _bare(calls)
    finally:
        _all(partial(_remove, connection), specs)
    words = f"{calls.count:,} calls for {PROJECTS} projects, {calls.count / PROJECTS:.1f} each, whatever their machines"
    what = f"projects compared and observed, {AT_ONCE} at once"
    return [Measured(what, "/s", PROJECTS / ours, PROJECTS / floor, "the same calls, bare HTTP", note=words)]


def _spec() -> WorkspaceSpec:
    key = uuid.uuid4()
    return WorkspaceSpec(
        id=key,
        external_name=f"gpu-{short(key)}-bench",
        project_slug="bench",
        organization_slug="bench",
        gpus=(GpuAmount(H100, 1, ALIAS),),
        vcpus=4,
        memory_gib=8,
        storage_gib=0,
        members=(),
        flavors=(FLAVOR,),
    )


def _all(work: Callable[[WorkspaceSpec], object], specs: list[WorkspaceSpec]) -> float:
    """Seconds."""
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(work, specs))
    return time.monotonic() - began


def _make(connection: Connection, spec: WorkspaceSpec) -> None:
    driver = OpenStackDriver(connection)
    for step in driver.steps(Change.CREATE):
        ensure_step(driver, spec, step.key)


def _look(connection: Connection, spec: WorkspaceSpec) -> None:
    """A visit of the reconciler's."""
    driver = OpenStackDriver(connection)
    if told := driver.drift(spec):
        raise RuntimeError(f"{spec.external_name} differs: {told}")
    if not driver.observe(spec.ref).exists:
        raise RuntimeError(f"{spec.external_name} is not there")


def _bare(calls: Calls) -> float:
    """Seconds that the same calls take over connections that are kept, with nothing around them."""

    def ask(part: list[requests.PreparedRequest]) -> None:
        with requests.Session() as session:
            for request in part:
                session.send(request, timeout=60).raise_for_status()

    parts = [calls.made[number::AT_ONCE] for number in range(AT_ONCE)]
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(ask, parts))
    return time.monotonic() - began


def _remove(connection: Connection, spec: WorkspaceSpec) -> None:
    cloud = shared(connection.credentials)
    if projects.marked_project(cloud, spec.external_name, spec.id) is None:
        return
    driver = OpenStackDriver(connection)
    for step in driver.steps(Change.DELETE):
        release_step(driver, spec, step.key)
