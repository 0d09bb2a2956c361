"""Where the lab keeps its things, its ports, and what a person chose for it; the choices outlive the process."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from deploy.lab.base import Choices
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE

HERE = Path(__file__).parent
DEFAULT_STATE_DIR = CACHE / "gpuaas-openstack-lab"
DEFAULT_PORT_BASE = 25000  # below the ports that the kernel gives to outgoing connections
# from the base on
PORTS = {
    "identity": 0,
    "placement": 1,
    "compute": 2,
    "image": 3,
    "network": 4,
    "block-storage": 5,
    "load-balancer": 6,
    "mysql": 10,
    "amqp": 11,
    "amqp_dist": 12,
    "epmd": 13,
}
PATHS = {"identity": "/v3", "compute": "/v2.1", "block-storage": "/v3"}
LIMIT_MODELS = ("flat", "strict_two_level")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Choices):
    own_topology = HERE / "topology.json"
    port_base: int = DEFAULT_PORT_BASE
    limit_model: str = "flat"
    balancing: bool = False
    machines: bool = False
    debug: bool = False

    def port(self, name: str) -> int:
        return self.port_base + PORTS[name]

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port(name)}{PATHS.get(name, '')}"


def topology_load(path: Path) -> dict[str, Any]:
    """Hosts and the GPUs in them. Raises LabError for a file that says something else."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        names = [host["name"] for host in found["hosts"]]
        used = {gpu["model"] for host in found["hosts"] for gpu in host.get("gpus", [])}
        missing = used - found["models"].keys()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path} is no topology: {type(error).__name__}: {error}") from error
    if missing or not names or len(set(names)) != len(names):
        raise LabError(f"{path}: no hosts, one twice, or GPUs of unknown models {sorted(missing)}")
    return found


def resource_class(model: dict[str, Any]) -> str:
    """As Nova names it for a PCI device."""
    if model["kind"] == "vgpu":
        return "VGPU"
    return f"CUSTOM_PCI_{model['vendor_id']}_{model['product_id']}".upper()
