"""A driver on the real cloud, and one workspace that is taken away whatever the test did."""

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from deploy.lab.openstack import Lab
from gpuaas.core.ids import short
from gpuaas.providers.base import (
    Change,
    Connection,
    FlavorAmount,
    GpuAmount,
    Member,
    WorkspaceRef,
    WorkspaceSpec,
)
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.contracts.rigs import ensure_step, release_step

ALICE = Member(subject="u-alice", name="alice", role="admin")
BOB = Member(subject="u-bob", name="bob", role="view")
H100 = "CUSTOM_PCI_10DE_2330"
ALIAS = {"pci_passthrough:alias": "h100"}


def spec_of(*, gpus: int = 2, members: tuple[Member, ...] = (ALICE, BOB)) -> WorkspaceSpec:
    made = uuid.uuid4()
    # its own slug: the flavors of one test are not another's
    flavor = FlavorAmount(
        slug=f"h100.1.{short(made)}",
        count=gpus,
        gpus=1,
        vcpus=4,
        memory_gib=8,
        disk_gib=1,
        resource_name=H100,
        selector=ALIAS,
    )
    return WorkspaceSpec(
        id=made,
        external_name=f"gpu-{short(made)}-lab",
        project_slug="weather-lm",
        organization_slug="climate",
        gpus=(GpuAmount(H100, gpus, ALIAS),),
        vcpus=4 * gpus,
        memory_gib=8 * gpus,
        storage_gib=0,
        members=members,
        flavors=(flavor,),
    )


def resized(spec: WorkspaceSpec, gpus: int) -> WorkspaceSpec:
    return replace(
        spec,
        gpus=(GpuAmount(H100, gpus, ALIAS),),
        vcpus=4 * gpus,
        memory_gib=8 * gpus,
        flavors=(replace(spec.flavors[0], count=gpus),),
    )


def ref(spec: WorkspaceSpec) -> WorkspaceRef:
    return spec.ref


def provision(driver: OpenStackDriver, spec: WorkspaceSpec) -> None:
    for step in driver.steps(Change.CREATE):
        ensure_step(driver, spec, step.key)


def take_away(driver: OpenStackDriver, spec: WorkspaceSpec) -> None:
    for step in driver.steps(Change.DELETE):
        release_step(driver, spec, step.key)


@pytest.fixture(scope="session")
def driver(openstack_lab: Lab) -> OpenStackDriver:
    return OpenStackDriver(
        Connection(
            site_id=uuid.uuid4(),
            site_slug="cloud",
            endpoint="",
            credentials={"clouds_yaml": openstack_lab.clouds.read_text(), "cloud": "lab"},
            options={"external_network": "public", "aliases": {H100: "h100"}},
        )
    )


@pytest.fixture
def ready(driver: OpenStackDriver) -> Iterator[WorkspaceSpec]:
    """Two H100s for alice (admin) and bob (view)."""
    spec = spec_of()
    try:
        provision(driver, spec)
        yield spec
    finally:
        take_away(driver, spec)
