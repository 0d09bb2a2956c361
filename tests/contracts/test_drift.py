"""Every driver tells what differs from what it has set, by whom, without changing it, and is told of changes by others."""

from dataclasses import replace

from gpuaas.providers.base import Change, DriftCapability, SiteChange, WorkspaceSpec
from tests.contracts.conftest import Drive
from tests.contracts.rigs import ALICE, Rig
from tests.lab.fixtures import until

NEEDS = DriftCapability


def test_what_was_just_made_does_not_differ(rig: Rig, ready: WorkspaceSpec) -> None:
    assert rig.driver.drift(ready) == ()


def test_what_is_not_there_is_one_difference(rig: Rig) -> None:
    (told,) = rig.driver.drift(rig.spec())
    assert (told.path, told.found) == ("", "missing")


def test_a_limit_that_somebody_raised_is_told_and_set_right(
    rig: Rig, ready: WorkspaceSpec, provision: Drive
) -> None:
    rig.loosen(ready, 16)
    (told,) = rig.driver.drift(ready)
    steps = {step.key: step for step in rig.driver.steps(Change.CREATE)}

    assert (told.wanted, told.found) == ("2", "16")
    assert told.changed_by.startswith(rig.changed_by)
    assert steps[told.step].safety, "limits are set right whatever the policy"
    assert rig.driver.drift(ready) == (told,), "looking changes nothing"
    provision(ready)
    assert rig.driver.drift(ready) == ()


def test_another_wish_differs_where_it_is_another(rig: Rig, shared: WorkspaceSpec) -> None:
    told = rig.driver.drift(replace(rig.resized(shared, 1), members=(ALICE,)))
    assert {one.step for one in told} >= {rig.limits_step, "access"}


def test_a_change_by_others_is_told_and_a_cursor_resumes(rig: Rig, ready: WorkspaceSpec) -> None:
    first = list(rig.driver.watch_changes("", seconds=2))
    assert first[0] == SiteChange(), "it begins with the whole site"
    cursor = next(change.cursor for change in reversed(first) if change.proof)
    rig.loosen(ready, 16)
    heard: list[SiteChange] = []

    def told() -> bool:
        heard.extend(rig.driver.watch_changes(cursor, seconds=2))
        return SiteChange(workspace_name=ready.external_name) in heard

    until(told, "the change is told", seconds=20)
    assert any(change.proof and change.cursor for change in heard)
