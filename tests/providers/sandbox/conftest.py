"""A seeded site, and a workspace of two H100 on it."""

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpuaas.providers.base import Change, Connection, GpuAmount, Member, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.fleet import fleet_seed

H100 = GpuAmount("nvidia.com/gpu", 2, {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
ALICE = Member(subject="user-alice", name="alice", role="admin")
BOB = Member(subject="user-bob", name="bob", role="view")

Provision = Callable[[WorkspaceSpec], None]


@pytest.fixture
def driver(db: None) -> SandboxDriver:
    connection = Connection(site_id=uuid.uuid4(), site_slug="ber-1", endpoint="", credentials={})
    fleet_seed(connection.site_id, slug="ber-1")
    dials_set(connection.site_id, confirm_ms=0, grace_ms=2000, namespace_ms=5000)
    return SandboxDriver(connection)


@pytest.fixture
def spec() -> WorkspaceSpec:
    return WorkspaceSpec(
        id=uuid.uuid4(),
        external_name="gpu-1a2b3c4d-train",
        project_slug="weather-lm",
        organization_slug="climate",
        gpus=(H100,),
        vcpus=32,
        memory_gib=360,
        storage_gib=100,
        members=(ALICE, BOB),
        closed=("nvidia.com/mig-1g.5gb",),
    )


@pytest.fixture
def ref(spec: WorkspaceSpec) -> WorkspaceRef:
    return spec.ref


@pytest.fixture
def provision(driver: SandboxDriver) -> Provision:
    def run(spec: WorkspaceSpec) -> None:
        for step in driver.steps(Change.CREATE):
            assert driver.perform(Change.CREATE, spec, step.key).done, step.key

    return run


@pytest.fixture
def ready(spec: WorkspaceSpec, provision: Provision) -> WorkspaceSpec:
    provision(spec)
    return spec


def with_gpus(spec: WorkspaceSpec, count: int) -> WorkspaceSpec:
    return replace(spec, gpus=(replace(H100, count=count),))
