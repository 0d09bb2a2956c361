"""What the controllers need of the management cluster, with addresses on loopback in place of Services."""

import base64
import copy
import time
from pathlib import Path
from typing import Any

from deploy.lab.cluster_api.settings import CLASS, CLASSES
from deploy.lab.errors import LabError
from deploy.lab.files import wait_limit
from deploy.lab.kubernetes.client import Client
from deploy.lab.kubernetes.errors import ApiError

Manifest = dict[str, Any]
TYPES = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CORE = "/apis/cluster.x-k8s.io/v1beta2"
HOOKS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
INVALID = 422


def webhooks_remove(client: Client, name: str) -> None:
    """While their controller is not there they refuse all that they are asked about."""
    for plural in HOOKS.values():
        try:
            client.call("DELETE", f"{ADMISSION}/{plural}/lab-{name}")
        except ApiError as error:
            if error.status != 404:
                raise


def types_install(client: Client, found: dict[str, list[Manifest]], url: str, authority: Path) -> None:
    for manifest in found["types"]:
        client.apply(TYPES, _at(manifest, url, authority))
    for manifest in found["types"]:
        _until_served(client, manifest["metadata"]["name"])


def webhooks_install(
    client: Client, name: str, found: dict[str, list[Manifest]], url: str, authority: Path
) -> None:
    for manifest in found["webhooks"]:
        made = _at(manifest, url, authority)
        made["metadata"] = {"name": f"lab-{name}"}
        client.apply(f"{ADMISSION}/{HOOKS[made['kind']]}", made)


def _at(manifest: Manifest, url: str, authority: Path) -> Manifest:
    """The same with every Service replaced."""
    bundle = base64.b64encode(authority.read_bytes()).decode()

    def turned(value: Any) -> Any:
        if isinstance(value, list):
            return [turned(one) for one in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {"service"}:
            return {"url": url + value["service"]["path"], "caBundle": bundle}
        return {key: turned(one) for key, one in value.items()}

    made: Manifest = copy.deepcopy(manifest)
    # and not elsewhere: a schema may have a field of this very name
    if "webhooks" in made:
        made["webhooks"] = turned(made["webhooks"])
    if "conversion" in made.get("spec", {}):
        made["spec"]["conversion"] = turned(made["spec"]["conversion"])
    return made


def _until_served(client: Client, name: str) -> None:
    end = time.monotonic() + wait_limit()
    while time.monotonic() < end:
        found = client.call("GET", f"{TYPES}/{name}").get("status", {}).get("conditions") or []
        if any(one["type"] == "Established" and one["status"] == "True" for one in found):
            return
        time.sleep(0.05)
    raise LabError(f"the API server does not serve {name}")


def classes_install(client: Client, manifests: list[Manifest]) -> bool:
    """The class and its templates. A template cannot be changed, so one that differs is made anew. True: all are there."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CLASSES}}
    client.apply("/api/v1/namespaces", namespace)
    for manifest in manifests:
        plural = manifest["kind"].lower() + ("es" if manifest["kind"].endswith("s") else "s")
        collection = f"/apis/{manifest['apiVersion']}/namespaces/{CLASSES}/{plural}"
        try:
            client.apply(collection, manifest)
        except ApiError as error:
            path = f"{collection}/{manifest['metadata']['name']}"
            if error.status != INVALID or not _is_there(client, path):
                raise
            client.call("DELETE", path)
            client.apply(collection, manifest)
    return True


def _is_there(client: Client, path: str) -> bool:
    try:
        return bool(client.call("GET", path))
    except ApiError as error:
        if error.status != 404:
            raise
        return False


def order_passes(client: Client, release: str) -> bool:
    """Whether an order would be taken: the class is read, and all webhooks answer."""
    found = client.call("GET", f"{CORE}/namespaces/{CLASSES}/clusterclasses/{CLASS}")
    current = [
        one
        for one in found.get("status", {}).get("conditions") or []
        if one["type"] == "VariablesReady"
        and one["status"] == "True"
        and one.get("observedGeneration") == found["metadata"]["generation"]
    ]
    if not current:
        return False
    workers = {"machineDeployments": [{"class": "worker", "name": "pool", "replicas": 1}]}
    order = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "would-it-pass"},
        "spec": {
            "topology": {
                "classRef": {"name": CLASS, "namespace": CLASSES},
                "version": release,
                "controlPlane": {"replicas": 1},
                "workers": workers,
            }
        },
    }
    client.call("POST", f"{CORE}/namespaces/default/clusters?dryRun=All", order)
    return True
