"""What the lab has nobody for, played: the provisioner of volumes, and the syncer of virtual clusters.

The syncer acts with the token of its own service account and so with the rights that the driver gave it, at the real API server
and past the real quota and guards: it writes the cluster's kubeconfig, and brings pods of the virtual API to the site and what
becomes of them back. As the released one does, it names pods `<name>-x-<namespace>-x-<cluster>` and labels them.

All virtual clusters of a test share one virtual API server; a cluster's pods are in the namespace of its name there.
"""

import base64
import threading
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from gpuaas.core.errors import GpuaasError, NotFound, Permanent
from gpuaas.providers.base import ClusterSpec
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.names import NAMESPACES
from gpuaas.providers.vcluster import names

VOLUMES = "/api/v1/persistentvolumes"
NODE = "shared-with-others"
TICK_S = 0.1


@dataclass
class PlayedSite:
    """`kubeconfig` is the virtual API server's administrator's. syncs=False: only volumes are provisioned."""

    host: Api
    virtual: Api
    kubeconfig: str
    clusters: dict[str, ClusterSpec] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    syncs: bool = True

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="played-syncers", daemon=True)
        self._syncers: dict[str, Api] = {}

    def start(self) -> None:
        """What others have left inside would count for those who ask the API how much waits."""
        for pod in self.virtual.items("/api/v1/pods"):
            metadata = pod["metadata"]
            path = f"{NAMESPACES}/{metadata['namespace']}/pods/{metadata['name']}"
            self.virtual.delete(path, gracePeriodSeconds="0")
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        for name in self.clusters:
            self.virtual.delete(f"{NAMESPACES}/{name}")
            self.host.delete(f"{NAMESPACES}/{names.space(name)}")
            self.host.delete(f"{VOLUMES}/{names.space(name)}")

    def pod(self, spec: ClusterSpec, name: str, resource: str, gpus: int) -> None:
        """Asked for inside of the virtual cluster."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": spec.external_name}}
        self.virtual.apply(NAMESPACES, space)
        limits = {resource: str(gpus)} if gpus else {}
        asked = {"limits": limits, "requests": {"cpu": "1", "memory": "1Gi", **limits}}
        box = {"name": "main", "image": "registry.example/train", "resources": asked}
        body = {
            "metadata": {"name": name},
            "spec": {"containers": [box], "automountServiceAccountToken": False},
        }
        path = f"{NAMESPACES}/{spec.external_name}"
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.virtual.apply(f"{path}/serviceaccounts", account)
        self.virtual.create(f"{path}/pods", body)

    def syncer(self, name: str) -> Api:
        """With the rights of the cluster's own account at the site, and no others."""
        if name not in self._syncers:
            self._syncers[name] = Api(kubeconfig_of(self.host, self.token(name)))
        return self._syncers[name]

    def token(self, name: str) -> str:
        accounts = f"{NAMESPACES}/{names.space(name)}/serviceaccounts/{names.account(name)}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.host.create(accounts, asked)["status"]["token"])

    def _run(self) -> None:
        while not self._stop.is_set():
            for name in list(self.clusters):
                try:
                    self._provision(name)
                    if self.syncs:
                        self._sync(name)
                except NotFound:
                    self._syncers.pop(name, None)  # nothing of it is there
                except GpuaasError as error:
                    self._syncers.pop(name, None)
                    self.troubles.append(f"{name}: {error.message}")
            self._stop.wait(TICK_S)

    def _provision(self, name: str) -> None:
        space = names.space(name)
        claim = self.host.find(f"{NAMESPACES}/{space}/persistentvolumeclaims/{names.volume(name)}")
        if claim is None or claim["status"].get("phase") == "Bound":
            return
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": space},
            "spec": {
                "capacity": claim["spec"]["resources"]["requests"],
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": claim["spec"].get("storageClassName", ""),
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": f"/data/{space}"},
                "claimRef": {"namespace": space, "name": names.volume(name), "uid": claim["metadata"]["uid"]},
            },
        }
        self.host.delete(f"{VOLUMES}/{space}")
        self.host.apply(VOLUMES, volume)

    def _sync(self, name: str) -> None:
        control = self.host.find(f"{NAMESPACES}/{names.space(name)}/pods/{name}-0")
        if control is None or not _is_ready(control):
            return
        syncer, space = self.syncer(name), f"{NAMESPACES}/{names.space(name)}"
        if syncer.find(f"{space}/secrets/{names.kubeconfig_secret(name)}") is None:
            data = {"config": base64.b64encode(self.kubeconfig.encode()).decode()}
            labels = {"app": "vcluster", "vcluster-name": name}
            metadata = {"name": names.kubeconfig_secret(name), "labels": labels}
            syncer.create(f"{space}/secrets", {"metadata": metadata, "type": "Opaque", "data": data})
        copies = {one["metadata"]["name"]: one for one in syncer.items(f"{space}/pods")}
        for pod in self.virtual.items(f"{NAMESPACES}/{name}/pods"):
            self._sync_pod(name, syncer, pod, copies)

    def _sync_pod(self, name: str, syncer: Api, pod: Object, copies: dict[str, Object]) -> None:
        called = f"{pod['metadata']['name']}-x-{name}-x-{name}"[:63]
        virtual = f"{NAMESPACES}/{name}/pods/{pod['metadata']['name']}"
        copy, placed = copies.get(called), pod["spec"].get("nodeName")
        if copy is None and placed:  # it was ended at the site
            self.virtual.delete(virtual, gracePeriodSeconds="0")
        elif copy is None:
            labels = {names.SYNCED: name, "vcluster.loft.sh/namespace": name}
            spec = {"containers": pod["spec"]["containers"], "automountServiceAccountToken": False}
            for box in spec["containers"]:
                box.pop("volumeMounts", None)
            body = {"metadata": {"name": called, "labels": labels}, "spec": spec}
            try:
                syncer.create(f"{NAMESPACES}/{names.space(name)}/pods", body)
            except Permanent:
                return  # over quota: it waits inside, and is tried again
        elif copy["spec"].get("nodeName") and not placed:
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            bound = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
            self.virtual.apply(
                "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
            )
            self.virtual.create(f"{virtual}/binding", bound)


def _is_ready(pod: Object) -> bool:
    told = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions") or []}
    return told.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def kubeconfig_of(host: Api, token: str) -> str:
    authority = base64.b64encode(Path(host.ca_file).read_bytes()).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": host.server, "certificate-authority-data": authority}}
            ],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
    )
