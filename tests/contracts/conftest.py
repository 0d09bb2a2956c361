"""Each test of this folder runs once for every driver: on the simulated site, and on the real control planes."""

import uuid
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from gpuaas.providers.base import Change, Connection, Driver, NodeCheckCapability, WorkspaceSpec
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from gpuaas.providers.kubernetes.openshift.driver import OpenShiftDriver
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.fleet import fleet_seed
from tests.contracts.rigs import (
    KubernetesRig,
    OpenStackRig,
    RealPodsRig,
    Rig,
    SandboxRig,
    ensure_step,
    release_step,
)
from tests.lab.fixtures import LabSite
from tests.providers.openshift.site import crds_load

Drive = Callable[[WorkspaceSpec], None]


LAB = pytest.mark.lab
REAL_PODS = "real-pods"
# its nodes have neither the vendor's image nor a node without GPUs
NOT_ON_REAL_PODS = NodeCheckCapability

DRIVERS: dict[str, tuple[type[Driver], tuple[pytest.MarkDecorator, ...]]] = {
    "sandbox": (SandboxDriver, ()),
    "kubernetes": (KubernetesDriver, (LAB,)),
    "openshift": (OpenShiftDriver, (LAB,)),
    REAL_PODS: (KubernetesDriver, (LAB,)),
    "openstack": (OpenStackDriver, (pytest.mark.openstack,)),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A file that NEEDS a capability, or a change, runs for every driver that has it."""
    if "rig" in metafunc.fixturenames:
        needs = getattr(metafunc.module, "NEEDS", Driver)
        able = [
            pytest.param(name, marks=marks)
            for name, (driver, marks) in DRIVERS.items()
            if (needs in driver.changes if isinstance(needs, Change) else issubclass(driver, needs))
            and not (name == REAL_PODS and needs is NOT_ON_REAL_PODS)
        ]
        metafunc.parametrize("rig", able, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest, rig: Rig) -> str:
    """Of the rig: its parameter."""
    found: str = request.node.callspec.params["rig"]
    return found


@pytest.fixture
def rig(request: pytest.FixtureRequest, db: None) -> Iterator[Rig]:
    """openshift: on the same control plane, with its kinds of quota and route loaded and without its projects."""
    made = _sandbox() if request.param == "sandbox" else _on_lab(request, request.param)
    yield made
    made.clean_up()


def _on_lab(request: pytest.FixtureRequest, kind: str) -> Rig:
    if kind == "openstack":
        return OpenStackRig(request.getfixturevalue("openstack_lab"))
    if kind == REAL_PODS:
        return RealPodsRig(LabSite(request.getfixturevalue("node_lab").kubeconfig))
    lab: LabSite = request.getfixturevalue("lab")
    if kind == "kubernetes":
        return KubernetesRig(lab)
    crds_load(lab.api())
    return KubernetesRig(OpenShiftLab(lab.kubeconfig_path))


class OpenShiftLab(LabSite):
    def driver(self) -> KubernetesDriver:
        return OpenShiftDriver(self.connection())


def _sandbox() -> SandboxRig:
    connection = Connection(site_id=uuid.uuid4(), site_slug="ber-1", endpoint="", credentials={})
    fleet_seed(connection.site_id, slug="ber-1")
    dials_set(connection.site_id, confirm_ms=50, grace_ms=0, namespace_ms=100)
    return SandboxRig(SandboxDriver(connection), connection.site_id)


@pytest.fixture
def provision(rig: Rig) -> Drive:
    return partial(_provision, rig)


def _provision(rig: Rig, spec: WorkspaceSpec) -> None:
    for step in rig.driver.steps(Change.CREATE):
        ensure_step(rig.driver, spec, step.key)


@pytest.fixture
def release(rig: Rig) -> Drive:
    def run(spec: WorkspaceSpec) -> None:
        for step in rig.driver.steps(Change.DELETE):
            release_step(rig.driver, spec, step.key)

    return run


@pytest.fixture
def ready(rig: Rig, provision: Drive) -> WorkspaceSpec:
    """A workspace of two GPUs, alice (admin) and bob (edit) in it."""
    spec = rig.spec()
    provision(spec)
    return spec


class Standing:
    """One ready workspace of each kind of rig, for the tests of one file that leave it as it was."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Rig, WorkspaceSpec]] = {}

    def find(self, kind: str, make: Callable[[], Rig]) -> WorkspaceSpec:
        if kind not in self._made:
            rig = make()
            spec = rig.spec()
            self._made[kind] = (
                rig,
                spec,
            )  # before anything is there: it is taken away even if half of it was made
            _provision(rig, spec)
        return self._made[kind][1]

    def clean_up(self) -> None:
        for rig, _ in self._made.values():
            rig.clean_up()


@pytest.fixture(scope="module")
def standing() -> Iterator[Standing]:
    made = Standing()
    yield made
    made.clean_up()


@pytest.fixture
def lasting(request: pytest.FixtureRequest, kind: str) -> Callable[[], Rig]:
    """Makes the rig of the standing workspace; a file with a rig of its own overrides it."""
    return partial(_on_lab, request, kind)


@pytest.fixture
def shared(
    rig: Rig, kind: str, standing: Standing, provision: Drive, lasting: Callable[[], Rig]
) -> Iterator[WorkspaceSpec]:
    """As `ready`, for tests that look, and start and stop: on a control plane all of a file share it, each leaving it empty."""
    if kind == "sandbox":  # whose rows go with the test's transaction
        provision(spec := rig.spec())
    else:
        spec = standing.find(kind, lasting)
    yield spec
    rig.empty(spec)
