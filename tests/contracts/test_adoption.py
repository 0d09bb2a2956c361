"""Taking over what was there before the portal: found, planned without a touch, marked, and held like any other."""

from dataclasses import replace

import pytest

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import AdoptionCapability, AdoptionStep, Change, WorkspaceSpec
from tests.contracts.conftest import Drive
from tests.contracts.rigs import Refused, Rig, adopt, ref

NEEDS = AdoptionCapability


def taking(rig: Rig, *, gpus: int = 2) -> WorkspaceSpec:
    """The wish to take over a namespace in which one consumer holds a GPU."""
    spec = rig.spec(gpus=gpus)
    spec = replace(spec, external_name=f"old-{spec.external_name.removeprefix('gpu-')}")
    rig.foreign(spec.external_name)
    rig.foreign_start(spec.external_name, "before", gpus=1)
    return spec


def in_the_way(plan: tuple[AdoptionStep, ...]) -> list[AdoptionStep]:
    return [step for step in plan if step.blocking]


def test_what_is_nobodys_is_found_with_what_it_holds(rig: Rig, ready: WorkspaceSpec) -> None:
    spec = taking(rig)
    found = {one.external_name: one for one in rig.driver.adoptable()}
    one = found[spec.external_name]
    assert one.gpus == {rig.gpu.resource_name: 1}
    assert one.consumers == 1
    assert one.vcpus >= 1
    assert sum(sum(held.values()) for held in one.placed.values()) == 1
    assert ready.external_name not in found
    assert not [name for name in found if name.startswith("kube-") or name in ("default", "admin", "service")]


def test_a_plan_touches_nothing_and_is_the_same_again(rig: Rig) -> None:
    spec = taking(rig)
    plan = rig.driver.adoption_plan(spec)
    assert rig.driver.adoption_plan(spec) == plan
    assert in_the_way(plan) == []
    assert {step.action for step in plan} <= {"create", "change", "remove", "keep"}
    assert not rig.driver.observe(ref(spec)).exists
    assert spec.external_name in {one.external_name for one in rig.driver.adoptable()}


def test_it_goes_on_as_it_was_and_is_held(rig: Rig, provision: Drive, release: Drive) -> None:
    spec = taking(rig)
    before = rig.uids(spec.external_name)
    adopt(rig.driver, spec)
    adopt(rig.driver, spec)
    assert spec.external_name not in {one.external_name for one in rig.driver.adoptable()}
    provision(spec)
    assert rig.uids(spec.external_name) == before
    seen = rig.driver.observe(ref(spec))
    assert seen.hard[rig.gpu.resource_name] == 2
    assert [one.name for one in seen.consumers] == ["before"]
    rig.start(spec, "second")
    with pytest.raises(Refused, match=rig.over):
        rig.start(spec, "third")
    release(spec)
    assert rig.namespaces(spec.external_name) == 0


def test_more_in_use_than_bought_is_in_the_way(rig: Rig) -> None:
    spec = taking(rig)
    rig.foreign_start(spec.external_name, "more", gpus=2)
    plan = rig.driver.adoption_plan(spec)
    assert any(rig.gpu.resource_name in step.detail for step in in_the_way(plan))
    with pytest.raises(Permanent, match=r"3 of|in use"):
        rig.driver.adopt(spec)
    assert not rig.driver.observe(ref(spec)).exists


def test_its_own_quota_is_in_the_way_or_becomes_ours(rig: Rig, provision: Drive) -> None:
    """Never do two stand beside each other: a second object has to go first, a limit that a site has but once is changed."""
    spec = taking(rig)
    rig.foreign_quota(spec.external_name, gpus=4)
    assert next(one for one in rig.driver.adoptable() if one.external_name == spec.external_name).hard == {
        rig.gpu.resource_name: 4
    }
    blocked = bool(in_the_way(rig.driver.adoption_plan(spec)))
    assert blocked is not rig.one_limit_each
    if blocked:
        with pytest.raises(Permanent):
            rig.driver.adopt(spec)
    else:
        rig.driver.adopt(spec)
        provision(spec)
        assert rig.driver.observe(ref(spec)).hard[rig.gpu.resource_name] == 2


def test_another_workspaces_is_refused(rig: Rig, provision: Drive) -> None:
    spec = taking(rig)
    adopt(rig.driver, spec)
    other = replace(spec, id=rig.spec().id)
    with pytest.raises(Permanent):
        rig.driver.adoption_plan(other)
    with pytest.raises(Permanent):
        rig.driver.adopt(other)


def test_what_is_not_there_or_the_sites_own_is_refused(rig: Rig) -> None:
    spec = rig.spec()
    with pytest.raises(NotFound):
        rig.driver.adopt(replace(spec, external_name="old-and-gone"))
    rig.sites_own()
    for verb in (rig.driver.adoption_plan, rig.driver.adopt):
        with pytest.raises(Permanent, match="belongs to the site itself"):
            verb(replace(spec, external_name=rig.sites_own_name))


def test_one_that_was_never_taken_over_is_left_alone(rig: Rig) -> None:
    """A workspace that is deleted before it took over has nothing there."""
    spec = taking(rig)
    assert all(
        rig.driver.perform(Change.DELETE, spec, step.key).done for step in rig.driver.steps(Change.DELETE)
    )
    assert rig.namespaces(spec.external_name) == 1
    assert len(rig.uids(spec.external_name)) == 1
    with pytest.raises(Permanent):
        rig.driver.perform(Change.CREATE, spec, rig.driver.steps(Change.CREATE)[0].key)
