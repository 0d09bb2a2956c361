"""Who reaches the metadata service of a machine, which gives out the cluster's keys: asked of the kernel, in a network of its own."""

import os
import subprocess
from pathlib import Path

import pytest

from gpuaas.providers.base import ClusterKind
from gpuaas.providers.openstack.clusters.guest import HERE
from tests.providers.openstack_clusters.stage import document, guest, installed, spec

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
METADATA, TENANT = "169.254.169.254", 2010
# a card to the world, and one to a container, which sends what its host passes on
CARDS = """
ip link set lo up
for card in world pods; do
  ip link add $card type veth peer name $card-peer
  ip link set $card up
  ip link set $card-peer up
done
ip address add 10.0.0.11/16 dev world
ip address add 10.42.0.1/24 dev pods
ip route add default via 10.0.0.1
sysctl --quiet --write net.ipv4.ip_forward=1
"""


def asked(*questions: str, shut: str) -> list[bool]:
    """Whether there is a way, in the words of `ip route get`, after the script has run."""
    ways = "\n".join(
        f"ip route get {question} >/dev/null 2>&1 && echo yes || echo no" for question in questions
    )
    done = subprocess.run(
        ["unshare", "--net", "bash", "-euc", f"{CARDS}\n{shut}\n{ways}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line == "yes" for line in done.stdout.split()]


QUESTIONS = (
    f"{METADATA} uid 0",
    f"{METADATA} uid {TENANT}",
    f"{METADATA} uid 65534",
    f"{METADATA} from 10.42.0.7 iif pods",
    f"203.0.113.9 uid {TENANT}",
    "203.0.113.9 from 10.42.0.7 iif pods",
)


@pytest.mark.parametrize("times", [1, 2])
def test_only_roots_own_processes_do(times: int) -> None:
    assert asked(*QUESTIONS, shut="") == [True] * len(QUESTIONS)
    shut = f"bash {HERE}/metadata.sh\n" * times
    assert asked(*QUESTIONS, shut=shut) == [True, False, False, False, True, True]


@pytest.mark.parametrize("pool", [None, 0], ids=["head", "worker"])
@pytest.mark.parametrize("kind", ["kubernetes", "slurm"])
def test_every_machine_shuts_it_before_anything_else_and_at_each_start(
    tmp_path: Path, kind: str, pool: int | None
) -> None:
    made = spec(ClusterKind(kind))
    machine = guest(made, None if pool is None else made.pools[pool])
    installed(machine, tmp_path)
    boot = (tmp_path / "usr/local/sbin/gpuaas-boot").read_text()
    assert boot.index("\ngpuaas-metadata\n") < boot.index("reached booted")
    unit = (tmp_path / "etc/systemd/system/gpuaas-metadata.service").read_text()
    assert "ExecStart=/usr/local/sbin/gpuaas-metadata\n" in unit
    assert ["systemctl", "enable", "gpuaas-metadata.service"] in document(machine)["runcmd"]
