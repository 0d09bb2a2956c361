"""A tenant cannot hold GPUs, or the workspace's name, beyond the deletion: on the real control plane."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from gpuaas.providers.base import Change, GpuAmount
from gpuaas.providers.kubeapi import ending, release
from gpuaas.providers.kubeapi.client import Object
from tests.contracts.rigs import pod, release_step
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.conftest import Room, forget, make_room, make_spec

pytestmark = pytest.mark.lab
DRA = "/apis/resource.k8s.io/v1"
H200 = GpuAmount("gpuaas.io/h200", 2, {"gpuaas.io/pool": "h200-dra"}, exclusive=True, device_class="h200")
KEEP = {"finalizers": ["example.com/keep"]}


def test_finalizers_of_the_tenant_do_not_hold_up_the_release(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = pod("held", {"nvidia.com/gpu": "1"})
    held["metadata"] |= KEEP
    room.tenant.create(room.path("pods"), held)
    room.run_to("held", "Running")
    room.tenant.create(room.path("configmaps"), {"metadata": {"name": "held", **KEEP}})
    release_step(room.driver, room.spec, "access")
    assert not room.driver.perform(Change.DELETE, room.spec, "pods").done
    assert room.driver.perform(Change.DELETE, room.spec, "pods").detail.startswith("1 pod ")

    monkeypatch.setattr(ending, "STUCK_AFTER", timedelta(hours=-1))
    for step in ("pods", "namespace", "gone"):
        release_step(room.driver, room.spec, step)

    assert not room.driver.observe(room.ref).exists
    until(lambda: room.admin.find(f"/api/v1/namespaces/{room.spec.external_name}") is None, "it is gone")


@pytest.fixture
def dra(lab: LabSite) -> Iterator[Room]:
    spec = make_spec(gpus=(H200,))
    yield make_room(lab, spec)
    forget(lab, spec)


@pytest.mark.parametrize("finalizer", ["mine.kubernetes.io/keep", "kubernetes.io/pvc-protection"])
def test_nothing_that_a_tenant_can_write_holds_the_namespace(
    dra: Room, monkeypatch: pytest.MonkeyPatch, finalizer: str
) -> None:
    """Whatever the finalizer is called: no controller of Kubernetes puts one of these names on these."""
    held: Object = {"metadata": {"name": "held", "finalizers": [finalizer]}}
    asked = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "h200"}}]}}
    for kind, group, body in (
        ("configmaps", "/api/v1", {}),
        ("serviceaccounts", "/api/v1", {}),
        ("leases", "/apis/coordination.k8s.io/v1", {}),
        ("resourceclaims", DRA, {"spec": asked}),
        ("resourceclaimtemplates", DRA, {"spec": {"spec": asked}}),
    ):
        dra.tenant.create(dra.path(kind, group), {**held, **body})
    monkeypatch.setattr(ending, "STUCK_AFTER", timedelta(hours=-1))

    for step in ("access", "pods", "namespace", "gone"):
        release_step(dra.driver, dra.spec, step)

    assert not dra.driver.observe(dra.ref).exists


def test_a_pod_that_gave_itself_a_year_holds_nothing_up(room: Room) -> None:
    """Its owner has ended it before the deletion, so it ends already: it ends sooner now."""
    slow = pod("slow", {"nvidia.com/gpu": "1"}, terminationGracePeriodSeconds=365 * 86400)
    slow["metadata"] |= {"annotations": {"lab.gpuaas.io/stop": "3600s"}}
    room.tenant.create(room.path("pods"), slow)
    room.run_to("slow", "Running")
    room.tenant.delete(f"{room.path('pods')}/slow")
    release_step(room.driver, room.spec, "access")

    outcome = room.driver.perform(Change.DELETE, room.spec, "pods")

    assert outcome.detail.startswith("1 pod with 1 GPU is ending, by ")
    assert room.pod("slow")["metadata"]["deletionGracePeriodSeconds"] == release.GRACE_SECONDS
