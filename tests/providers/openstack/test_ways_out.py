"""Ways out of a workspace that take more than one request: what they end with is never more than was bought, or it is seen."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from deploy.lab.openstack import Lab
from gpuaas.providers.base import Change
from gpuaas.providers.openstack import servers
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.contracts.test_suspend import asleep
from tests.lab.fixtures import until
from tests.providers.openstack.conftest import ref
from tests.providers.openstack.escapes.room import Room, driver_of, room
from tests.providers.openstack.escapes.shapes import A100, ALICE, VF, VGPU, Size, spec_of
from tests.providers.openstack.escapes.tenant import Credential, credential

pytestmark = pytest.mark.openstack
ONE = Size(count=1, gpus=1, vcpus=1, memory_gib=1)
TWO = Size(count=2, gpus=1, vcpus=2, memory_gib=2)
AT_ONCE = 8
# the cloud's services believe a token for ten seconds (its token_cache_time); the rest is a loaded machine
FORGOTTEN_SECONDS = 60


@pytest.fixture(scope="module")
def driver(openstack_lab: Lab) -> OpenStackDriver:
    return driver_of(openstack_lab)


@pytest.fixture(scope="module")
def shared(driver: OpenStackDriver) -> Iterator[Room]:
    with room(driver, spec_of(TWO)) as made:
        yield made


@pytest.fixture
def mine(shared: Room) -> Iterator[Room]:
    """Two GPUs, one flavor, no machine."""
    yield shared
    shared.clear()


def test_eight_boots_at_once_end_with_no_more_than_was_bought(mine: Room) -> None:
    """Losers stay in ERROR, without a device; what is left of them in Placement counts against the tenant until they are
    deleted, and whoever watches sees a surplus by it."""
    flavor, image = mine.flavors["0"], mine.image
    body = {"server": {"name": "mine", "flavorRef": flavor, "imageRef": image, "networks": "none"}}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda _: mine.who.call("POST", "compute", "/servers", body), range(AT_ONCE)))
    assert 202 in {answer.status_code for answer in answers}, [answer.text for answer in answers]
    states = [row["status"] for row in mine.settled()]
    assert set(states) <= {"ACTIVE", "ERROR"}
    assert states.count("ACTIVE") <= 2
    assert mine.ask().status_code == 403


def test_as_many_as_possible_in_one_request_is_as_many_as_was_bought(mine: Room) -> None:
    assert mine.ask(min_count=1, max_count=9).status_code == 202
    assert len(mine.settled()) == 2
    assert mine.held() == 2


def test_shelving_frees_no_place_for_another_machine(mine: Room) -> None:
    first, second = mine.boot(), mine.boot()
    for server in (first, second):
        assert mine.act(server, "shelve").status_code == 202
        mine.becomes(server, "SHELVED_OFFLOADED")
    until(lambda: mine.held() == 0, "the GPUs are free")
    refused = mine.ask()
    assert refused.status_code == 403
    assert "servers is over limit of 2" in refused.text
    for server in (first, second):
        assert mine.act(server, "unshelve").status_code == 202
    for server in (first, second):
        mine.becomes(server, "ACTIVE")
    assert mine.held() == 2


@pytest.mark.parametrize("how", ["os-stop", "pause", "suspend", "lock"])
def test_a_machine_that_rests_still_counts(mine: Room, how: str) -> None:
    """And one that its owner locked, paused or suspended is stopped and deleted by the portal all the same."""
    server, other = mine.boot(), mine.boot()
    assert mine.act(server, how).status_code == 202
    rests = {"os-stop": "SHUTOFF", "pause": "PAUSED", "suspend": "SUSPENDED", "lock": "ACTIVE"}
    mine.becomes(server, rests[how])
    assert mine.ask().status_code == 403
    assert mine.held() == 2
    assert mine.admin.delete("compute", f"/servers/{server}")
    until(lambda: mine.who.call("GET", "compute", f"/servers/{server}").status_code == 404, "it is gone")
    assert [row["id"] for row in mine.servers()] == [other]


def test_nothing_that_its_owner_does_keeps_a_machine_awake(driver: OpenStackDriver) -> None:
    """One is locked and has no room for our tags; the other is restarted over and over."""
    with room(driver, spec_of(TWO)) as made:
        locked, looping = made.boot(), made.boot()
        made.admin.put(
            "compute", f"/servers/{locked}/tags", {"tags": [f"t-{number}" for number in range(50)]}
        )
        assert made.act(locked, "lock").status_code == 202
        spec = asleep(made.spec)
        until(lambda: driver.perform(Change.SUSPEND, spec, "limits").done, "the limits are zero")
        until(lambda: driver.perform(Change.SUSPEND, spec, "confirm").done, "the site has them")

        def away() -> bool:
            made.act(looping, "reboot", {"type": "HARD"})  # refused or not
            return driver.perform(Change.SUSPEND, spec, "machines").done

        until(away, "both are shelved", seconds=240)
        until(lambda: driver.perform(Change.SUSPEND, spec, "devices").done, "nothing is held")
        assert {row["status"] for row in made.servers()} == {"SHELVED_OFFLOADED"}
        found = servers.of_project(made.admin, made.who.project)
        assert not any(row["locked"] for row in found), "its owner may delete it"


def test_what_was_deleted_is_not_brought_back(mine: Room) -> None:
    """Where an operator set reclaim_instance_interval it would wait, with its GPU, to be restored."""
    server = mine.boot()
    mine.who.call("DELETE", "compute", f"/servers/{server}")
    until(lambda: mine.who.call("GET", "compute", f"/servers/{server}").status_code == 404, "it is gone")
    assert mine.act(server, "restore").status_code == 404
    until(lambda: mine.held() == 0, "its GPU is free")


ASKING = {
    "pci_passthrough:alias": "a100:8",
    "hw_pci_passthrough_alias": "a100:8",
    "resources:CUSTOM_PCI_10DE_20B0": "8",
    "resources:VGPU": "1",
    "accel:device_profile": "gpu",
    "hw_pci_numa_affinity_policy": "preferred",
    "hw_vif_model": "virtio",
}


def test_an_image_that_asks_for_devices_gets_none(mine: Room) -> None:
    """Booted from it, and rebuilt to it."""
    shape = {"name": "asking", "disk_format": "raw", "container_format": "bare"}
    made = mine.who.call("POST", "image", "/images", {**shape, **ASKING})
    assert made.status_code == 201, made.text
    image = made.json()["id"]
    headers = {"X-Auth-Token": mine.who.token, "Content-Type": "application/octet-stream"}
    address = f"{mine.who.catalog['image']}/images/{image}/file"
    assert requests.put(address, data=bytes(1024), headers=headers, timeout=60).ok
    booted, plain = mine.boot(imageRef=image), mine.boot()
    assert mine.held() == 2
    assert mine.act(plain, "rebuild", {"imageRef": image}).status_code == 202
    mine.becomes(plain, "ACTIVE")
    assert mine.held() == 2
    assert mine.driver.observe(ref(mine.spec)).used[VGPU] == 0
    assert {row["id"] for row in mine.servers()} == {booted, plain}


def test_disks_that_were_not_bought_are_refused(mine: Room) -> None:
    root = {"boot_index": 0, "uuid": mine.image, "source_type": "image", "destination_type": "local"}
    disk = {"boot_index": -1, "source_type": "blank", "destination_type": "local", "volume_size": 9999}
    for more in ({}, {"guest_format": "swap"}):
        answer = mine.ask(block_device_mapping_v2=[root, {**disk, **more}])
        assert answer.status_code == 400, answer.text
    assert mine.servers() == []


def test_marks_of_the_portal_on_a_machine_change_nothing(mine: Room) -> None:
    server = mine.boot()
    marks = {"gpuaas": "true", "gpuaas:managed": "false", "gpuaas-workspace": "none"}
    for name, value in marks.items():
        path = f"/servers/{server}/metadata/{name}"
        assert mine.who.call("PUT", "compute", path, {"meta": {name: value}}).ok
    assert mine.who.call("PUT", "compute", f"/servers/{server}", {"server": {"name": "not-mine"}}).ok
    assert mine.who.call("PUT", "compute", f"/servers/{server}/tags/foreign").ok
    (seen,) = mine.driver.observe(ref(mine.spec)).consumers
    assert (seen.uid, dict(seen.gpus)) == (server, {A100: 1})


@pytest.mark.parametrize("kind", ["accelerator-direct", "vdpa", "direct-physical", "remote-managed"])
def test_a_port_of_another_kind_brings_no_device(driver: OpenStackDriver, mine: Room, kind: str) -> None:
    port = {"network_id": mine.network, "binding:vnic_type": kind}
    made = mine.who.made("network", "/ports", "port", port)
    answer = mine.ask(networks=[{"port": made["id"]}])
    assert answer.status_code in (202, 400), answer.text
    assert [row["status"] for row in mine.settled() if row["status"] != "ERROR"] == []
    assert not any(driver.observe(ref(mine.spec)).used.values())


def test_a_resize_beyond_the_limit_is_seen(driver: OpenStackDriver) -> None:
    """Nova counts vCPUs, memory and machines for a resize, and no PCI device: so it takes a flavor with more GPUs a vCPU."""
    fat, lean = Size(2, gpus=1, vcpus=8, memory_gib=8), Size(1, gpus=3, vcpus=1, memory_gib=1)
    with room(driver, spec_of(fat, lean)) as mine:
        flavors = mine.flavors
        server, _ = mine.boot(flavors["0"]), mine.boot(flavors["1"])
        assert mine.held() == 4

        def resized() -> bool:
            """While Placement still frees what was deleted before, Nova finds no host and leaves the machine as it was."""
            assert mine.act(server, "resize", {"flavorRef": flavors["1"]}).status_code == 202
            return any(row["id"] == server and row["status"] == "VERIFY_RESIZE" for row in mine.settled())

        until(resized, "Nova resizes it")
        mine.surplus_is_seen(A100)
        assert mine.ask().status_code == 403
        mine.clear()


@pytest.fixture(scope="module")
def sharing(driver: OpenStackDriver) -> Iterator[Room]:
    """vGPUs, which are on the host that has virtual functions too."""
    with room(driver, spec_of(TWO, kind=VGPU)) as made:
        yield made


@pytest.mark.parametrize("kind", ["direct", "macvtap"])
def test_a_direct_port_that_brings_a_virtual_function_is_seen(sharing: Room, kind: str) -> None:
    port = {"network_id": sharing.network, "binding:vnic_type": kind}
    made = sharing.who.made("network", "/ports", "port", port)
    sharing.boot(networks=[{"port": made["id"]}])
    sharing.surplus_is_seen(VF)
    sharing.clear()


def test_a_direct_port_that_is_plugged_in_later_is_seen_too(sharing: Room) -> None:
    server = sharing.boot()
    plain = sharing.who.made("network", "/ports", "port", {"network_id": sharing.network})
    change = {"port": {"binding:vnic_type": "direct"}}
    assert sharing.who.call("PUT", "network", f"/ports/{plain['id']}", change).ok
    plug = {"interfaceAttachment": {"port_id": plain["id"]}}
    answer = sharing.who.call("POST", "compute", f"/servers/{server}/os-interface", plug)
    assert answer.ok, answer.text
    sharing.surplus_is_seen(VF)
    sharing.clear()


def _forgotten(who: Credential) -> bool:
    """By every service."""
    asked = (("compute", "/servers"), ("network", "/networks"), ("image", "/images"), ("identity", "/limits"))
    return all(who.call("GET", service, path).status_code in (401, 404) for service, path in asked)


def test_a_revoked_credential_opens_nothing_and_its_token_is_soon_forgotten(mine: Room) -> None:
    held = credential(mine.driver, mine.spec, ALICE)
    assert all(
        held.call("GET", service, path).ok
        for service, path in (("compute", "/servers"), ("network", "/ports"))
    )
    mine.driver.revoke_access(ref(mine.spec), ALICE)
    assert held.sign_in().status_code in (401, 404)
    until(lambda: _forgotten(held), "its token is forgotten", seconds=FORGOTTEN_SECONDS)
    mine.who = credential(mine.driver, mine.spec, ALICE)
