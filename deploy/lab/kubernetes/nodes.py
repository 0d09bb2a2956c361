"""From the topology file to what stands in the cluster: nodes, ResourceSlices and DeviceClasses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deploy.lab.errors import LabError
from deploy.lab.kubernetes.client import Client

POOL_LABEL = "gpuaas.io/pool"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
NOT_YET = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
# what NFD and the GPU operator put on each node with an NVIDIA card
GPU_LABELS = {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.present": "true"}
Object = dict[str, Any]


class Topology:
    def __init__(self, path: Path) -> None:
        try:
            self._content: Object = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise LabError(f"cannot read the topology {path}: {error}") from error

    def node_names(self) -> set[str]:
        return {name for pool in self._content["pools"] for name in pool["nodes"]}

    def nodes(self) -> Iterator[Object]:
        for pool in self._content["pools"]:
            for name in pool["nodes"]:
                yield _node(name, pool)

    def resource_slices(self) -> Iterator[Object]:
        for pool in self._content["pools"]:
            if "devices" in pool:
                for name in pool["nodes"]:
                    yield _resource_slice(name, pool["devices"])

    def device_classes(self) -> Iterator[Object]:
        for given in self._content["device_classes"]:
            extended = given.get("extended_resource")
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": given["name"]},
                "spec": {
                    "selectors": [{"cel": {"expression": given["cel"]}}],
                    **({"extendedResourceName": extended} if extended else {}),
                },
            }

    def apply(self, client: Client, *, kubelet_port: int) -> None:
        """May be repeated: brings back what was changed or deleted. kubelet_port: where logs of pods are asked for; another one where the
        lab comes back on other ports."""
        answers_at = {"daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}}}
        for node in self.nodes():
            identity = {key: node[key] for key in ("apiVersion", "kind")}
            name = {"name": node["metadata"]["name"]}
            client.apply("/api/v1/nodes", {**identity, "metadata": node["metadata"], "spec": node["spec"]})
            status = {**identity, "metadata": name, "status": {**node["status"], **answers_at}}
            client.apply("/api/v1/nodes", status, subresource="/status")
        for resource_slice in self.resource_slices():
            client.apply("/apis/resource.k8s.io/v1/resourceslices", resource_slice)
        for device_class in self.device_classes():
            client.apply("/apis/resource.k8s.io/v1/deviceclasses", device_class)

    def ready(self, client: Client) -> bool:
        """Every node takes work. One that a person took down by annotation counts as ready: it does as it was told."""
        nodes = client.call("GET", "/api/v1/nodes")["items"]
        return self.node_names() <= {node["metadata"]["name"] for node in nodes if _as_told(node)}


def _as_told(node: Object) -> bool:
    """A node that has just joined is closed by a taint for some seconds, also after its condition says Ready:
    https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-not-ready"""
    if node["metadata"].get("annotations", {}).get("lab.gpuaas.io/down") == "true":
        return True
    condition: Object = next((c for c in node["status"].get("conditions", ()) if c["type"] == "Ready"), {})
    closed = NOT_YET & {taint["key"] for taint in node["spec"].get("taints", ())}
    return condition.get("status") == "True" and not closed


def _node(name: str, pool: Object) -> Object:
    resources = {"pods": "110", "ephemeral-storage": "1Ti", **pool["resources"]}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        POOL_LABEL: pool["pool"],
        **(GPU_LABELS if pool["gpu"] else {}),
        **pool["labels"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [GPU_TAINT] if pool["gpu"] else []},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _resource_slice(node: str, devices: Object) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": devices["driver"],
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{number}",
                    "attributes": {**devices["attributes"], "uuid": {"string": f"GPU-{node}-{number}"}},
                    "capacity": devices["capacity"],
                }
                for number in range(devices["count"])
            ],
        },
    }
