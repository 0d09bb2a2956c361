"""Asleep nothing runs and nothing can be started; data and access stay; awake it is as it was."""

from dataclasses import replace
from functools import partial

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import (
    Change,
    ObservedConsumer,
    UseState,
    WorkspaceSpec,
)
from tests.contracts.conftest import Drive
from tests.contracts.rigs import BOB, Refused, Rig, ref
from tests.lab.fixtures import until

NEEDS = Change.SUSPEND


def asleep(spec: WorkspaceSpec) -> WorkspaceSpec:
    gpus = tuple(replace(gpu, count=0) for gpu in spec.gpus)
    return replace(spec, gpus=gpus, vcpus=0, memory_gib=0, suspended=True)


def suspend(rig: Rig, spec: WorkspaceSpec, keys: list[str] | None = None) -> None:
    carry_out(rig, Change.SUSPEND, asleep(spec), keys)


def resume(rig: Rig, spec: WorkspaceSpec, keys: list[str] | None = None) -> None:
    carry_out(rig, Change.RESUME, spec, keys)


def carry_out(rig: Rig, change: Change, spec: WorkspaceSpec, keys: list[str] | None) -> None:
    for key in keys or [step.key for step in rig.driver.steps(change)]:
        until(partial(is_done, rig, change, spec, key), f"step {key} of {change}")


def is_done(rig: Rig, change: Change, spec: WorkspaceSpec, key: str) -> bool:
    return rig.driver.perform(change, spec, key).done


def running(rig: Rig, spec: WorkspaceSpec) -> list[ObservedConsumer]:
    return [each for each in rig.driver.observe(ref(spec)).consumers if each.phase == rig.running]


def until_running(rig: Rig, spec: WorkspaceSpec, *starts: str) -> None:
    def look() -> bool:
        names = sorted(each.name for each in running(rig, spec))
        return len(names) == len(starts) and all(
            name.startswith(start) for name, start in zip(names, sorted(starts), strict=True)
        )

    until(look, f"running: {', '.join(starts)}")


def test_asleep_nothing_runs_and_the_site_enforces_it(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.start(ready, "by-hand")
    rig.own(ready, "Deployment", "web")
    until_running(rig, ready, "by-hand", "web")
    suspend(rig, ready)
    seen = rig.driver.observe(ref(ready))
    assert seen.exists
    awake = [each for each in seen.consumers if each.state is not UseState.SHELVED]
    assert not [each for each in awake if each.started_at and not each.ended_at]
    assert seen.hard[rig.gpu.resource_name] == seen.hard["cpu"] == seen.hard["memory"] == 0
    assert seen.hard.get("storage") == ready.storage_gib
    until(lambda: rig.driver.observe(ref(ready)).used[rig.gpu.resource_name] == 0, "nothing is counted")


def test_asleep_nobody_can_start_anything(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.credential(ready, BOB)
    suspend(rig, ready)
    with pytest.raises(Refused, match=rf"{rig.over}|suspended"):
        rig.start(ready, "with-gpu", member=BOB)
    with pytest.raises(Refused, match=rf"{rig.over}|suspended"):
        rig.start(ready, "without", gpus=0)


def test_what_ran_comes_back_and_what_was_made_by_hand_does_not(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.own(ready, "Deployment", "web")
    rig.own(ready, "Job", "train")
    until_running(rig, ready, "train", "web")
    suspend(rig, ready)
    assert running(rig, ready) == []
    resume(rig, ready)
    until_running(rig, ready, "train", "web")
    assert rig.driver.observe(ref(ready)).hard[rig.gpu.resource_name] == 2


def test_data_and_access_stay(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.keep(ready)
    suspend(rig, ready)
    assert rig.kept(ready)
    resume(rig, ready)
    assert rig.kept(ready)


def test_twice_is_like_once_wherever_it_was_interrupted(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.own(ready, "Deployment", "web")
    until_running(rig, ready, "web")
    keys = [step.key for step in rig.driver.steps(Change.SUSPEND)]
    for reached in range(1, len(keys) + 1):
        suspend(rig, ready, keys[:reached])
    suspend(rig, ready)
    keys = [step.key for step in rig.driver.steps(Change.RESUME)]
    for reached in range(1, len(keys) + 1):
        resume(rig, ready, keys[:reached])
    resume(rig, ready)
    until_running(rig, ready, "web")


def test_woken_before_it_slept(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.own(ready, "Deployment", "web")
    until_running(rig, ready, "web")
    suspend(rig, ready, [step.key for step in rig.driver.steps(Change.SUSPEND)][:2])
    resume(rig, ready)
    until_running(rig, ready, "web")
    rig.start(ready, "more")


def test_deleted_while_it_falls_asleep(rig: Rig, ready: WorkspaceSpec, release: Drive) -> None:
    rig.own(ready, "Deployment", "web")
    until_running(rig, ready, "web")
    suspend(rig, ready, [step.key for step in rig.driver.steps(Change.SUSPEND)][:-1])
    release(ready)
    assert not rig.driver.observe(ref(ready)).exists
    suspend(rig, ready)
    assert rig.namespaces(ready.external_name) == 0


def test_an_unknown_step_of_sleep_is_refused_for_good(rig: Rig, shared: WorkspaceSpec) -> None:
    with pytest.raises(Permanent):
        rig.driver.perform(Change.SUSPEND, asleep(shared), "no-such-step")
    with pytest.raises(Permanent):
        rig.driver.perform(Change.RESUME, shared, "no-such-step")
