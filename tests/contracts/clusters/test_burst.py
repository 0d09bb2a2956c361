"""Pools at another site than the control plane, of the drivers that can."""

from collections import Counter
from dataclasses import replace

import pytest

from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Change, ClusterBurstCapability, ClusterDriver, ClusterSpec
from tests.contracts.clusters.rigs import ClusterRig, carry_out, counts, released, step_finish

C = Change
NEEDS = ClusterBurstCapability


@pytest.fixture
def ready(yard: ClusterRig) -> ClusterSpec:
    """At home alone, of a template that names burst sites."""
    spec = replace(yard.spec(workers=1), spans=True)
    carry_out(yard.driver, C.CREATE, spec)
    return spec


@pytest.fixture
def there(yard: ClusterRig) -> ClusterDriver:
    return yard.elsewhere()


def joining(yard: ClusterRig, home: ClusterSpec) -> ClusterSpec:
    """One pool of one worker beside those at home, with what it needs to join."""
    assert isinstance(yard.driver, ClusterBurstCapability)
    first = replace(home.pools[0], name="far")
    bare = replace(home.control_plane, count=0)
    far = replace(home, control_plane=bare, pools=(first,), addons=(), join=yard.driver.join(home))
    return counts(far, far=1)


def names(driver: ClusterDriver, spec: ClusterSpec) -> set[tuple[str, str]]:
    return {(one.kind, one.name) for one in driver.inventory(spec.ref)}


def sizes(driver: ClusterDriver, spec: ClusterSpec) -> dict[str, int]:
    return dict(Counter(node.pool for node in driver.observe(spec.ref).nodes if node.ready))


def test_nobody_joins_what_is_not_there(yard: ClusterRig) -> None:
    assert isinstance(yard.driver, ClusterBurstCapability)
    with pytest.raises(NotFound):
        yard.driver.join(replace(yard.spec(), spans=True))


def test_workers_elsewhere_come_grow_are_upgraded_and_go(
    yard: ClusterRig, there: ClusterDriver, ready: ClusterSpec
) -> None:
    home = names(yard.driver, ready)
    spec = joining(yard, ready)
    planned = {(one.kind, one.name) for one in there.plan(C.CREATE, spec).objects}
    carry_out(there, C.CREATE, spec)
    assert sizes(there, spec) == {"far": 1}
    assert names(there, spec) == planned
    yard.one_net(ready, there, spec)
    carry_out(there, C.CREATE, spec)
    assert names(there, spec) == planned, "repeating it changes nothing"

    more = counts(spec, far=2)
    carry_out(there, C.SCALE, more, spec)
    assert sizes(there, more) == {"far": 2}
    yard.one_net(ready, there, more)
    later = released(more, yard.new, "far")
    carry_out(there, C.UPGRADE, later, more)
    assert {node.release for node in there.observe(later.ref).nodes} == {yard.new}
    assert names(yard.driver, ready) == home, "nothing of it is at home"

    carry_out(there, C.DELETE, later)
    assert there.inventory(later.ref) == ()
    assert sizes(yard.driver, ready) == {"": 1, "gpu": 1, "other": 1}
    assert names(yard.driver, ready) == home


def test_whatever_brings_workers_makes_what_they_stand_on(
    yard: ClusterRig, there: ClusterDriver, ready: ClusterSpec
) -> None:
    spec = joining(yard, ready)
    none = counts(spec, far=0)
    for change in (C.SCALE, C.RESUME):
        for step in there.plan(change, spec, none).steps:
            step_finish(there, change, spec, step.key)
        assert sizes(there, spec) == {"far": 1}
        carry_out(there, C.DELETE, spec)
        assert there.inventory(spec.ref) == ()


def test_the_token_is_in_no_words(yard: ClusterRig, ready: ClusterSpec) -> None:
    spec = joining(yard, ready)
    assert spec.join is not None
    assert spec.join.token not in repr(spec)
    assert spec.join.endpoint
