"""Clusters whose pools may be at several sites: what their machines find, and what is planned. `tests/contracts/clusters/test_burst.py` has
the same at a real cloud."""

import hashlib
import ipaddress
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change, ClusterSpec, Connection, Join, NodePool
from gpuaas.providers.openstack.clusters.driver import OpenStackClusterDriver
from gpuaas.providers.openstack.clusters.guest import Guest
from gpuaas.providers.openstack.clusters.keys import SERVER_CA, Keys
from gpuaas.providers.openstack.clusters.place import CIDR, cidr_elsewhere
from tests.providers.openstack_clusters.stage import document, files, guest, installed, spec

C = Change
CONFIG, UNIT = "/etc/rancher/k3s/config.yaml", "/etc/systemd/system/k3s.service"
HOME = replace(spec(), spans=True)
NOWHERE = Connection(site_id=uuid.uuid4(), site_slug="ber-1", endpoint="", credentials={})
DRIVER = OpenStackClusterDriver(NOWHERE)
PODS_AND_SERVICES = ("10.42.0.0/16", "10.43.0.0/16")


def elsewhere() -> ClusterSpec:
    keys = Keys(HOME.boots)
    join = Join("https://203.0.113.7:6443", keys.word("k3s-agent-token"), keys.authority(SERVER_CA)[0])
    bare = replace(HOME.control_plane, count=0)
    return replace(HOME, control_plane=bare, pools=HOME.pools[1:], join=join)


def outside(made: ClusterSpec, pool: NodePool | None, address: str, site: str) -> Guest:
    """A machine with an address of its own for other sites."""
    machine = replace(guest(made, pool), outside=address, site=site)
    return replace(machine, heads=(), entrance="") if made.is_burst else machine


def head() -> Guest:
    return outside(HOME, None, "203.0.113.7", "ber-1")


def near() -> Guest:
    return outside(HOME, HOME.pools[0], "203.0.113.20", "ber-1")


def far() -> Guest:
    made = elsewhere()
    return outside(made, made.pools[0], "198.51.100.4", "cloud-1")


def config(machine: Guest) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load(files(machine)[CONFIG])
    return found


def test_heads_lead_pods_through_the_tunnel_between_addresses_outside() -> None:
    found = config(head())
    assert (found["flannel-backend"], found["flannel-external-ip"]) == ("wireguard-native", True)
    assert (found["node-ip"], found["node-external-ip"]) == ("10.0.0.11", "203.0.113.7")
    assert found["tls-san"] == ["203.0.113.7", "10.0.0.11"]


def test_another_head_is_known_by_its_own_address_as_well() -> None:
    found = config(replace(head(), outside="203.0.113.8"))
    assert found["tls-san"] == ["203.0.113.7", "203.0.113.8", "10.0.0.11"]


def test_flannel_is_the_heads_alone() -> None:
    for machine in (near(), far()):
        assert not [key for key in config(machine) if key.startswith("flannel")]


def test_a_worker_at_home_joins_within_its_site() -> None:
    found = config(near())
    assert found["server"] == "https://10.0.0.11:6443"
    assert found["node-external-ip"] == "203.0.113.20"
    assert found["node-label"] == ["gpuaas.io/pool=small", "topology.kubernetes.io/region=ber-1"]


def test_a_worker_elsewhere_joins_at_the_address_and_knows_the_authority_by_its_digest() -> None:
    found, served = config(far()), files(head())["/var/lib/rancher/k3s/server/tls/server-ca.crt"]
    digest = hashlib.sha256(served.encode()).hexdigest()
    assert found["server"] == "https://203.0.113.7:6443"
    assert found["token"] == f"K10{digest}::node:{config(head())['agent-token']}"
    assert found["node-external-ip"] == "198.51.100.4"
    assert found["node-label"] == ["gpuaas.io/pool=big", "topology.kubernetes.io/region=cloud-1"]


def test_it_has_no_more_secrets_than_a_worker_at_home() -> None:
    written = str(document(far()))
    assert set(far().secrets) == {"agents"}
    assert str(config(head())["token"]) not in written
    assert HOME.boots.seed not in written
    join = elsewhere().join
    assert join is not None
    assert join.token not in repr(elsewhere())
    for row in document(far())["write_files"]:
        if join.token in row["content"]:
            assert row["permissions"] == "0600"


@pytest.mark.parametrize("pool", [None, HOME.pools[0]])
def test_clusters_of_one_site_know_nothing_of_it(pool: NodePool | None) -> None:
    written = str(document(guest(spec(), pool)))
    for word in ("wireguard", "flannel", "external", "topology"):
        assert word not in written


@pytest.mark.parametrize("machine", [head(), near(), far()])
def test_a_machine_without_the_tunnel_is_not_ready(machine: Guest, tmp_path: Path) -> None:
    """`ip` says whether it is there; all else is well."""
    assert "ExecStartPre=/sbin/modprobe wireguard\n" in files(machine)[UNIT]
    etc = installed(machine, tmp_path)
    script = (
        f'. {etc}/node.env; . {etc}/stages.sh; until_true() {{ shift 2; "$@"; }}; '
        "k3s() { echo True; }; ip() { printf '%s' \"$TUNNEL\"; }; stage_ready"
    )
    for tunnel, rc in (("7: flannel-wg: <POINTOPOINT,NOARP,UP,LOWER_UP> mtu 1370", 0), ("", 1)):
        done = subprocess.run(
            ["bash", "-euc", script], env={"TUNNEL": tunnel, "PATH": "/usr/bin:/bin"}, check=False
        )
        assert done.returncode == rc


def test_networks_of_sites_have_no_address_in_common() -> None:
    fixed = [ipaddress.ip_network(each) for each in (CIDR, *PODS_AND_SERVICES)]
    sites = [uuid.uuid5(uuid.NAMESPACE_DNS, str(number)) for number in range(300)]
    found = [ipaddress.ip_network(cidr_elsewhere(site)) for site in sites]
    assert found == [ipaddress.ip_network(cidr_elsewhere(site)) for site in sites]
    assert not [one for one in found for other in fixed if one.overlaps(other)]
    assert all(one == other or not one.overlaps(other) for one in found for other in found)
    assert len(set(found)) > 200, "they are spread"


@pytest.mark.parametrize("change", [C.CREATE, C.SCALE, C.RESUME])
def test_whatever_brings_workers_elsewhere_begins_with_what_they_stand_on(change: Change) -> None:
    made = elsewhere()
    none = replace(made, pools=(replace(made.pools[0], flavor=replace(made.pools[0].flavor, count=0)),))
    found = DRIVER.plan(change, made, None if change is C.CREATE else none)
    assert [step.key for step in found.steps] == ["project", "network", "pool:big", "checks"]
    name = made.external_name
    assert [(one.kind, one.name) for one in found.objects] == [
        ("project", name),
        ("user", f"{name}.portal"),
        ("network", name),
        ("subnet", name),
        ("router", name),
        ("security-group", f"{name}-mesh"),
        ("floating-ip", f"{name}-big-1"),
        ("server", f"{name}-big-1"),
    ]
    assert "its own external address" in found.warnings[0]


def test_at_home_every_machine_has_an_address_and_the_first_head_the_clusters_own() -> None:
    made = replace(HOME, control_plane=replace(HOME.control_plane, count=3))
    name = made.external_name
    found = {one.name for one in DRIVER.plan(C.CREATE, made, None).objects if one.kind == "floating-ip"}
    workers = {f"{name}-small-1", f"{name}-small-2", f"{name}-big-1"}
    assert found == {name, f"{name}-control-2", f"{name}-control-3", *workers}
    alone = DRIVER.plan(C.CREATE, spec(), None)
    assert [one.name for one in alone.objects if one.kind == "floating-ip"] == [name]
    assert not [words for words in alone.warnings if "address" in words]


def test_clusters_of_one_site_cannot() -> None:
    with pytest.raises(Permanent, match="set up for one site"):
        DRIVER.join(spec())
