"""Hard at the site: nobody takes more than was bought, nor anything else."""

from dataclasses import replace

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import GpuAmount, ObservedConsumer, WorkspaceSpec
from tests.contracts.conftest import Drive
from tests.contracts.rigs import Refused, Rig, ref
from tests.lab.fixtures import until


def running(rig: Rig, spec: WorkspaceSpec, count: int) -> list[ObservedConsumer]:
    def look() -> list[ObservedConsumer] | None:
        consumers = rig.driver.observe(ref(spec)).consumers
        found = [each for each in consumers if each.phase == rig.running]
        return found if len(found) == count else None

    return until(look, f"{count} running")


def test_what_was_bought_runs_and_one_more_is_refused(rig: Rig, shared: WorkspaceSpec) -> None:
    rig.start(shared, "one")
    rig.start(shared, "two")
    found = running(rig, shared, 2)
    with pytest.raises(Refused, match=rig.over):
        rig.start(shared, "three")
    assert all(each.node and each.started_at and each.gpus == {rig.gpu.resource_name: 1} for each in found)


def test_all_at_once_is_refused_too(rig: Rig, shared: WorkspaceSpec) -> None:
    with pytest.raises(Refused, match=rig.over):
        rig.start(shared, "greedy", gpus=3)


def test_what_was_not_bought_is_refused(rig: Rig, shared: WorkspaceSpec) -> None:
    with pytest.raises(Refused):
        rig.start(shared, "slice", resource=rig.unsold)


def test_a_finished_or_stopped_one_gives_its_gpu_back(rig: Rig, shared: WorkspaceSpec) -> None:
    rig.start(shared, "long", gpus=2)
    rig.stop(shared, "long")
    until(lambda: rig.driver.observe(ref(shared)).used[rig.gpu.resource_name] == 0, "given back")
    rig.start(shared, "next", gpus=2)


def test_observe_says_what_the_site_enforces_and_counts(rig: Rig, shared: WorkspaceSpec) -> None:
    rig.start(shared, "one")
    name = rig.gpu.resource_name
    until(lambda: rig.driver.observe(ref(shared)).used[name] == 1, "counted")
    seen = rig.driver.observe(ref(shared))
    assert seen.exists
    assert (seen.hard[name], seen.hard[rig.unsold]) == (2, 0)
    assert (seen.hard["cpu"], seen.hard["memory"]) == (32, 128)
    assert seen.hard.get("storage") == 10


def test_a_larger_workspace_takes_more_and_a_smaller_evicts_nobody(
    rig: Rig, ready: WorkspaceSpec, provision: Drive
) -> None:
    rig.start(ready, "one")
    rig.start(ready, "two")
    provision(rig.resized(ready, 3))
    rig.start(ready, "three")
    running(rig, ready, 3)
    provision(rig.resized(ready, 1))
    assert rig.driver.observe(ref(ready)).hard[rig.gpu.resource_name] == 1
    running(rig, ready, 3)
    with pytest.raises(Refused, match=rig.over):
        rig.start(ready, "four")


def test_one_name_for_two_pools_is_refused_for_good(rig: Rig, provision: Drive) -> None:
    spec = rig.spec()
    other = GpuAmount(rig.gpu.resource_name, 1, {"gpuaas.io/pool": "another"})
    both = replace(spec, gpus=(*spec.gpus, other))
    with pytest.raises(Permanent, match=rig.gpu.resource_name):
        provision(both)


def test_why_one_waits_is_said_in_words(rig: Rig, provision: Drive) -> None:
    spec = rig.spec(gpus=64)
    provision(spec)
    rig.start(spec, "wide", gpus=64)

    def look() -> str | None:
        consumers = rig.driver.observe(ref(spec)).consumers
        return next(
            (each.waiting_for for each in consumers if rig.gpu.resource_name in each.waiting_for), None
        )

    assert until(look, "a reason that names the GPU")
