"""Pods at a simulated site: quota, scheduling, and time."""

import threading
import uuid
from datetime import timedelta

import pytest
import time_machine
from django.db import connection

from gpuaas.core import clock as time
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, QuotaRefused
from gpuaas.providers.base import Change, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.fleet import node_set
from gpuaas.providers.sandbox.models import SandboxPod, SandboxQuota
from gpuaas.providers.sandbox.pods import pod_create, pod_delete
from tests.providers.sandbox.conftest import Provision, with_gpus


def test_third_gpu_is_refused_in_words(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    site = driver.connection.site_id
    pod_create(site, ready.external_name, "one", 1)
    pod_create(site, ready.external_name, "two", 1)
    with pytest.raises(QuotaRefused, match="exceeded quota") as refused:
        pod_create(site, ready.external_name, "three", 1)
    assert refused.value.detail == {"resource": "nvidia.com/gpu", "asked": 1, "used": 2, "limit": 2}
    with pytest.raises(QuotaRefused):
        pod_create(site, ready.external_name, "slice", 1, resource_name="nvidia.com/mig-1g.5gb")


def test_refusal_charges_nothing(driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef) -> None:
    with pytest.raises(QuotaRefused):
        pod_create(driver.connection.site_id, ready.external_name, "big", 3, vcpus=8, memory_gib=8)
    assert set(driver.observe(ref).used.values()) == {0}


@pytest.mark.django_db(transaction=True)
def test_quota_holds_under_concurrency(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    start, granted, refused = threading.Barrier(8), [], []

    def ask(number: int) -> None:
        start.wait()
        try:
            granted.append(pod_create(driver.connection.site_id, ready.external_name, f"pod-{number}", 1))
        except QuotaRefused as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(granted), len(refused)) == (2, 6)
    assert SandboxQuota.objects.get(resource="nvidia.com/gpu").used == 2


def test_pod_ends_by_itself_at_the_exact_second(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as clock:
        started = time.now()
        pod = pod_create(driver.connection.site_id, ready.external_name, "short", 2, run_seconds=61)
        assert (pod.phase, pod.scheduled_at) == ("Running", started)
        clock.shift(600)
        driver.probe()
        pod.refresh_from_db()
        assert (pod.phase, pod.finished_at) == ("Succeeded", started + timedelta(seconds=61))
        assert SandboxQuota.objects.get(resource="nvidia.com/gpu").used == 0


def test_waiting_pod_starts_the_moment_devices_are_free(
    driver: SandboxDriver, spec: WorkspaceSpec, provision: Provision
) -> None:
    provision(with_gpus(spec, 32))
    site = driver.connection.site_id
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as clock:
        started = time.now()
        for name in ("left", "right"):
            pod_create(site, spec.external_name, name, 8, run_seconds=100)
        waiting = pod_create(site, spec.external_name, "next", 4, run_seconds=50)
        assert waiting.phase == "Pending"
        assert waiting.waiting_for == (
            "waits for 4 free nvidia.com/gpu on one node; the most free on one node is 0"
        )
        clock.shift(1000)
        driver.probe()
        waiting.refresh_from_db()
        assert waiting.scheduled_at == started + timedelta(seconds=100)
        assert waiting.finished_at == started + timedelta(seconds=150)


def test_pods_stay_on_the_pool_that_was_bought(
    driver: SandboxDriver, spec: WorkspaceSpec, provision: Provision
) -> None:
    provision(with_gpus(spec, 64))
    nodes = {
        pod_create(driver.connection.site_id, spec.external_name, f"pod-{number}", 8).node_name
        for number in range(3)
    }
    assert nodes == {"h100-01", "h100-02", ""}


def test_too_large_and_unwell_nodes_are_explained(
    driver: SandboxDriver, spec: WorkspaceSpec, provision: Provision
) -> None:
    provision(with_gpus(spec, 64))
    site = driver.connection.site_id
    assert pod_create(site, spec.external_name, "huge", 9).waiting_for == (
        "requests 9 nvidia.com/gpu, but the largest node has 8"
    )
    node_set(site, name="h100-01", cordoned=True)
    node_set(site, name="h100-02", ready=False, reason="Xid 79: the GPU has fallen off the bus")
    assert pod_create(site, spec.external_name, "later", 1).phase == "Pending"
    node_set(site, name="h100-01")
    driver.probe()
    assert SandboxPod.objects.get(name="later").node_name == "h100-01"


def test_deleted_pod_holds_its_devices_through_the_grace(
    driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef
) -> None:
    site = driver.connection.site_id
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as clock:
        pod_create(site, ready.external_name, "one", 2)
        pod_delete(site, ready.external_name, "one")
        with pytest.raises(QuotaRefused):
            pod_create(site, ready.external_name, "two", 2)
        clock.shift(2)
        pod_create(site, ready.external_name, "two", 2)
        assert [consumer.name for consumer in driver.observe(ref).consumers] == ["two"]


def test_bad_requests(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    site = driver.connection.site_id
    with pytest.raises(Invalid):
        pod_create(site, ready.external_name, "Über", 1)
    with pytest.raises(Invalid):
        pod_create(site, ready.external_name, "minus", -1)
    pod_create(site, ready.external_name, "one", 0)
    with pytest.raises(Conflict, match="already exists"):
        pod_create(site, ready.external_name, "one", 0)
    with pytest.raises(NotFound):
        pod_create(site, "nowhere", "one", 1)
    with pytest.raises(NotFound):
        pod_delete(site, ready.external_name, "nobody")
    dials_set(site, namespace_ms=60_000)
    driver.perform(Change.DELETE, ready, "namespace")
    with pytest.raises(Forbidden, match="terminated"):
        pod_create(site, ready.external_name, "late", 1)


def test_unknown_site_has_no_nodes(db: None) -> None:
    with pytest.raises(NotFound):
        node_set(uuid.uuid4(), name="h100-01")
