"""Making, scaling, upgrading, putting to sleep and taking away; every verb repeated, interrupted and begun again."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from gpuaas.core.errors import NoCapacity, NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.providers.base import (
    Access,
    Change,
    ClusterAccessCapability,
    ClusterRevocationCapability,
    ClusterSpec,
)
from tests.contracts.clusters.rigs import (
    ALICE,
    BOB,
    ClusterRig,
    carry_out,
    counts,
    released,
    step_do,
    step_finish,
)
from tests.lab.fixtures import until

C = Change


def sizes(yard: ClusterRig, spec: ClusterSpec) -> dict[str, int]:
    return dict(Counter(node.pool for node in yard.driver.observe(spec.ref).nodes if node.ready))


def names(yard: ClusterRig, spec: ClusterSpec) -> set[tuple[str, str]]:
    return {(one.kind, one.name) for one in yard.driver.inventory(spec.ref)}


def is_refused(yard: ClusterRig, spec: ClusterSpec, access: Access) -> bool:
    """A site may take some seconds until it has forgotten a token."""
    try:
        yard.who(spec, access)
    except Unauthorized:
        return True
    return False


def test_a_cluster_is_made_with_every_machine_ready(yard: ClusterRig, ready: ClusterSpec) -> None:
    seen = yard.driver.observe(ready.ref)
    assert seen.exists
    assert seen.endpoint
    assert sizes(yard, ready) == {"": 1, "gpu": 2, "other": 1}
    assert {node.release for node in seen.nodes} == {yard.old}
    assert yard.gpus_held(ready) == sum(pool.flavor.count * pool.flavor.gpus for pool in ready.pools)


def test_a_cluster_that_is_handed_over_is_the_same_and_says_whose_it_is(
    yard: ClusterRig, ready: ClusterSpec
) -> None:
    """As a claim from a warm pool does: the steps of its creation once more, for another project."""
    nodes, made, said = yard.driver.observe(ready.ref).nodes, names(yard, ready), yard.owners(ready)
    theirs = replace(ready, project_slug=f"fold-{uuid4().hex[:8]}", organization_slug="biology")
    carry_out(yard.driver, C.CREATE, theirs)
    assert yard.owners(ready) == ({(theirs.project_slug, "biology")} if said else set())
    assert set(yard.driver.observe(ready.ref).nodes) == set(nodes)
    assert names(yard, ready) == made


def test_what_is_made_was_named_by_the_plan(yard: ClusterRig, ready: ClusterSpec) -> None:
    planned = {(one.kind, one.name) for one in yard.driver.plan(C.CREATE, ready).objects}
    assert planned
    assert planned <= names(yard, ready)
    assert yard.made_by_us(ready) <= planned
    if yard.names_everything:
        assert names(yard, ready) == planned
    assert {one.cluster_id for one in yard.driver.inventory(ready.ref)} == {ready.id}


def test_each_step_makes_only_what_it_named(yard: ClusterRig) -> None:
    spec, named = yard.spec(), set()
    for step in yard.driver.plan(C.CREATE, spec).steps:
        named |= {(one.kind, one.name) for one in step.makes}
        step_finish(yard.driver, C.CREATE, spec, step.key)
        assert yard.made_by_us(spec) <= named, step.key


def test_making_ends_alike_wherever_it_was_interrupted(yard: ClusterRig) -> None:
    spec = yard.spec()
    keys = [step.key for step in yard.driver.plan(C.CREATE, spec).steps]
    for reached in range(len(keys) + 1):
        for key in keys[:reached]:
            step_finish(yard.driver, C.CREATE, spec, key)
    carry_out(yard.driver, C.CREATE, spec)
    first = (yard.driver.observe(spec.ref), names(yard, spec))
    carry_out(yard.driver, C.CREATE, spec)
    assert (yard.driver.observe(spec.ref), names(yard, spec)) == first


def test_a_lost_answer_makes_nothing_twice(yard: ClusterRig) -> None:
    spec = yard.spec()
    for step in yard.driver.plan(C.CREATE, spec).steps:
        yard.answer_lost(C.CREATE, step.key)
        with pytest.raises(Unavailable):
            step_do(yard.driver, C.CREATE, spec, step.key)
        step_finish(yard.driver, C.CREATE, spec, step.key)
    planned = {(one.kind, one.name) for one in yard.driver.plan(C.CREATE, spec).objects}
    found = [(one.kind, one.name) for one in yard.driver.inventory(spec.ref)]
    assert len(found) == len(set(found))
    assert planned <= set(found)
    assert sizes(yard, spec) == {"": 1, "gpu": 2, "other": 1}
    if yard.names_everything:
        assert set(found) == planned


def test_a_step_without_what_it_stands_on_says_what_is_missing(yard: ClusterRig) -> None:
    spec = yard.spec()
    with pytest.raises(NotFound):
        step_do(yard.driver, C.CREATE, spec, "pool:gpu")


def test_an_unknown_step_is_refused_for_good(yard: ClusterRig, ready: ClusterSpec) -> None:
    for change in C:
        with pytest.raises(Permanent):
            step_do(yard.driver, change, ready, "no-such-step")


def test_somebody_elses_object_is_left_alone(yard: ClusterRig) -> None:
    spec = yard.spec()
    yard.foreign(spec)
    with pytest.raises(Permanent) as caught:
        step_do(yard.driver, C.CREATE, spec, yard.driver.plan(C.CREATE, spec).steps[0].key)
    assert caught.value.detail["evidence"]
    carry_out(yard.driver, C.DELETE, spec)
    assert not yard.driver.observe(spec.ref).exists


def test_pools_grow_and_shrink(yard: ClusterRig, ready: ClusterSpec) -> None:
    more = counts(ready, gpu=4)
    plan = yard.driver.plan(C.SCALE, more, ready)
    assert "pool:other" not in [step.key for step in plan.steps], "what stays is not touched"
    carry_out(yard.driver, C.SCALE, more, ready)
    assert sizes(yard, more) == {"": 1, "gpu": 4, "other": 1}

    fewer = counts(ready, gpu=1)
    assert yard.driver.plan(C.SCALE, fewer, more).warnings, "whoever asks is told that work ends"
    carry_out(yard.driver, C.SCALE, fewer, more)
    assert sizes(yard, fewer) == {"": 1, "gpu": 1, "other": 1}
    assert yard.gpus_held(fewer) == 4


def test_no_host_is_said_with_evidence_and_can_be_taken_back(yard: ClusterRig, ready: ClusterSpec) -> None:
    if not yard.too_many():
        pytest.skip("this site has hosts for any number")
    many = counts(ready, gpu=yard.too_many())
    with pytest.raises(NoCapacity) as caught:
        until(lambda: step_do(yard.driver, C.SCALE, many, "pool:gpu").done, "no host is told")
    assert caught.value.detail["evidence"]
    assert caught.value.detail["next"]
    carry_out(yard.driver, C.SCALE, ready, many)
    assert sizes(yard, ready) == {"": 1, "gpu": 2, "other": 1}
    assert yard.gpus_held(ready) == 6


def test_the_control_plane_and_one_pool_are_upgraded_first(yard: ClusterRig, ready: ClusterSpec) -> None:
    if not yard.upgrades:
        with pytest.raises(Permanent):
            yard.driver.plan(C.UPGRADE, released(ready, yard.new, "gpu"), ready)
        pytest.skip("this driver leaves upgrades to the cluster")
    first = released(ready, yard.new, "gpu")
    keys = [step.key for step in yard.driver.plan(C.UPGRADE, first, ready).steps]
    assert keys.index("control-plane") < keys.index("pool:gpu")
    assert "pool:other" not in keys
    carry_out(yard.driver, C.UPGRADE, first, ready)
    nodes = yard.driver.observe(ready.ref).nodes
    assert {node.pool: node.release for node in nodes} == {"": yard.new, "gpu": yard.new, "other": yard.old}

    rest = released(ready, yard.new, "gpu", "other")
    assert "control-plane" not in [step.key for step in yard.driver.plan(C.UPGRADE, rest, first).steps]
    carry_out(yard.driver, C.UPGRADE, rest, first)
    assert {node.release for node in yard.driver.observe(ready.ref).nodes} == {yard.new}


def test_a_broken_worker_is_seen_and_replaced(yard: ClusterRig, ready: ClusterSpec) -> None:
    broken = next(node for node in yard.driver.observe(ready.ref).nodes if node.pool == "gpu")
    yard.node_break(broken.name)
    seen = [node for node in yard.driver.observe(ready.ref).nodes if not node.ready]
    assert [node.name for node in seen] == [broken.name]
    assert seen[0].reason
    carry_out(yard.driver, C.CREATE, ready)
    assert sizes(yard, ready) == {"": 1, "gpu": 2, "other": 1}


def test_asleep_it_holds_no_gpu_and_wakes_as_it_was(yard: ClusterRig, ready: ClusterSpec) -> None:
    if C.SUSPEND not in yard.driver.changes:
        pytest.skip("this driver cannot put a cluster to sleep")
    asleep = counts(ready, gpu=0, other=0)
    carry_out(yard.driver, C.SUSPEND, asleep, ready)
    assert yard.gpus_held(ready) == 0
    assert sizes(yard, ready) == {"": 1}
    carry_out(yard.driver, C.RESUME, ready, asleep)
    assert sizes(yard, ready) == {"": 1, "gpu": 2, "other": 1}


def test_access_is_personal_and_ends_with_the_cluster(yard: ClusterRig, ready: ClusterSpec) -> None:
    if not isinstance(yard.driver, ClusterAccessCapability):
        pytest.skip("this driver gives no credentials")
    access = yard.driver.access(ready, ALICE, lifetime=timedelta(hours=1))
    assert yard.who(ready, access) == ALICE.subject
    assert access.document not in repr(access)
    step_finish(yard.driver, C.DELETE, ready, yard.driver.plan(C.DELETE, ready).steps[0].key)
    until(lambda: is_refused(yard, ready, access), "the credential is refused")


def test_a_persons_access_is_ended_alone_and_can_be_had_again(yard: ClusterRig) -> None:
    driver = yard.driver
    if not isinstance(driver, ClusterRevocationCapability) or not isinstance(driver, ClusterAccessCapability):
        pytest.skip("credentials of this driver end by themselves")
    ready = yard.ready()
    mine = driver.access(ready, ALICE, lifetime=timedelta(hours=1))
    other = driver.access(ready, BOB, lifetime=timedelta(hours=1))
    for _ in range(2):
        driver.revoke(ready, ALICE)
    until(lambda: is_refused(yard, ready, mine), "the credential is refused")
    assert yard.who(ready, other) == BOB.subject
    again = driver.access(ready, ALICE, lifetime=timedelta(hours=1))
    assert yard.who(ready, again) == ALICE.subject
    assert is_refused(yard, ready, mine)


def test_nobody_gets_access_to_what_is_not_there(yard: ClusterRig) -> None:
    if not isinstance(yard.driver, ClusterAccessCapability):
        pytest.skip("this driver gives no credentials")
    with pytest.raises(NotFound):
        yard.driver.access(yard.spec(), ALICE, lifetime=timedelta(hours=1))


def test_deletion_leaves_nothing_and_may_be_repeated(yard: ClusterRig, ready: ClusterSpec) -> None:
    carry_out(yard.driver, C.DELETE, ready)
    assert not yard.driver.observe(ready.ref).exists
    assert yard.driver.inventory(ready.ref) == ()
    assert yard.gpus_held(ready) == 0
    carry_out(yard.driver, C.DELETE, ready)


def test_deletion_of_what_was_half_made_leaves_nothing(yard: ClusterRig) -> None:
    keys = [step.key for step in yard.driver.plan(C.CREATE, yard.spec()).steps]
    for reached in range(len(keys) + 1):
        spec = yard.spec()
        for key in keys[:reached]:
            step_do(yard.driver, C.CREATE, spec, key)
            step_finish(yard.driver, C.CREATE, spec, key)
        carry_out(yard.driver, C.DELETE, spec)
        assert yard.driver.inventory(spec.ref) == (), reached


def test_other_clusters_are_left_alone(yard: ClusterRig, ready: ClusterSpec) -> None:
    other = yard.spec(workers=1)
    carry_out(yard.driver, C.CREATE, other)
    everything = {(one.name, one.cluster_id) for one in yard.driver.inventory()}
    assert {other.id, ready.id} <= {owner for _, owner in everything}
    carry_out(yard.driver, C.DELETE, ready)
    assert sizes(yard, other) == {"": 1, "gpu": 1, "other": 1}


def test_a_site_that_does_not_answer_is_unavailable(yard: ClusterRig) -> None:
    spec, driver = yard.spec(), yard.unreachable()
    for verb in (
        lambda: step_do(driver, C.CREATE, spec, driver.plan(C.CREATE, spec).steps[0].key),
        lambda: step_do(driver, C.DELETE, spec, driver.plan(C.DELETE, spec).steps[0].key),
        lambda: driver.observe(spec.ref),
        lambda: driver.inventory(spec.ref),
    ):
        with pytest.raises(Unavailable) as caught:
            verb()
        assert caught.value.retry_after >= 1
