"""Checks the chain of components that make a node's GPUs sellable, each of which needs the one before it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuaas.providers.base import Check
from gpuaas.providers.kubeapi.claims import attribute
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.verdicts import Kind, some

NVIDIA = "nvidia.com"
NVIDIA_PCI = "10de"
PRESENT = "nvidia.com/gpu.present"
EXPORTER_LABELS = ("app", "app.kubernetes.io/name")
EXPORTER_NAMES = ("nvidia-dcgm-exporter", "dcgm-exporter")


@dataclass(frozen=True)
class Link:
    kind: Kind
    missing: str
    remedy: str


FEATURES = Link(
    Kind("NodeFeatures"),
    "The node lacks NFD's labels for an NVIDIA card.",
    "Install Node Feature Discovery (the GPU operator includes it) and look at its worker pod on this node; if it "
    "runs, the card is not visible on the PCI bus: check `lspci -d 10de:` on the node.",
)
DRIVER = Link(
    Kind("GpuDriver"),
    "The node reports no driver version.",
    "Look at the driver's pod on this node (nvidia-driver-daemonset), or run `nvidia-smi` on it if the driver "
    "is installed manually; `dmesg` says why the module did not load.",
)
PLUGIN = Link(
    Kind("DevicePlugin"),
    "The node offers no GPUs: neither nvidia.com/… in its allocatable nor devices in a ResourceSlice.",
    "Look at the device plugin's pod on this node (nvidia-device-plugin-daemonset), or at the kubelet plugin of "
    "the DRA driver; both need the container toolkit.",
)
LABELS = Link(
    Kind("GpuLabels"),
    "No label names the cards' product, so the portal cannot name a GPU type.",
    "Look at the pod of GPU Feature Discovery on this node (gpu-feature-discovery).",
)
EXPORTER = Link(
    Kind("GpuMetrics"),
    "The node has no ready pod of the DCGM exporter.",
    "Look at the DaemonSet nvidia-dcgm-exporter. Without it the node is sold, but errors of its cards are noticed only "
    "when the device plugin withdraws them.",
)
CHAIN = (FEATURES, DRIVER, PLUGIN, LABELS, EXPORTER)


def node_checks(node: Object, pods_on_node: Iterable[Object], slices: Iterable[Object]) -> tuple[Check, ...]:
    """Each link of the chain, for a node with NVIDIA GPUs; the first missing one has the remedy, since the rest depends on it.

    `slices`: the ResourceSlices of this node.
    """
    devices = [
        device
        for each in slices
        if NVIDIA in each["spec"]["driver"]
        for device in (each["spec"].get("devices") or [])
    ]
    if not _has_gpus(node, devices):
        return ()
    there = _there(node, devices, pods_on_node)
    first = next((link for link in CHAIN if not there[link]), None)
    return tuple(_check(link, there[link], first) for link in CHAIN)


def _check(link: Link, there: str, first: Link | None) -> Check:
    if there:
        return link.kind.good("Found", there)
    if link is first:
        return link.kind.bad("Missing", link.missing, link.remedy)
    held_up = first.kind.type if first else ""
    return link.kind.unknown("AfterAnother", f"{link.missing} Fix {held_up} first.")


def _there(node: Object, devices: Sequence[Object], pods_on_node: Iterable[Object]) -> dict[Link, str]:
    """What was found for each link, in words; "" if it is missing."""
    labels = node["metadata"].get("labels") or {}
    driver = _driver(labels, devices)
    counted = _counted(node, devices)
    product = labels.get("nvidia.com/gpu.product") or _of_any(devices, "productName")
    exporter = next((pod for pod in pods_on_node if is_exporter(pod) and is_ready(pod)), None)
    return {
        FEATURES: "NFD sees an NVIDIA card." if _pci(labels) else "",
        DRIVER: f"Driver {driver}." if driver else "",
        PLUGIN: f"The node offers {counted}." if counted else "",
        LABELS: f"The cards are {product}." if product else "",
        EXPORTER: f"{exporter['metadata']['name']} is ready." if exporter else "",
    }


def _has_gpus(node: Object, devices: Sequence[Object]) -> bool:
    labels = node["metadata"].get("labels") or {}
    capacity = (node.get("status") or {}).get("capacity") or {}
    return (
        bool(devices)
        or labels.get(PRESENT) == "true"
        or bool(_pci(labels))
        or any(name.startswith("nvidia.com/") for name in capacity)
    )


def _pci(labels: Mapping[str, str]) -> list[str]:
    """NFD's labels of NVIDIA cards: `pci-10de.present`, or with the class, `pci-0302_10de.present`."""
    prefix = "feature.node.kubernetes.io/pci-"
    return [
        key
        for key, value in labels.items()
        if value == "true"
        and key.startswith(prefix)
        and NVIDIA_PCI in key.removeprefix(prefix).split(".")[0].split("_")
    ]


def _driver(labels: Mapping[str, str], devices: Sequence[Object]) -> str:
    full = labels.get("nvidia.com/cuda.driver-version.full")
    parts = [labels.get(f"nvidia.com/cuda.driver-version.{part}") for part in ("major", "minor", "revision")]
    older = [labels.get(f"nvidia.com/cuda.driver.{part}") for part in ("major", "minor", "rev")]
    return (
        full
        or ".".join(filter(None, parts))
        or ".".join(filter(None, older))
        or _of_any(devices, "driverVersion")
    )


def _counted(node: Object, devices: Sequence[Object]) -> str:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    offered = [
        f"{amount} {name}"
        for name, amount in sorted(allocatable.items())
        if name.startswith("nvidia.com/") and amount != "0"
    ]
    if devices:
        offered.append(f"{len(devices)} DRA devices")
    return some(offered)


def _of_any(devices: Iterable[Object], name: str) -> str:
    """Of the first device that has the attribute."""
    return next(filter(None, (attribute(device, name) for device in devices)), "")


def is_exporter(pod: Object) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return any(labels.get(key) in EXPORTER_NAMES for key in EXPORTER_LABELS)


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
