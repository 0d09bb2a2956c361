"""Every verb may be repeated, interrupted anywhere and begun again, by anybody."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from gpuaas.core.errors import NotFound, Permanent, Unavailable
from gpuaas.providers.base import Change, WorkspaceSpec
from tests.contracts.conftest import Drive
from tests.contracts.rigs import ALICE, BOB, CHARLIE, Refused, Rig, ensure_step, ref, release_step
from tests.lab.fixtures import until


def test_ensure_ends_alike_wherever_it_was_interrupted(rig: Rig, provision: Drive) -> None:
    spec = rig.spec()
    keys = [step.key for step in rig.driver.steps(Change.CREATE)]
    for reached in range(1, len(keys) + 1):
        for key in keys[:reached]:
            ensure_step(rig.driver, spec, key)
    first = rig.driver.observe(ref(spec))
    provision(spec)
    assert rig.driver.observe(ref(spec)) == first
    assert rig.namespaces(spec.external_name) == 1


def test_access_is_the_last_step_and_waits_for_the_quota(rig: Rig) -> None:
    spec = rig.spec()
    keys = [step.key for step in rig.driver.steps(Change.CREATE)]
    assert keys[-1] == "access"
    ensure_step(rig.driver, spec, keys[0])
    assert not rig.driver.perform(Change.CREATE, spec, "access").done
    with pytest.raises(NotFound):
        rig.credential(spec)


def test_a_step_before_the_namespace_says_what_is_missing(rig: Rig) -> None:
    with pytest.raises(NotFound):
        rig.driver.perform(Change.CREATE, rig.spec(), rig.limits_step)


def test_who_leaves_is_out_and_who_comes_is_in(rig: Rig, ready: WorkspaceSpec, provision: Drive) -> None:
    rig.start(ready, "bobs", member=BOB)
    without_bob = replace(ready, members=(ALICE, CHARLIE))
    provision(without_bob)

    def refused() -> bool:
        try:
            rig.start(ready, "bobs-too", member=BOB)
        except Refused as refusal:
            return not re.search(rig.over, str(refusal))
        rig.stop(ready, "bobs-too")
        return False

    until(refused, "bob is out")
    rig.start(ready, "alices")
    with pytest.raises(Refused):
        rig.start(without_bob, "charlies", member=CHARLIE)


def test_nobody_gets_access_who_is_no_member(rig: Rig, shared: WorkspaceSpec) -> None:
    with pytest.raises(NotFound):
        rig.credential(shared, CHARLIE)


def test_release_takes_everything_and_may_be_repeated(rig: Rig, ready: WorkspaceSpec, release: Drive) -> None:
    rig.start(ready, "one")
    first = rig.driver.steps(Change.DELETE)[0].key
    assert first == "access"
    release_step(rig.driver, ready, first)
    with pytest.raises(NotFound):
        rig.driver.issue_access(ref(ready), ALICE, lifetime=timedelta(hours=1))
    release(ready)
    assert not rig.driver.observe(ref(ready)).exists
    assert rig.namespaces(ready.external_name) == 0
    release(ready)


def test_release_of_what_never_was_is_done_at_once(rig: Rig) -> None:
    spec = rig.spec()
    assert all(
        rig.driver.perform(Change.DELETE, spec, step.key).done for step in rig.driver.steps(Change.DELETE)
    )
    assert not rig.driver.observe(ref(spec)).exists


def test_somebody_elses_namespace_is_left_alone_and_holds_up_no_release(rig: Rig) -> None:
    spec = rig.spec()
    rig.foreign(spec.external_name)
    with pytest.raises(Permanent):
        rig.driver.perform(Change.CREATE, spec, rig.driver.steps(Change.CREATE)[0].key)
    for step in rig.driver.steps(Change.DELETE):
        assert rig.driver.perform(Change.DELETE, spec, step.key).done, "nothing of ours is there"
    assert not rig.driver.observe(ref(spec)).exists
    assert rig.namespaces(spec.external_name) == 1


def test_an_unknown_step_is_refused_for_good(rig: Rig, shared: WorkspaceSpec) -> None:
    with pytest.raises(Permanent):
        rig.driver.perform(Change.CREATE, shared, "no-such-step")


def test_a_site_that_does_not_answer_is_unavailable(rig: Rig) -> None:
    spec, driver = rig.spec(), rig.unreachable()
    for verb in (
        driver.probe,
        lambda: driver.perform(Change.CREATE, spec, driver.steps(Change.CREATE)[0].key),
        lambda: driver.perform(Change.DELETE, spec, driver.steps(Change.DELETE)[0].key),
        lambda: driver.observe(ref(spec)),
    ):
        with pytest.raises(Unavailable) as caught:
            verb()
        assert caught.value.retry_after >= 1
