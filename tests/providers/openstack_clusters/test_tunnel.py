"""Slurm clusters with pools at other sites: what head and workers know of the tunnel between them, what is made for it at each site, and
which partition a job is in. That packets pass is shown by machines that boot (`tests/lab/openstack/test_partitions.py`)."""

import base64
import ipaddress
import json
import subprocess
import sys
from configparser import ConfigParser
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change, ClusterKind, ClusterSpec, Join, NodePool
from gpuaas.providers.openstack.clusters import place, tunnel
from gpuaas.providers.openstack.clusters.guest import Guest
from gpuaas.providers.openstack.clusters.keys import Keys
from gpuaas.providers.openstack.clusters.slurm import NODES_MOST, gres_conf, slurm_conf
from gpuaas.providers.openstack.clusters.slurm_tunnel import text_of
from tests.providers.openstack_clusters.stage import document, files, guest, spec
from tests.providers.openstack_clusters.test_spanning import DRIVER

C = Change
ALL = spec(ClusterKind.SLURM)
HOME = replace(ALL, pools=ALL.pools[:1], elsewhere=ALL.pools[1:], spans=True)
FAR = replace(
    HOME,
    control_plane=replace(ALL.control_plane, count=0),
    pools=HOME.elsewhere,
    join=Join("ssh://203.0.113.7", "not of Slurm"),
)
PROGRAM = Path(tunnel.__file__).with_name("slurm_tunnel.py")
# as `wg pubkey`, which is not on every machine that runs the suite
WG = """\
#!{python}
import base64, sys
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
assert sys.argv[1:] == ["pubkey"]
key = X25519PrivateKey.from_private_bytes(base64.b64decode(sys.stdin.read()))
print(base64.b64encode(key.public_key().public_bytes_raw()).decode())
"""


def far(number: int = 1, made: ClusterSpec = FAR) -> Guest:
    machine = guest(made, made.pools[0])
    name = f"{made.external_name}-{made.pools[0].name}-{number}"
    return replace(machine, name=name, heads=(place.control_address(1),), entrance="")


def sections(text: str) -> list[dict[str, str]]:
    """The first is of the machine itself, the others of its peers."""
    found = []
    for part in text.split("[")[1:]:
        parser = ConfigParser(interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(f"[{part}")
        found.append(dict(parser[parser.sections()[0]]))
    return found


def public(private: str) -> str:
    key = X25519PrivateKey.from_private_bytes(base64.b64decode(private))
    return text_of(key.public_key().public_bytes_raw())


@pytest.fixture
def head(tmp_path: Path) -> list[dict[str, str]]:
    """What the head writes of what it was given."""
    known = json.loads(files(guest(HOME))["/etc/gpuaas/tunnel.json"])
    assert known["most"] == NODES_MOST
    (tmp_path / "tunnel.json").write_text(json.dumps({**known, "most": 3}))
    program = tmp_path / "wg"
    program.write_text(WG.format(python=sys.executable))
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "tunnel.json")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return sections(done.stdout)


def test_head_and_workers_know_each_other_by_key_and_address(head: list[dict[str, str]]) -> None:
    own, *peers = head
    assert (own["Address"], own["ListenPort"]) == ("10.64.0.1/16", "51820")
    assert len(peers) == 3
    for number, peer in enumerate(peers, start=1):
        machine, there = sections(files(far(number))["/etc/gpuaas/tunnel.conf"])
        assert peer == {"PublicKey": public(machine["PrivateKey"]), "AllowedIPs": machine["Address"]}
        assert there["PublicKey"] == public(own["PrivateKey"])
        assert there["Endpoint"] == "203.0.113.7:51820"
        assert there["AllowedIPs"] == "10.0.0.11/32, 10.64.0.0/16"
        assert int(there["PersistentKeepalive"]) <= 25


def test_a_worker_elsewhere_finds_the_controller_at_its_own_address() -> None:
    found = files(far(2))
    assert "--conf-server 10.0.0.11 " in found["/etc/gpuaas/slurmd.default"]
    assert "GPUAAS_HEADS=10.0.0.11\n" in found["/etc/gpuaas/node.env"]
    assert "GPUAAS_TUNNEL=10.64.4.2\n" in found["/etc/gpuaas/node.env"]


def test_without_the_heads_address_none_is_made() -> None:
    with pytest.raises(Permanent, match="address of the cluster's own site"):
        document(far(made=replace(FAR, join=None)))


def test_no_two_machines_have_one_address() -> None:
    pools = tuple(replace(ALL.pools[0], name=f"pool-{number}") for number in range(20))
    wide = replace(HOME, elsewhere=pools)
    taken = [ipaddress.ip_address(tunnel.head_address())]
    taken += [
        ipaddress.ip_address(tunnel.worker_address(wide, pool, number))
        for pool in pools
        for number in (1, 2, NODES_MOST)
    ]
    assert len(set(taken)) == len(taken)
    assert all(one in tunnel.NETWORK for one in taken)
    for fixed in (place.CIDR, str(place.ELSEWHERE), "10.42.0.0/16", "10.43.0.0/16"):
        assert not tunnel.NETWORK.overlaps(ipaddress.ip_network(fixed))


def test_a_worker_has_no_key_but_its_own() -> None:
    written, other = str(document(far(1))), far(2)
    secret = tunnel.secret_of(FAR)
    for name in (other.name, f"{FAR.external_name}-control-1"):
        assert tunnel.key_text(secret, name) not in written
    assert secret.hex() not in written
    assert FAR.boots.seed not in written
    assert set(far(1).secrets.values()) == {Keys(FAR.boots).munge_key, tunnel.key_text(secret, far(1).name)}
    for machine in (guest(HOME), far(1)):
        for row in document(machine)["write_files"]:
            if any(word in row["content"] for word in machine.secrets.values()):
                assert row["permissions"] == "0600"


@pytest.mark.parametrize("machine", [guest(ALL), guest(ALL, ALL.pools[0]), guest(HOME, HOME.pools[0])])
def test_whoever_has_no_part_in_it_knows_nothing_of_it(machine: Guest) -> None:
    found = files(machine)
    assert not [path for path in found if "tunnel" in path]
    assert "GPUAAS_TUNNEL=\n" in found["/etc/gpuaas/node.env"]


def test_a_job_goes_elsewhere_only_if_it_says_so() -> None:
    """By --partition: the default one is at home, and there is none without a pool there."""

    def partitions(made: ClusterSpec) -> dict[str, bool]:
        lines = [
            dict(word.split("=", 1) for word in line.split())
            for line in slurm_conf(made, "head", "10.0.0.11").splitlines()
            if line.startswith("PartitionName=")
        ]
        return {line["PartitionName"]: line["Default"] == "YES" for line in lines}

    assert partitions(HOME) == {"small": True, "big": False}
    assert partitions(replace(HOME, pools=(), elsewhere=ALL.pools)) == {"small": False, "big": False}
    assert f"NodeName={HOME.external_name}-big-[1-{NODES_MOST}] Name=gpu Type=h100" in gres_conf(HOME)
    assert "gres/gpu:h100" in slurm_conf(HOME, "head", "10.0.0.11")


def test_only_the_head_is_open_and_has_an_address() -> None:
    name = HOME.external_name
    made = {(one.kind, one.name) for one in DRIVER.plan(C.CREATE, HOME, None).objects}
    assert ("security-group", f"{name}-mesh") in made
    assert [one for kind, one in sorted(made) if kind == "floating-ip"] == [name]
    assert place.groups(HOME, of_heads=True) == [name, f"{name}-mesh"]
    assert place.groups(HOME, of_heads=False) == []
    assert place.groups(FAR, of_heads=False) == []
    found = DRIVER.plan(C.CREATE, FAR, None)
    assert {one.kind for one in found.objects} == {"project", "user", "network", "subnet", "router", "server"}
    assert "/home" in found.warnings[0]
    assert not [words for words in DRIVER.plan(C.CREATE, HOME, None).warnings if "address" in words]


def test_pools_are_counted_in_one_order_everywhere() -> None:
    pools = (*ALL.pools, NodePool("third", ALL.pools[0].flavor, ALL.release))
    there = replace(FAR, pools=pools[2:], elsewhere=pools)
    assert tunnel.worker_address(there, pools[2], 1) == "10.64.8.1"
