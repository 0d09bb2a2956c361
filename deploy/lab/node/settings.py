"""What the node is called and what it has, and where the lab keeps its things."""

from pathlib import Path

from deploy.lab.files import CACHE
from deploy.lab.kubernetes.controlplane import REAL

HERE = Path(__file__).parent
DEFAULT_STATE_DIR = CACHE / "gpuaas-node-lab"
NAME = "l4-1"
GPUS = 4
MEMORY_GIB = 8  # for pods, however much the machine has
CLUSTER_DOMAIN, DNS_ADDRESS = "cluster.local", "10.96.0.10"
REGISTRY = "lab.gpuaas.io"  # of images that no registry has
# as NFD and GPU Feature Discovery label a node with four L4; the last keeps KWOK away from it
LABELS = {
    "gpuaas.io/pool": "l4-24gb",
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/cuda.driver-version.full": "580.95.05",
    "nvidia.com/gpu.product": "NVIDIA-L4",
    "nvidia.com/gpu.memory": "23034",
    "nvidia.com/gpu.count": str(GPUS),
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/gpu.family": "ada-lovelace",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "9",
    "nvidia.com/mig.capable": "false",
    REAL: "true",
}
