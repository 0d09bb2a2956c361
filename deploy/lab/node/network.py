"""The cable between this machine and the node, and the addresses behind it. Labs beside each other have different numbers."""

import json
from dataclasses import dataclass
from pathlib import Path

from deploy.lab.commands import output_of
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE, write_private
from deploy.lab.locks import locked

NUMBERS = range(64)
TAKEN = CACHE / "gpuaas-node-lab.numbers"
INTERFACES = Path("/sys/class/net")


@dataclass(frozen=True)
class Network:
    """A network of 256 addresses: a cable of two in its lower half, pods in its upper one."""

    number: int

    @property
    def interface(self) -> str:
        """This machine's end."""
        return f"gpuaas-node{self.number}"

    @property
    def host(self) -> str:
        return f"10.213.{self.number}.1"

    @property
    def node(self) -> str:
        return f"10.213.{self.number}.2"

    @property
    def pods(self) -> str:
        return f"10.213.{self.number}.128/25"

    @property
    def is_there(self) -> bool:
        return (INTERFACES / self.interface).exists()

    @property
    def is_plugged(self) -> bool:
        """All of it: the way to pods is the last that `plug` makes."""
        return self.is_there and bool(output_of("ip", "route", "show", self.pods, "dev", self.interface))

    def plug(self, pid: int) -> None:
        """Between this machine and the network namespace of that process. The far end goes with the namespace, and the cable with it."""
        self.unplug()
        output_of(
            "ip", "link", "add", self.interface, "type", "veth", "peer", "name", "eth0", "netns", str(pid)
        )
        output_of("ip", "address", "add", f"{self.host}/30", "dev", self.interface)
        inside = (
            "ip link set lo up && ip link set eth0 up",
            f"ip address add {self.node}/30 dev eth0",
            f"ip route add default via {self.host}",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
        )
        output_of("nsenter", "--target", str(pid), "--net", "sh", "-c", " && ".join(inside))
        output_of("ip", "link", "set", self.interface, "up")
        output_of("ip", "route", "add", self.pods, "via", self.node)

    def unplug(self) -> None:
        if self.is_there:
            output_of("ip", "link", "delete", self.interface)


def network_take(state_dir: Path) -> Network:
    """The lab's own: that of before, or the first that no other lab has."""
    with locked(TAKEN.with_suffix(".lock"), limit=60):
        holders = _holders()
        free = (one for one in NUMBERS if one not in holders and not Network(one).is_there)
        mine = next((one for one, holder in holders.items() if holder == str(state_dir)), None)
        number = next(free, None) if mine is None else mine
        if number is None:
            raise LabError(f"{len(NUMBERS)} labs of this kind run here already")
        write_private(TAKEN, json.dumps({**holders, number: str(state_dir)}))
    return Network(number)


def network_of(state_dir: Path) -> Network | None:
    return next((Network(n) for n, holder in _holders().items() if holder == str(state_dir)), None)


def network_release(state_dir: Path) -> None:
    with locked(TAKEN.with_suffix(".lock"), limit=60):
        write_private(TAKEN, json.dumps({n: one for n, one in _holders().items() if one != str(state_dir)}))


def _holders() -> dict[int, str]:
    """Without those whose folder is gone."""
    try:
        found: dict[str, str] = json.loads(TAKEN.read_text())
    except (OSError, ValueError):
        return {}
    return {int(number): holder for number, holder in found.items() if Path(holder).exists()}
