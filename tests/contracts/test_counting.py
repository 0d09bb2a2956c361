"""Whichever way a site counts GPUs: found, pinned, held at what was bought, metered, and given back."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.lab.kubernetes import Lab, LabError
from gpuaas.providers.base import (
    Change,
    Connection,
    GpuAmount,
    Member,
    ObservedPool,
    UsageEvent,
    UsageKind,
    WorkspaceSpec,
)
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.fleet import fleet_seed
from tests.contracts.rigs import (
    ALICE,
    BOB,
    KubernetesRig,
    Refused,
    Rig,
    SandboxRig,
    ensure_step,
    pod,
    ref,
    release_step,
)
from tests.contracts.test_quota import running
from tests.contracts.test_usage import collect, listed, of
from tests.contracts.ways import WAYS, Way, racks, topology
from tests.lab.fixtures import LabSite, until

SANDBOX = [name for name, way in WAYS.items() if not way.by_claim]


class OnLab(KubernetesRig):
    """Its workspaces buy one way of counting and are closed to all others."""

    def __init__(self, lab: LabSite, way: Way) -> None:
        super().__init__(lab)
        self.way = way
        pools = self.driver.probe().pools
        self.gpu = amount(pool_of(pools, way), pools)
        self.closed = tuple(sorted({pool.resource_name for pool in pools} - {self.gpu.resource_name}))
        self.unsold = self.closed[0]

    def spec(self, *, gpus: int = 2, members: tuple[Member, ...] = (ALICE, BOB)) -> WorkspaceSpec:
        return replace(super().spec(gpus=gpus, members=members), closed=self.closed)

    def _start(
        self,
        spec: WorkspaceSpec,
        name: str,
        credential: str,
        resource: str,
        gpus: int,
        run_seconds: int | None,
    ) -> None:
        if not self.way.by_claim or resource != self.gpu.resource_name:
            return super()._start(spec, name, credential, resource, gpus, run_seconds)
        api, space = Api(credential), spec.external_name
        path = f"/apis/resource.k8s.io/v1/namespaces/{space}/resourceclaims"
        api.create(path, claim(name, self.way.device_class, gpus))
        body = pod(name, {}, run_seconds=run_seconds)
        body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        api.create(f"/api/v1/namespaces/{space}/pods", body)
        return None

    def stop(self, spec: WorkspaceSpec, name: str) -> None:
        super().stop(spec, name)
        if self.way.by_claim:
            path = f"/apis/resource.k8s.io/v1/namespaces/{spec.external_name}/resourceclaims/{name}"
            self._api.delete(path)


class OnSandbox(SandboxRig):
    def __init__(self, driver: SandboxDriver, site_id: uuid.UUID, way: Way) -> None:
        super().__init__(driver, site_id)
        self.way = way
        pools = driver.probe().pools
        self.gpu = amount(pool_of(pools, way), pools)
        self.unsold = next(pool.resource_name for pool in pools if pool.resource_name != way.resource)


def claim(name: str, device_class: str, count: int) -> Object:
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class, "count": count}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def pool_of(pools: tuple[ObservedPool, ...], way: Way) -> ObservedPool:
    return next(pool for pool in pools if pool.kind.slug == way.slug)


def amount(pool: ObservedPool, pools: tuple[ObservedPool, ...]) -> GpuAmount:
    alone = sum(other.resource_name == pool.resource_name for other in pools) == 1
    return GpuAmount(
        pool.resource_name,
        2,
        pool.selector,
        exclusive=alone,
        device_class=pool.device_class,
        also=pool.also,
    )


@pytest.fixture(scope="module")
def every_way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
    """A lab with a node for each way."""
    folder: Path = tmp_path_factory.mktemp("every-way")
    lab = Lab(state_dir=folder / "lab")
    try:
        lab.up(topology=topology(folder))
    except LabError as error:
        lab.down(purge=True)
        pytest.fail(str(error), pytrace=False)
    yield LabSite(lab.kubeconfig)
    lab.down(purge=True)


def _simulated(way: Way) -> OnSandbox:
    connection = Connection(site_id=uuid.uuid4(), site_slug="ber-1", endpoint="", credentials={})
    fleet_seed(connection.site_id, slug="ber-1", racks=racks())
    dials_set(connection.site_id, confirm_ms=50, grace_ms=0, namespace_ms=100)
    return OnSandbox(SandboxDriver(connection), connection.site_id, way)


@pytest.fixture(
    params=[
        *(pytest.param(("sandbox", name), id=f"sandbox-{name}") for name in SANDBOX),
        *(pytest.param(("lab", name), id=f"lab-{name}", marks=pytest.mark.lab) for name in WAYS),
    ]
)
def counting(request: pytest.FixtureRequest, db: None) -> Iterator[OnLab | OnSandbox]:
    place, name = request.param
    way = WAYS[name]
    rig = _simulated(way) if place == "sandbox" else OnLab(request.getfixturevalue("every_way"), way)
    yield rig
    rig.clean_up()


def provision(rig: Rig, spec: WorkspaceSpec) -> None:
    for step in rig.driver.steps(Change.CREATE):
        ensure_step(rig.driver, spec, step.key)


def test_found_held_metered_and_given_back(counting: OnLab | OnSandbox) -> None:
    rig, way = counting, counting.way
    inventory = rig.driver.probe()
    assert (pool_of(inventory.pools, way).resource_name, way.resource in inventory.names) == (
        way.resource,
        True,
    )
    spec = rig.spec(gpus=2)
    provision(rig, spec)
    cursor = listed(rig)

    rig.start(spec, "one")
    rig.start(spec, "two")
    found = running(rig, spec, 2)
    assert all(each.node.startswith(way.node) for each in found), "on the nodes of what was bought"
    with pytest.raises(Refused, match="exceeded quota"):
        rig.start(spec, "three")
    if rig.unsold != way.resource:
        with pytest.raises(Refused):
            rig.start(spec, "another", resource=rig.unsold)
    until(lambda: rig.driver.observe(ref(spec)).used[way.resource] == 2, "both are counted")
    assert rig.driver.observe(ref(spec)).hard[way.resource] == 2
    until(lambda: allocated(rig, way) == 2, "both are seen on the node")

    rig.stop(spec, "one")
    last = collect(rig, cursor, ended(spec, "one"))[-1].consumer
    assert last is not None
    assert (dict(last.gpus), last.started_at is not None) == ({way.resource: 1}, True)
    until(lambda: rig.driver.observe(ref(spec)).used[way.resource] == 1, "given back")
    rig.start(spec, "four")
    running(rig, spec, 2)

    for step in rig.driver.steps(Change.DELETE):
        release_step(rig.driver, spec, step.key)
    assert not rig.driver.observe(ref(spec)).exists
    until(lambda: allocated(rig, way) == 0, "nothing is held any more")


def ended(spec: WorkspaceSpec, name: str) -> Callable[[UsageEvent], bool]:
    """The end of what held devices: of the pod, or of the claim that it brought."""
    return lambda event: (
        of(spec, name)(event)
        and event.consumer is not None
        and bool(event.consumer.gpus)
        and (event.kind is UsageKind.GONE or event.consumer.ended_at is not None)
    )


def allocated(rig: Rig, way: Way) -> int:
    return sum(node.allocated for node in rig.driver.probe().nodes if node.kind_slug == way.slug)


SEVERAL = ("whole", "mig mixed", "shared, renamed", "class, by extended resource", "class, by its own name")


@pytest.mark.lab
def test_one_workspace_holds_several_ways_apart(every_way: LabSite, db: None) -> None:
    """Each to its own nodes and each to its own count, though one of the names means five pools here."""
    ways = [WAYS[name] for name in SEVERAL]
    rig = OnLab(every_way, ways[0])
    pools = rig.driver.probe().pools
    amounts = tuple(replace(amount(pool_of(pools, way), pools), count=1) for way in ways)
    bought = {each.resource_name for each in amounts}
    closed = tuple(sorted({pool.resource_name for pool in pools} - bought))
    spec = replace(rig.spec(), gpus=amounts, closed=closed)
    try:
        provision(rig, spec)
        for way in ways:
            rig.start(spec, f"on-{way.node}", resource=way.resource)
        found = {each.name: each.node for each in running(rig, spec, len(ways))}
        assert found == {f"on-{way.node}": way.node for way in ways}
        for way in ways:
            with pytest.raises(Refused, match="exceeded quota"):
                rig.start(spec, f"more-{way.node}", resource=way.resource)
        with pytest.raises(Refused):
            rig.start(spec, "unsold", resource="nvidia.com/t4-small")
    finally:
        rig.clean_up()
