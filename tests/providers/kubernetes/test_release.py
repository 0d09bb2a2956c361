"""A tenant cannot hold GPUs, or the workspace's name, beyond the deletion: on the real control plane."""

from datetime import timedelta

import pytest

from gpuaas.providers.base import Change
from gpuaas.providers.kubeapi import ending, release
from tests.contracts.rigs import pod, release_step
from tests.lab.fixtures import until
from tests.providers.kubernetes.conftest import Room

pytestmark = pytest.mark.lab
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
