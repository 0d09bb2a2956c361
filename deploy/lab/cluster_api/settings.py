"""Which controllers there are, and where the lab keeps its things."""

from dataclasses import dataclass
from pathlib import Path

from deploy.lab.files import CACHE

HERE = Path(__file__).parent
DEFAULT_STATE_DIR = CACHE / "gpuaas-cluster-api-lab"
DEFAULT_PORT_BASE = 27000  # below the ports that the kernel gives to outgoing connections
# fixed in the development provider: its own, and the first of those that clusters answer at
FIXED_PORTS = (19000, 20000)
CLASSES = "cluster-classes"  # the namespace of ClusterClasses
CLASS = "lab"


@dataclass(frozen=True)
class Controller:
    """`package` of the module is the program; what it needs of an API server is below `config` of the module."""

    name: str
    module: str
    package: str
    config: str
    number: int

    @property
    def ports(self) -> tuple[int, int, int]:
        """Counted from the port base: webhooks, health, diagnostics."""
        first = 3 * self.number
        return first, first + 1, first + 2


CORE = "sigs.k8s.io/cluster-api"
CONTROLLERS = (
    Controller("core", CORE, CORE, "config", 0),
    Controller("bootstrap", CORE, f"{CORE}/bootstrap/kubeadm", "bootstrap/kubeadm/config", 1),
    Controller("control-plane", CORE, f"{CORE}/controlplane/kubeadm", "controlplane/kubeadm/config", 2),
    Controller(
        "development",
        f"{CORE}/test",
        f"{CORE}/test/infrastructure/docker",
        "infrastructure/docker/config",
        3,
    ),
)
PORTS = tuple(port for one in CONTROLLERS for port in one.ports)
