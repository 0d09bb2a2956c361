"""Environments live in a workspace: under its quota, as long as it is there, and with a home that outlives a stop."""

import uuid
from dataclasses import replace
from functools import partial

import pytest

from gpuaas.core.errors import NotFound, Permanent, QuotaRefused
from gpuaas.providers.base import (
    Change,
    EnvironmentCapability,
    Environments,
    EnvironmentSpec,
    WorkerSpec,
    WorkspaceSpec,
)
from tests.contracts.conftest import Drive
from tests.contracts.rigs import Rig, ref
from tests.contracts.test_suspend import resume, suspend
from tests.lab.fixtures import carry_out, until

NEEDS = EnvironmentCapability


def spec_of(rig: Rig, workspace: WorkspaceSpec, **changes: object) -> EnvironmentSpec:
    made = uuid.uuid4()
    spec = EnvironmentSpec(
        id=made,
        name=f"env-{made.hex[:8]}-lab",
        workspace=ref(workspace),
        image="notebook:1",
        port=8888,
        readiness="/",
        home="/home/user",
        home_gib=1,
        vcpus=1,
        memory_gib=1,
        user=1000,
        gpus=1,
        resource_name=rig.gpu.resource_name,
        variables={"FOLDER": "work"},
    )
    return replace(rig.environment(spec), **changes)  # type: ignore[arg-type]


def site_of(rig: Rig) -> Environments:
    assert isinstance(rig.driver, EnvironmentCapability)
    return rig.driver.environments


def used(rig: Rig, workspace: WorkspaceSpec) -> int:
    return rig.driver.observe(ref(workspace)).used.get(rig.gpu.resource_name, 0)


def test_a_whole_life_in_a_workspace(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = spec_of(rig, ready)
    assert not site_of(rig).observe(spec).exists
    carry_out(site_of(rig), Change.CREATE, spec)
    seen = site_of(rig).observe(spec)
    assert (seen.exists, seen.ready, seen.detail) == (True, True, "")
    assert seen.node
    assert used(rig, ready) == 1
    home = rig.home(spec)
    assert home

    carry_out(site_of(rig), Change.SUSPEND, spec)
    assert not site_of(rig).observe(spec).exists
    until(lambda: used(rig, ready) == 0, "it takes no GPU")
    assert rig.home(spec) == home
    carry_out(site_of(rig), Change.RESUME, spec)
    assert site_of(rig).observe(spec).ready
    assert rig.home(spec) == home

    carry_out(site_of(rig), Change.DELETE, spec)
    assert (site_of(rig).observe(spec).exists, rig.home(spec)) == (False, "")


def test_every_step_may_be_repeated(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = spec_of(rig, ready)
    for change in (Change.CREATE, Change.CREATE, Change.SUSPEND, Change.SUSPEND, Change.RESUME):
        carry_out(site_of(rig), change, spec)
    assert used(rig, ready) == 1
    carry_out(site_of(rig), Change.DELETE, spec)
    carry_out(site_of(rig), Change.DELETE, spec)
    assert rig.home(spec) == ""


def test_it_counts_in_the_quota_like_what_members_make(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.start(ready, "train", gpus=2)
    spec = spec_of(rig, ready)
    carry_out(site_of(rig), Change.CREATE, spec, before="start")
    with pytest.raises(QuotaRefused, match="quota"):
        site_of(rig).perform(Change.CREATE, spec, "start")
    more = spec_of(rig, ready, home_gib=ready.storage_gib + 1, gpus=0)
    with pytest.raises(QuotaRefused, match="quota"):
        site_of(rig).perform(Change.CREATE, more, "home")


def is_refused(rig: Rig, spec: EnvironmentSpec) -> bool:
    """A start that waits for a pod that has ended is not refused yet; one that is done would be wrong."""
    try:
        assert not site_of(rig).perform(Change.CREATE, spec, "start").done
    except (Permanent, QuotaRefused):
        return True
    return False


def test_a_suspended_workspace_has_none_and_none_comes_back(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = spec_of(rig, ready)
    carry_out(site_of(rig), Change.CREATE, spec)
    home = rig.home(spec)
    suspend(rig, ready)
    assert not site_of(rig).observe(spec).exists
    until(partial(is_refused, rig, spec), "what ended before is gone, and a new start is refused")
    assert not site_of(rig).observe(spec).exists
    resume(rig, ready)
    assert not site_of(rig).observe(spec).exists
    carry_out(site_of(rig), Change.RESUME, spec)
    assert rig.home(spec) == home


def test_without_its_workspace_there_is_nothing_to_end(
    rig: Rig, ready: WorkspaceSpec, release: Drive
) -> None:
    spec = spec_of(rig, ready)
    carry_out(site_of(rig), Change.CREATE, spec)
    release(ready)
    assert not site_of(rig).observe(spec).exists
    carry_out(site_of(rig), Change.SUSPEND, spec)
    carry_out(site_of(rig), Change.DELETE, spec)
    with pytest.raises(NotFound):
        site_of(rig).perform(Change.CREATE, spec, "home")


def with_workers(rig: Rig, workspace: WorkspaceSpec, count: int) -> EnvironmentSpec:
    spec = spec_of(rig, workspace)
    host = f"{spec.name}-main"
    workers = WorkerSpec(
        count, host, spec.image, vcpus=spec.vcpus, memory_gib=1, gpus=1, command=spec.command
    )
    return replace(spec, workers=workers, gpus=0)


def test_its_workers_start_count_and_end_with_it(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = with_workers(rig, ready, 2)
    for change in (Change.CREATE, Change.CREATE, Change.RESUME):
        carry_out(site_of(rig), change, spec)
    until(lambda: site_of(rig).observe(spec).workers == 2, "both workers run")
    seen = site_of(rig).observe(spec)
    assert (seen.ready, seen.whole, seen.detail) == (True, True, "")
    assert used(rig, ready) == 2
    with pytest.raises(NotFound, match="no worker 3"):
        site_of(rig).log(spec, lines=1, worker=3)
    carry_out(site_of(rig), Change.SUSPEND, spec)
    until(lambda: used(rig, ready) == 0, "it takes no GPU")
    carry_out(site_of(rig), Change.RESUME, spec)
    carry_out(site_of(rig), Change.DELETE, spec)
    assert (used(rig, ready), rig.home(spec)) == (0, "")


def test_a_worker_that_does_not_fit_is_left_out_until_it_does(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.start(ready, "train", gpus=1)
    spec = with_workers(rig, ready, 2)
    carry_out(site_of(rig), Change.CREATE, spec, before="start")
    outcome = site_of(rig).perform(Change.CREATE, spec, "start")
    assert (outcome.done, "quota" in outcome.refused) == (True, True)
    until(lambda: site_of(rig).observe(spec).workers == 1, "the other one runs")
    seen = site_of(rig).observe(spec)
    assert (seen.exists, seen.whole) == (True, False)
    rig.stop(ready, "train")
    until(lambda: not site_of(rig).perform(Change.CREATE, spec, "start").refused, "it fits")
    until(lambda: site_of(rig).observe(spec).workers == 2, "both run")
    assert site_of(rig).observe(spec).whole
    carry_out(site_of(rig), Change.SUSPEND, spec)
    until(lambda: used(rig, ready) == 0, "it takes no GPU")


def test_an_unknown_step_of_an_environment_is_refused_for_good(rig: Rig, shared: WorkspaceSpec) -> None:
    spec = spec_of(rig, shared)
    for change in (Change.CREATE, Change.SUSPEND, Change.RESUME, Change.DELETE):
        with pytest.raises(Permanent):
            site_of(rig).perform(change, spec, "no-such-step")
