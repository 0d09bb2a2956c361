"""A workspace of two H100 on the real control plane, and alice's own kubeconfig for it."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from gpuaas.core.ids import short
from gpuaas.providers.base import Change, GpuAmount, Member, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from tests.contracts.rigs import ensure_step
from tests.lab.fixtures import LabSite, until

ALICE = Member(subject="u-alice", name="alice", role="admin")
BOB = Member(subject="u-bob", name="bob", role="view")
H100 = GpuAmount("nvidia.com/gpu", 2, {"gpuaas.io/pool": "h100-sxm-80gb"})
UNSOLD = ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb", "nvidia.com/gpu.shared", "gpuaas.io/h200")


@dataclass(frozen=True)
class Room:
    """A ready workspace with a tenant in it."""

    spec: WorkspaceSpec
    driver: KubernetesDriver
    admin: Api
    tenant: Api

    @property
    def ref(self) -> WorkspaceRef:
        return WorkspaceRef(self.spec.id, self.spec.external_name)

    def path(self, kind: str, group: str = "/api/v1") -> str:
        return f"{group}/namespaces/{self.spec.external_name}/{kind}"

    def pod(self, name: str) -> Object:
        return self.admin.get(f"{self.path('pods')}/{name}")

    def run_to(self, name: str, phase: str) -> Object:
        return until(
            lambda: found if (found := self.pod(name))["status"].get("phase") == phase else None,
            f"{name} is {phase}",
        )


def make_spec(**changes: object) -> WorkspaceSpec:
    made = uuid.uuid4()
    spec = WorkspaceSpec(
        id=made,
        external_name=f"gpu-{short(made)}-driver",
        project_slug="weather-lm",
        organization_slug="climate",
        gpus=(H100,),
        vcpus=32,
        memory_gib=128,
        storage_gib=10,
        members=(ALICE, BOB),
        closed=UNSOLD,
    )
    return replace(spec, **changes)  # type: ignore[arg-type]  # a test's own changes


def provision(driver: KubernetesDriver, spec: WorkspaceSpec) -> None:
    for step in driver.steps(Change.CREATE):
        ensure_step(driver, spec, step.key)


def kubeconfig(driver: KubernetesDriver, spec: WorkspaceSpec, member: Member = ALICE) -> str:
    ref = spec.ref
    return driver.issue_access(ref, member, lifetime=timedelta(hours=1)).document


def make_room(lab: LabSite, spec: WorkspaceSpec) -> Room:
    driver = lab.driver()
    provision(driver, spec)
    return Room(spec, driver, lab.api(), Api(kubeconfig(driver, spec)))


def forget(lab: LabSite, spec: WorkspaceSpec) -> None:
    api, space = lab.api(), f"/api/v1/namespaces/{spec.external_name}"
    api.delete(f"{space}/pods", gracePeriodSeconds="0")
    api.delete(space)


@pytest.fixture
def room(lab: LabSite) -> Iterator[Room]:
    spec = make_spec()
    yield make_room(lab, spec)
    forget(lab, spec)


@pytest.fixture(scope="module")
def shared_room(lab: LabSite) -> Iterator[Room]:
    """For tests that change nothing in it."""
    spec = make_spec()
    yield make_room(lab, spec)
    forget(lab, spec)
