"""Credentials: personal, short-lived, and dead within seconds when they are ended; for people and for robots."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from gpuaas.core.clock import now
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import AccessCapability, Member, WorkspaceSpec
from tests.contracts.conftest import Drive
from tests.contracts.rigs import ALICE, BOB, Refused, Rig, ref
from tests.lab.fixtures import in_the_end, until

NEEDS = AccessCapability

CI = Member(subject="ci-0a1b2c3d", name="ci", role="edit", robot=True)


def test_what_is_issued_lives_no_longer_than_asked(rig: Rig, shared: WorkspaceSpec) -> None:
    access = rig.driver.issue_access(ref(shared), BOB, lifetime=timedelta(minutes=10))
    left = access.expires_at - now()
    assert timedelta(minutes=9) < left <= timedelta(minutes=10, seconds=5)


def test_revoked_it_is_dead_within_seconds_and_the_next_works(rig: Rig, ready: WorkspaceSpec) -> None:
    rig.start(ready, "alices")
    rig.start(ready, "bobs", member=BOB)
    rig.stop(ready, "bobs")
    in_the_end(lambda: rig.driver.revoke_access(ref(ready), BOB))
    in_the_end(lambda: rig.driver.revoke_access(ref(ready), BOB))

    dies(lambda: start_and_stop(rig, ready, BOB))

    start_and_stop(rig, ready, ALICE)
    rig.forget(ready, BOB)
    until(lambda: works(lambda: start_and_stop(rig, ready, BOB)), "a new credential works")


def test_who_leaves_loses_the_right_at_once(rig: Rig, ready: WorkspaceSpec, provision: Drive) -> None:
    start_and_stop(rig, ready, BOB)
    provision(replace(ready, members=(ALICE,)))
    dies(lambda: start_and_stop(rig, ready, BOB))


def test_another_role_counts_for_what_was_issued_before(
    rig: Rig, ready: WorkspaceSpec, provision: Drive
) -> None:
    start_and_stop(rig, ready, BOB)
    provision(replace(ready, members=(ALICE, replace(BOB, role="view"))))
    dies(lambda: start_and_stop(rig, ready, BOB))


def test_a_robot_is_a_member_like_any_other(rig: Rig, ready: WorkspaceSpec, provision: Drive) -> None:
    with pytest.raises(NotFound):
        rig.credential(ready, CI)
    provision(replace(ready, members=(ALICE, BOB, CI)))
    until(lambda: works(lambda: start_and_stop(rig, ready, CI)), "the robot may work")
    in_the_end(lambda: rig.driver.revoke_access(ref(ready), CI))
    dies(lambda: start_and_stop(rig, ready, CI))


def test_revoking_what_is_not_there_is_nothing(rig: Rig, shared: WorkspaceSpec) -> None:
    in_the_end(lambda: rig.driver.revoke_access(ref(shared), CI))
    in_the_end(lambda: rig.driver.revoke_access(ref(rig.spec()), BOB))


def start_and_stop(rig: Rig, spec: WorkspaceSpec, member: Member) -> None:
    """What a credential is good for; the next try has room again."""
    name = f"by-{member.name}-{time.monotonic_ns()}"
    rig.start(spec, name, gpus=0, member=member)
    rig.stop(spec, name)


def works(act: Callable[[], None]) -> bool:
    try:
        act()
    except Refused:
        return False
    return True


def dies(act: Callable[[], None]) -> None:
    """It is refused in the end (an API server believes for 10 s that a token is good), and then it stays so."""
    until(lambda: not works(act), "it is refused", seconds=12)
    assert not works(act)
