"""What the lab puts into the cluster, and how it sees that the node is of use."""

import string
from pathlib import Path
from typing import Any

import yaml

from deploy.lab.kubernetes.client import Client
from deploy.lab.kubernetes.controlplane import REAL
from deploy.lab.kubernetes.errors import ApiError
from deploy.lab.node import images
from deploy.lab.node.kubelet import API_PORT
from deploy.lab.node.network import Network
from deploy.lab.node.settings import CLUSTER_DOMAIN, DNS_ADDRESS, GPUS, HERE, NAME

MANIFESTS = HERE / "manifests"
COLLECTIONS = {
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
    "DaemonSet": "/apis/apps/v1/namespaces/{namespace}/daemonsets",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


def install(client: Client, network: Network) -> None:
    """May be repeated: brings back what was changed or deleted."""
    words = {
        "host": network.host,
        "api_port": str(API_PORT),
        "real": REAL,
        "gpus": str(GPUS),
        "domain": CLUSTER_DOMAIN,
        "dns": DNS_ADDRESS,
        "image_gpus": images.reference("gpus"),
        "image_coredns": images.reference("coredns"),
    }
    for path in sorted(MANIFESTS.glob("*.yaml")):
        for found in _objects(path, words):
            namespace = found["metadata"].get("namespace", "")
            client.apply(COLLECTIONS[found["kind"]].format(namespace=namespace), found)


def _objects(path: Path, words: dict[str, str]) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(string.Template(path.read_text()).substitute(words)))


def is_ready(client: Client, *, since: str) -> bool:
    """Whether the node has said so, not earlier than `since` (as the API writes times), has its GPUs, and names are answered."""
    try:
        node = client.call("GET", f"/api/v1/nodes/{NAME}")
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    conditions = {one["type"]: one for one in node["status"].get("conditions", ())}
    ready = conditions.get("Ready", {})
    has_gpus = node["status"].get("allocatable", {}).get("nvidia.com/gpu") == str(GPUS)
    fresh = bool(ready.get("status") == "True" and ready["lastHeartbeatTime"] >= since)
    return fresh and has_gpus and _names_are_answered(client)


def _names_are_answered(client: Client) -> bool:
    slices = client.call(
        "GET",
        "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
        "?labelSelector=kubernetes.io/service-name%3Dkube-dns",
    )
    return any(
        endpoint["conditions"].get("ready") for one in slices["items"] for endpoint in one["endpoints"] or ()
    )
