"""Storage that was bought is Cinder's to give: no more of it, gone with the workspace, and none where the site has no Cinder."""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from deploy.lab.openstack import Lab
from gpuaas.core.conditions import Status
from gpuaas.core.errors import NotFound, Permanent, QuotaRefused
from gpuaas.providers.base import Change, MachineStatus, MachineVerb, WorkspaceSpec
from gpuaas.providers.openstack import limits, projects
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.leftovers import inventory
from gpuaas.providers.openstack.preflight import platform
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.providers.openstack.conftest import ALICE, provision, ref, spec_of, take_away
from tests.providers.openstack.test_machines import find, order_of, reaches
from tests.providers.openstack.test_workspace import as_member

pytestmark = pytest.mark.openstack
GIB = 4


@pytest.fixture(scope="module")
def stored(driver: OpenStackDriver) -> Iterator[WorkspaceSpec]:
    """4 GiB for alice; each test deletes its volumes."""
    spec = replace(spec_of(gpus=1, members=(ALICE,)), storage_gib=GIB)
    try:
        provision(driver, spec)
        yield spec
    finally:
        take_away(driver, spec)


@pytest.fixture
def admin(driver: OpenStackDriver) -> Cloud:
    return Cloud(driver.connection.credentials)


@pytest.fixture
def alice(driver: OpenStackDriver, stored: WorkspaceSpec) -> Iterator[Cloud]:
    with closing(as_member(driver, stored)) as own:
        yield own
        for kind in ("snapshots", "volumes"):
            for row in own.items("volume", f"/{kind}", kind):
                own.delete("volume", f"/{kind}/{row['id']}")
            until(lambda kind=kind: not own.items("volume", f"/{kind}", kind), f"no {kind} are left")  # type: ignore[misc]


def project_of(admin: Cloud, spec: WorkspaceSpec) -> Object:
    found = projects.marked_project(admin, spec.external_name, spec.id)
    assert found is not None
    return found


def quota_of(admin: Cloud, project_id: str) -> Object:
    found: Object = admin.get("volume", f"/os-quota-sets/{project_id}")["quota_set"]
    return found


def made(own: Cloud, name: str, gib: int = 1) -> str:
    key = str(own.post("volume", "/volumes", {"volume": {"name": name, "size": gib}})["volume"]["id"])
    until(lambda: status(own, key) == "available", f"the volume {name} is there")
    return key


def status(own: Cloud, volume: str) -> str:
    """ "" where it is gone."""
    found = own.find("volume", f"/volumes/{volume}")
    return str(found["volume"]["status"]) if found else ""


def test_parallel_volumes_end_at_what_was_bought_and_nothing_else_goes_beyond(
    driver: OpenStackDriver, stored: WorkspaceSpec, admin: Cloud, alice: Cloud
) -> None:
    with ThreadPoolExecutor(8) as many:
        given = list(many.map(lambda number: _answer(alice, f"disk-{number}"), range(8)))
    assert sorted(given) == ["given"] * GIB + ["refused"] * (8 - GIB)
    rows = until(lambda: _available(alice), "all are made")
    first = rows[0]["id"]
    for path, body in (
        ("/snapshots", {"snapshot": {"volume_id": first, "name": "copy"}}),
        (f"/volumes/{first}/action", {"os-extend": {"new_size": 9}}),
        ("/volumes", {"volume": {"size": 1, "source_volid": first}}),
        ("/backups", {"backup": {"volume_id": first, "name": "elsewhere"}}),
    ):
        with pytest.raises((QuotaRefused, NotFound)):  # backups: nobody serves them in the lab
            alice.post("volume", path, body)
    seen = driver.observe(ref(stored))
    assert (seen.hard["storage"], seen.used["storage"]) == (GIB, GIB)
    has = driver.belongings(ref(stored))
    assert has.volumes_sold
    told = {(item.name, item.detail) for item in has.items if item.kind == "volume"}
    assert told == {(row["name"], "1 GiB, available") for row in rows}
    project = project_of(admin, stored)["id"]
    assert quota_of(admin, project)["backups"] == quota_of(admin, project)["groups"] == 0
    # the next client of the cloud sees none of it, and may not look
    with pytest.raises(Exception, match=r"(?i)quota|right|polic"):
        alice.put("volume", f"/os-quota-sets/{project}", {"quota_set": {"gigabytes": 999}})


def _answer(own: Cloud, name: str) -> str:
    try:
        own.post("volume", "/volumes", {"volume": {"name": name, "size": 1}})
    except QuotaRefused:
        return "refused"
    return "given"


def _available(own: Cloud) -> list[Object]:
    rows = own.items("volume", "/volumes/detail", "volumes")
    return rows if all(row["status"] == "available" for row in rows) else []


def test_a_quota_that_somebody_changed_is_told_and_set_right(
    driver: OpenStackDriver, stored: WorkspaceSpec, admin: Cloud
) -> None:
    assert driver.drift(stored) == ()
    project = project_of(admin, stored)["id"]
    admin.put("volume", f"/os-quota-sets/{project}", {"quota_set": {"gigabytes": 999, "backups": 7}})
    told = {(one.path, one.wanted, one.found, one.step) for one in driver.drift(stored)}
    assert told == {("gigabytes", str(GIB), "999", "limits"), ("backups", "0", "7", "limits")}
    assert not driver.perform(Change.CREATE, stored, "confirm").done
    assert driver.perform(Change.CREATE, stored, "limits").done
    assert driver.perform(Change.CREATE, stored, "confirm").done
    assert driver.drift(stored) == ()


def test_less_than_there_is_takes_nothing_away_and_gives_nothing_more(
    driver: OpenStackDriver, stored: WorkspaceSpec, admin: Cloud, alice: Cloud
) -> None:
    """Cinder itself takes no quota below what is there."""
    disks = [made(alice, f"disk-{number}") for number in range(3)]
    less, project = replace(stored, storage_gib=1), project_of(admin, stored)["id"]
    try:
        for there in (3, 2, 1):
            assert driver.perform(Change.CREATE, less, "limits").done
            assert driver.perform(Change.CREATE, less, "confirm").done
            assert quota_of(admin, project)["gigabytes"] == there
            assert driver.drift(less) == ()
            with pytest.raises(QuotaRefused):
                alice.post("volume", "/volumes", {"volume": {"name": "more", "size": 1}})
            last = disks.pop()
            alice.delete("volume", f"/volumes/{last}")
            until(lambda last=last: not status(alice, last), "the volume is gone")  # type: ignore[misc]
    finally:
        assert driver.perform(Change.CREATE, stored, "limits").done


def test_a_machine_comes_with_its_volume_and_takes_it_away(
    driver: OpenStackDriver, stored: WorkspaceSpec, alice: Cloud
) -> None:
    uid = driver.launch(ref(stored), order_of(driver, stored, volume_gib=GIB)).uid
    running = reaches(driver, stored, uid, MachineStatus.RUNNING)
    (disk,) = running.volumes
    found = alice.get("volume", f"/volumes/{disk}")["volume"]
    assert (found["size"], found["status"]) == (GIB, "in-use")
    assert driver.observe(ref(stored)).used["storage"] == GIB
    driver.act(ref(stored), uid, MachineVerb.DELETE, action=uuid.uuid4())
    until(lambda: find(driver, stored, uid) is None, "the machine is gone")
    until(lambda: not status(alice, disk), "its volume is gone")


def test_a_machine_whose_volume_is_beyond_the_storage_says_so(
    driver: OpenStackDriver, stored: WorkspaceSpec, alice: Cloud
) -> None:
    made(alice, "taken", GIB)
    uid = driver.launch(ref(stored), order_of(driver, stored, volume_gib=1)).uid
    failed = reaches(driver, stored, uid, MachineStatus.FAILED)
    assert "quota" in failed.fault.lower(), failed.fault
    driver.act(ref(stored), uid, MachineVerb.DELETE, action=uuid.uuid4())
    until(lambda: find(driver, stored, uid) is None, "the machine is gone")


def test_nothing_is_left_of_volumes_in_whatever_state_and_a_neighbors_stay(
    driver: OpenStackDriver, admin: Cloud, cloud: LabCloud
) -> None:
    """With a snapshot, put in use by hand, offered to somebody, and handed over: that one is theirs from then on."""
    spec, neighbor = replace(spec_of(gpus=1, members=(ALICE,)), storage_gib=5), cloud.project()
    try:
        provision(driver, spec)
        alice, project = as_member(driver, spec), project_of(admin, spec)
        copied, held, offered, given = (made(alice, name) for name in ("copied", "held", "offered", "given"))
        copy = alice.post("volume", "/snapshots", {"snapshot": {"volume_id": copied, "name": "copy"}})
        by_hand = {"mountpoint": "/dev/vdz", "instance_uuid": str(uuid.uuid4()), "mode": "rw"}
        alice.post("volume", f"/volumes/{held}/action", {"os-attach": by_hand})
        _offer(alice, offered)
        offer = _offer(alice, given)
        accept = {"accept": {"auth_key": offer["auth_key"]}}
        path = f"/os-volume-transfer/{offer['id']}/accept"
        cloud.call("POST", "block-storage", path, token=neighbor.token, json=accept).raise_for_status()
        until(lambda: status(alice, held) == "in-use", "it is in use")
        until(lambda: _there(alice, copy["snapshot"]["id"]), "the snapshot is there")

        told = set(inventory(admin, project))
        assert told >= {"volume copied", "snapshot copy", "volume held", "volume offered"}
        assert "volume given" not in told
        take_away(driver, spec)
        assert list(inventory(admin, project)) == []
        for gone in (copied, held, offered):
            assert status(admin, gone) == ""
        assert status(admin, given) == "available"
        assert quota_of(admin, project["id"])["gigabytes"] == quota_of(admin, "defaults")["gigabytes"]
    finally:
        take_away(driver, spec)
        _delete_all(admin, neighbor.id)


def _offer(own: Cloud, volume: str) -> Object:
    found: Object = own.post("volume", "/os-volume-transfer", {"transfer": {"volume_id": volume}})["transfer"]
    return found


def _there(own: Cloud, snapshot: str) -> bool:
    return bool(own.get("volume", f"/snapshots/{snapshot}")["snapshot"]["status"] == "available")


def _delete_all(admin: Cloud, project_id: str) -> None:
    def left() -> list[Object]:
        return admin.items("volume", "/volumes", "volumes", all_tenants="1", project_id=project_id)

    for row in left():
        admin.delete("volume", f"/volumes/{row['id']}")
    until(lambda: not left(), "the neighbor's volumes are gone")


@pytest.fixture
def without(openstack_lab: Lab, driver: OpenStackDriver, cloud: LabCloud) -> Iterator[OpenStackDriver]:
    """The same cloud as seen from a region of it that has no Cinder, and limits of its own."""
    region = f"no-volumes-{uuid.uuid4().hex[:8]}"
    cloud.made("identity", "/regions", "region", {"id": region})
    services = cloud.call("GET", "identity", "/services").json()["services"]
    for service in services:
        if service["type"] != "block-storage":
            here = {"service_id": service["id"], "region_id": region, "url": cloud.url(service["type"])}
            for interface in ("public", "internal"):
                cloud.made("identity", "/endpoints", "endpoint", {**here, "interface": interface})
    rows = [
        {**{key: row[key] for key in ("service_id", "resource_name", "default_limit")}, "region_id": region}
        for row in limits.registered_limits(driver._cloud).values()
    ]
    path, token = "/registered_limits", cloud.system_token
    made = cloud.call("POST", "identity", path, token=token, json={"registered_limits": rows})
    made.raise_for_status()
    credentials = {**driver.connection.credentials, "region_name": region}
    yield OpenStackDriver(replace(driver.connection, site_id=uuid.uuid4(), credentials=credentials))
    for row in made.json()["registered_limits"]:
        cloud.call("DELETE", "identity", f"{path}/{row['id']}", token=token).raise_for_status()


def test_a_site_without_cinder_has_no_storage_and_all_the_rest(without: OpenStackDriver) -> None:
    spec = spec_of(gpus=1, members=(ALICE,))
    try:
        provision(without, spec)
        with pytest.raises(Permanent, match="no volumes"):
            without.launch(ref(spec), order_of(without, spec, volume_gib=1))
        assert not without.belongings(ref(spec)).volumes_sold
        seen = without.observe(ref(spec))
        assert (seen.hard["storage"], seen.used["storage"]) == (0, 0)
        assert without.drift(spec) == ()
        with closing(Cloud(without.connection.credentials)) as cloud:
            told = platform.volumes(cloud)
        assert (told.status, told.reason, told.blocking) == (Status.FALSE, "Missing", False)
    finally:
        take_away(without, spec)
