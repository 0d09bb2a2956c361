"""Storage by volume type: of each type what was bought, as the cloud and those who buy change."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from gpuaas.core.errors import QuotaRefused
from gpuaas.providers.base import Change, MachineStatus, MachineVerb, WorkspaceSpec
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.preflight import platform
from gpuaas.workspaces.reconcile.job import enforced, hard_of
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.providers.openstack.conftest import ALICE, provision, ref, spec_of, take_away
from tests.providers.openstack.test_machines import find, order_of, reaches
from tests.providers.openstack.test_volumes import project_of, status
from tests.providers.openstack.test_workspace import as_member
from tests.providers.openstack.volume_types.conftest import (
    PLAIN,
    Types,
    cleared,
    is_given,
    limits_of,
    made,
    theirs,
    type_deleted,
    type_made,
    type_of,
    written,
)

pytestmark = pytest.mark.openstack


def test_the_types_of_the_cloud_are_the_sites_storage_classes(driver: OpenStackDriver, types: Types) -> None:
    found = {each.name: each for each in driver.probe().storage_classes or ()}
    assert found.keys() >= {PLAIN, types.fast, types.archive, types.private}
    assert [name for name, each in found.items() if each.default] == [PLAIN]
    assert found[types.fast].provisioner == "lab"


def test_of_each_type_there_is_what_was_bought(
    driver: OpenStackDriver, stored: WorkspaceSpec, admin: Cloud, types: Types, member: Cloud
) -> None:
    project = project_of(admin, stored)["id"]
    assert limits_of(admin, project, types.fast) == (2, 2, 2)
    assert limits_of(admin, project, types.archive) == limits_of(admin, project, types.private) == (0, 0, 0)
    with ThreadPoolExecutor(8) as many:
        given = list(many.map(lambda _: is_given(member, types.fast), range(8)))
    assert given.count(True) == 2
    assert not is_given(member, types.archive)
    assert [is_given(member, "") for _ in range(4)] == [True, True, True, False]
    seen = driver.observe(ref(stored))
    assert (seen.hard["storage"], seen.used["storage"]) == (5, 5)
    assert (seen.hard[f"storage:{types.fast}"], seen.used[f"storage:{types.fast}"]) == (2, 2)
    assert (seen.hard[f"storage:{PLAIN}"], seen.used[f"storage:{PLAIN}"]) == (3, 3)
    assert {**seen.hard, **hard_of(stored)} == seen.hard
    listed = sorted((each.gib, each.storage_class) for each in seen.volumes)
    assert listed == [(1, PLAIN)] * 3 + [(1, types.fast)] * 2
    assert len({each.name for each in seen.volumes}) == 5


def test_a_type_that_comes_later_has_no_more_than_the_sum_and_is_closed_by_the_next_comparison(
    driver: OpenStackDriver, stored: WorkspaceSpec, admin: Cloud, member: Cloud
) -> None:
    """The specification has no word of it yet; what was stored in it before stays."""
    late, project = f"late-{uuid.uuid4().hex[:6]}", project_of(admin, stored)["id"]
    key = type_made(admin, late)
    try:
        made(member, 2, late)
        with pytest.raises(QuotaRefused):
            member.post("volume", "/volumes", {"volume": {"size": 4, "volume_type": late}})
        told = {(one.path, one.wanted, one.found, one.step) for one in driver.drift(stored)}
        assert (f"gigabytes_{late}", "2", "-1", "limits") in told
        written(driver, stored)
        assert limits_of(admin, project, late) == (2, 1, 0)
        assert not is_given(member, late)
        assert driver.drift(stored) == ()
        cleared(member)
        written(driver, stored)
        assert limits_of(admin, project, late) == (0, 0, 0)
    finally:
        cleared(member)
        type_deleted(admin, key)


def test_a_type_that_is_gone_again_is_no_drift(
    driver: OpenStackDriver, stored: WorkspaceSpec, admin: Cloud
) -> None:
    gone = f"gone-{uuid.uuid4().hex[:6]}"
    key = type_made(admin, gone)
    spec = replace(stored, storage_classes={**stored.storage_classes, gone: 1}, storage_gib=6)
    try:
        written(driver, spec)
        type_deleted(admin, key)
        written(driver, spec)
        assert driver.drift(spec) == ()
        seen = driver.observe(ref(spec))
        assert f"storage:{gone}" not in seen.hard
        assert {**enforced(spec, seen), **hard_of(spec)} == enforced(spec, seen)
    finally:
        written(driver, stored)


def test_a_limit_of_a_type_that_somebody_changed_is_told_and_set_right(
    driver: OpenStackDriver, stored: WorkspaceSpec, admin: Cloud, types: Types
) -> None:
    assert driver.drift(stored) == ()
    project = project_of(admin, stored)["id"]
    loose = {f"gigabytes_{types.fast}": -1, f"volumes_{types.archive}": 9}
    admin.put("volume", f"/os-quota-sets/{project}", {"quota_set": loose})
    told = {(one.path, one.wanted, one.found) for one in driver.drift(stored)}
    assert told == {(f"gigabytes_{types.fast}", "2", "-1"), (f"volumes_{types.archive}", "0", "9")}
    assert not driver.perform(Change.CREATE, stored, "confirm").done
    written(driver, stored)
    assert driver.drift(stored) == ()


def test_less_of_a_type_than_there_is_takes_nothing_away_and_gives_nothing_more(
    driver: OpenStackDriver, stored: WorkspaceSpec, admin: Cloud, types: Types, member: Cloud
) -> None:
    less, project = (
        replace(stored, storage_gib=4, storage_classes={PLAIN: 3, types.fast: 1}),
        project_of(admin, stored)["id"],
    )
    disks = [made(member, 1, types.fast) for _ in range(2)]
    try:
        for there in (2, 1):
            written(driver, less)
            assert limits_of(admin, project, types.fast) == (there, there, 1)
            assert driver.drift(less) == ()
            assert not is_given(member, types.fast)
            last = disks.pop()
            member.delete("volume", f"/volumes/{last}")
            until(lambda last=last: not status(member, last), "the volume is gone")  # type: ignore[misc]
    finally:
        written(driver, stored)


def test_who_bought_only_a_private_type_has_access_to_it_and_volumes_are_of_it(
    driver: OpenStackDriver, admin: Cloud, types: Types
) -> None:
    """Also the volume that a machine comes with. Nobody else has access, and nothing is left of it."""
    spec = replace(
        spec_of(gpus=1, members=(ALICE,)),
        storage_gib=2,
        storage_classes={PLAIN: 0, types.private: 2},
        closed_classes=(types.fast, types.archive),
    )
    try:
        provision(driver, spec)
        assert driver.drift(spec) == ()
        project, key = project_of(admin, spec)["id"], _key(admin, types.private)
        assert _access(admin, key) == [project]
        with closing(as_member(driver, spec)) as own:
            assert type_of(own, made(own)) == types.private
            uid = driver.launch(ref(spec), order_of(driver, spec, volume_gib=1)).uid
            (disk,) = reaches(driver, spec, uid, MachineStatus.RUNNING).volumes
            assert type_of(own, disk) == types.private
            driver.act(ref(spec), uid, MachineVerb.DELETE, action=uuid.uuid4())
            until(lambda: find(driver, spec, uid) is None, "the machine is gone")
        action = {"removeProjectAccess": {"project": project}}
        admin.post("volume", f"/types/{key}/action", action)
        (told,) = driver.drift(spec)
        assert (told.object, told.found) == (f"VolumeType/{types.private}", "not granted")
        written(driver, spec)
        assert _access(admin, key) == [project]
    finally:
        take_away(driver, spec)
    assert _access(admin, key) == []
    assert admin.find("volume", f"/default-types/{project}") is None


def _key(admin: Cloud, name: str) -> str:
    rows = admin.items("volume", "/types", "volume_types", is_public="None")
    return next(str(row["id"]) for row in rows if row["name"] == name)


def _access(admin: Cloud, key: str) -> list[str]:
    rows = admin.get("volume", f"/types/{key}/os-volume-type-access")["volume_type_access"]
    return [row["project_id"] for row in rows]


def test_asleep_it_keeps_what_was_bought_of_each_type(
    driver: OpenStackDriver, stored: WorkspaceSpec, admin: Cloud, types: Types
) -> None:
    sleeping = replace(stored, suspended=True, gpus=(), flavors=(), vcpus=0, memory_gib=0)
    try:
        written(driver, sleeping)
        assert limits_of(admin, project_of(admin, stored)["id"], types.fast) == (2, 2, 2)
    finally:
        written(driver, stored)


def test_what_is_deleted_while_it_falls_asleep_keeps_no_step_waiting(
    driver: OpenStackDriver, stored: WorkspaceSpec, admin: Cloud, types: Types, member: Cloud
) -> None:
    """Of a type that was never bought: the limits were written while there was more in it."""
    sleeping = replace(stored, suspended=True, gpus=(), flavors=(), vcpus=0, memory_gib=0)
    disk, _ = opened(admin, stored, member, types.archive)
    try:
        assert driver.perform(Change.SUSPEND, sleeping, "limits").done
        member.delete("volume", f"/volumes/{disk}")
        until(lambda: not status(member, disk), "the volume is gone")
        assert not driver.perform(Change.SUSPEND, sleeping, "confirm").done
        assert driver.perform(Change.SUSPEND, sleeping, "confirm").done
        assert limits_of(admin, project_of(admin, stored)["id"], types.archive) == (1, 1, 0)
    finally:
        cleared(member)
        written(driver, stored)


def opened(admin: Cloud, spec: WorkspaceSpec, own: Cloud, of_type: str) -> tuple[str, str]:
    """Two volumes of a type that was not bought, as from before it was closed."""
    loose = {f"gigabytes_{of_type}": 2, f"volumes_{of_type}": 2}
    admin.put("volume", f"/os-quota-sets/{project_of(admin, spec)['id']}", {"quota_set": loose})
    return made(own, 1, of_type), made(own, 1, of_type)


def test_a_project_that_is_taken_over_keeps_its_volumes_of_types_that_were_not_bought(
    driver: OpenStackDriver, cloud: LabCloud, admin: Cloud, types: Types
) -> None:
    old = cloud.project()
    name = cloud.call("GET", "identity", f"/projects/{old.id}").json()["project"]["name"]
    disk = theirs(cloud, old, types.archive)
    spec = replace(
        spec_of(gpus=1, members=(ALICE,)),
        external_name=name,
        storage_gib=2,
        storage_classes={PLAIN: 2},
        closed_classes=(types.fast, types.archive, types.private),
    )
    plan = {(step.object, step.detail) for step in driver.adoption_plan(spec)}
    assert (f"QuotaSet/{old.id} gigabytes_{types.archive}", "1 instead of -1") in plan
    assert (f"QuotaSet/{old.id} gigabytes_{types.fast}", "0 instead of -1") in plan
    words = "1 GiB stay, 0 GiB of it would be bought: no more can be made of this type"
    assert (f"VolumeType/{types.archive}", words) in plan
    assert not [named for named, _ in plan if named in (f"VolumeType/{PLAIN}", f"VolumeType/{types.fast}")]
    try:
        assert driver.adopt(spec).done
        provision(driver, spec)
        assert limits_of(admin, old.id, types.archive) == (1, 1, 0)
        assert driver.drift(spec) == ()
        with closing(as_member(driver, spec)) as own:
            assert status(own, disk) == "available"
            assert not is_given(own, types.archive)
    finally:
        take_away(driver, spec)
    assert status(admin, disk) == ""


def test_the_checks_say_which_types_there_are(admin: Cloud) -> None:
    told = platform.volumes(admin)
    assert (told.reason, told.blocking) == ("There", False)
    assert PLAIN in told.message
