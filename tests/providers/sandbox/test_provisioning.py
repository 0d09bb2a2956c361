"""Making, changing and taking away a workspace at a simulated site."""

import uuid
from dataclasses import replace

import pytest
import time_machine

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import Change, GpuAmount, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.models import SandboxNamespace
from gpuaas.providers.sandbox.pods import foreign_namespace, pod_create
from tests.providers.sandbox.conftest import ALICE, Provision, with_gpus


def site_of(driver: SandboxDriver) -> uuid.UUID:
    return driver.connection.site_id


def test_every_step_may_be_repeated(
    driver: SandboxDriver, spec: WorkspaceSpec, ref: WorkspaceRef, provision: Provision
) -> None:
    provision(spec)
    before = driver.observe(ref)
    provision(spec)
    assert driver.observe(ref) == before
    assert before.hard == {
        "nvidia.com/gpu": 2,
        "nvidia.com/mig-1g.5gb": 0,
        "cpu": 32,
        "memory": 360,
        "storage": 100,
    }


def test_quota_is_confirmed_by_the_site_some_time_later(
    driver: SandboxDriver, spec: WorkspaceSpec, ref: WorkspaceRef
) -> None:
    dials_set(site_of(driver), confirm_ms=150)
    with time_machine.travel("2026-11-21T10:00:00Z", tick=False) as clock:
        driver.perform(Change.CREATE, spec, "namespace")
        driver.perform(Change.CREATE, spec, "quota")
        waiting = driver.perform(Change.CREATE, spec, "confirmed")
        assert not waiting.done
        assert "not confirmed" in waiting.detail
        assert driver.observe(ref).hard == {}
        assert not driver.perform(Change.CREATE, spec, "access").done, (
            "nobody is let in before the quota is enforced"
        )
        clock.shift(0.2)
        assert driver.perform(Change.CREATE, spec, "confirmed").done
        assert driver.perform(Change.CREATE, spec, "access").done


def test_unconfirmed_quota_stops_nobody_as_on_a_real_cluster(
    driver: SandboxDriver, spec: WorkspaceSpec, ref: WorkspaceRef
) -> None:
    dials_set(site_of(driver), confirm_ms=60_000)
    driver.perform(Change.CREATE, spec, "namespace")
    driver.perform(Change.CREATE, spec, "quota")
    pod_create(site_of(driver), spec.external_name, "early", 4)
    assert driver.observe(ref).used["nvidia.com/gpu"] == 4


def test_resize_is_the_same_steps_and_evicts_nobody(
    driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef, provision: Provision
) -> None:
    for name in ("one", "two"):
        pod_create(site_of(driver), ready.external_name, name, 1)
    provision(with_gpus(ready, 1))
    observed = driver.observe(ref)
    assert observed.hard["nvidia.com/gpu"] == 1
    assert observed.used["nvidia.com/gpu"] == 2
    assert [consumer.phase for consumer in observed.consumers] == ["Running", "Running"]


def test_a_key_listed_anew_counts_what_runs(
    driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef, provision: Provision
) -> None:
    pod_create(site_of(driver), ready.external_name, "one", 1)
    provision(replace(ready, gpus=()))
    provision(ready)
    assert driver.observe(ref).used["nvidia.com/gpu"] == 1


def test_two_models_under_one_name_are_refused(driver: SandboxDriver, spec: WorkspaceSpec) -> None:
    l40s = GpuAmount("nvidia.com/gpu", 1, {"nvidia.com/gpu.product": "NVIDIA-L40S"})
    driver.perform(Change.CREATE, spec, "namespace")
    with pytest.raises(Permanent, match="only one of them"):
        driver.perform(Change.CREATE, replace(spec, gpus=(*spec.gpus, l40s)), "quota")


def test_foreign_namespace_is_left_alone(
    driver: SandboxDriver, spec: WorkspaceSpec, ref: WorkspaceRef
) -> None:
    foreign_namespace(site_of(driver), spec.external_name)
    with pytest.raises(Permanent, match="is not this workspace's"):
        driver.perform(Change.CREATE, spec, "namespace")
    for step in driver.steps(Change.DELETE):
        assert driver.perform(Change.DELETE, spec, step.key).done
    assert not driver.observe(ref).exists
    assert SandboxNamespace.objects.get(name=spec.external_name).gone_at is None


def test_step_after_the_namespace_vanished_says_so(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    SandboxNamespace.objects.all().delete()
    for step in ("quota", "confirmed", "limits", "network", "access"):
        with pytest.raises(NotFound):
            driver.perform(Change.CREATE, ready, step)


def test_release_goes_in_stages_and_ends_with_a_proof(
    driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef
) -> None:
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as clock:
        pod_create(site_of(driver), ready.external_name, "one", 2)
        assert driver.perform(Change.DELETE, ready, "access").done
        waiting = driver.perform(Change.DELETE, ready, "pods")
        assert (waiting.done, waiting.detail) == (False, "still ending: 1 with 2 GPUs")
        assert driver.observe(ref).used["nvidia.com/gpu"] == 2, "held until the grace is over"
        clock.shift(2)
        assert driver.perform(Change.DELETE, ready, "pods").done
        assert driver.perform(Change.DELETE, ready, "namespace").done
        assert not driver.perform(Change.DELETE, ready, "gone").done
        again = driver.perform(Change.CREATE, ready, "namespace")
        assert not again.done, "the name is free only when the old namespace is gone"
        clock.shift(5)
        assert driver.perform(Change.DELETE, ready, "gone").done
        assert not driver.observe(ref).exists
        for step in driver.steps(Change.DELETE):
            assert driver.perform(Change.DELETE, ready, step.key).done, "what is gone counts as done"


def test_gone_before_deletion_was_asked_is_not_believed(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    with pytest.raises(NotFound):
        driver.perform(Change.DELETE, ready, "gone")


def test_probe_shows_the_fleet_and_what_is_held(driver: SandboxDriver, ready: WorkspaceSpec) -> None:
    pod_create(site_of(driver), ready.external_name, "one", 2)
    inventory = driver.probe()
    capacity: dict[str, int] = {}
    for node in inventory.nodes:
        capacity[node.kind_slug] = capacity.get(node.kind_slug, 0) + node.capacity
    assert capacity == {
        "h100-sxm-80gb": 16,
        "a100-sxm-80gb": 16,
        "l40s-48gb": 8,
        "a100-40gb-mig-1g.5gb": 14,
        "": 0,
    }
    assert sum(node.allocated for node in inventory.nodes) == 2
    assert {pool.resource_name for pool in inventory.pools} == {"nvidia.com/gpu", "nvidia.com/mig-1g.5gb"}


def test_members_are_exactly_those_wanted(
    driver: SandboxDriver, ready: WorkspaceSpec, provision: Provision
) -> None:
    provision(replace(ready, members=(replace(ALICE, role="view"),)))
    room = SandboxNamespace.objects.get(name=ready.external_name)
    assert list(room.members.values_list("subject", "role")) == [("user-alice", "view")]
