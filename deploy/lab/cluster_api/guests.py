"""What would run on OpenStack's servers, which the lab's cloud makes and never boots: `python -m
deploy.lab.cluster_api.guests MANAGEMENT HOME`.

A cluster of the OpenStack provider gets a twin in the memory of the development provider, and each of its servers that is ACTIVE a
machine there of the same name, whose node has the server's id. At the cluster's floating IP, which has to be an address of loopback,
a front answers with a certificate of the cluster's own authority. Twins are in a namespace of their own, named by the uid of what they
stand in for: a cluster that is made anew gets another one.
"""

import asyncio
import base64
import contextlib
import ssl
import sys
from pathlib import Path
from typing import Any

from deploy.lab.cluster_api.install import CORE
from deploy.lab.errors import LabError
from deploy.lab.files import write_private
from deploy.lab.kubernetes import Lab as KubernetesLab
from deploy.lab.kubernetes import pki
from deploy.lab.kubernetes.client import Client
from deploy.lab.kubernetes.errors import ApiError

SPACE = "guests"
INFRA = "/apis/infrastructure.cluster.x-k8s.io"
OPENSTACK = f"{INFRA}/v1beta1"
MEMORY = f"{INFRA}/v1beta2/namespaces/{SPACE}"
OF_CLUSTER = "cluster.x-k8s.io/cluster-name"
IS_CONTROL = "cluster.x-k8s.io/control-plane"
OWNERS = f"{CORE}/namespaces/{SPACE}/machines"
PAUSED = "cluster.x-k8s.io/paused"
MERGE = "application/merge-patch+json"
AUTHORITIES = ("ca", "etcd", "proxy", "sa")
EVERY_S = 0.5
Object = dict[str, Any]


def named(found: list[Object]) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in found}


class Twin:
    """Of one OpenStackCluster. Each `step` goes as far as it can; all of them may be repeated."""

    def __init__(self, client: Client, cluster: Object, home: Path) -> None:
        metadata = cluster["metadata"]
        self.name = "g-" + metadata["uid"][:13]
        self.space, self.owner = metadata["namespace"], metadata["labels"][OF_CLUSTER]
        self._client = client
        self._home: Path = home / self.name
        self._behind = self._turns = 0
        self._address: tuple[str, int] | None = None
        self._front: asyncio.Server | None = None

    def exists(self) -> bool:
        return self.name in named(_items(self._client, f"{CORE}/namespaces/{SPACE}/clusters"))

    def step(self, cluster: Object, machines: list[Object]) -> None:
        self._make()
        port = self._port()
        if not port or not self._authorities():
            return
        endpoint = cluster["spec"].get("controlPlaneEndpoint") or {}
        if endpoint.get("host") and self._address is None:
            self._certify(endpoint["host"])
            self._address, self._behind = (endpoint["host"], endpoint["port"]), port
        booted = [one for one in machines if _is_booted(one)]
        theirs = named(_items(self._client, f"{CORE}/namespaces/{self.space}/machines"))
        self._machines(booted, theirs)
        self._nodes(port, booted, theirs)

    async def answer(self) -> None:
        """At its floating IP, once that is known."""
        if self._address is not None and self._front is None:
            self._front = await self._serve(*self._address)

    def close(self) -> None:
        if self._front is not None:
            self._front.close()

    def _make(self) -> None:
        labels = {OF_CLUSTER: self.name}
        ref = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": self.name}
        made = [
            (f"{MEMORY}/devclusters", "DevCluster", {"backend": {"inMemory": {}}}),
            (f"{CORE}/namespaces/{SPACE}/clusters", "Cluster", {"infrastructureRef": ref}),
        ]
        for place, kind, spec in made:
            _once(self._client, place, kind, self.name, labels, spec)

    def _port(self) -> int:
        found = self._client.call("GET", f"{MEMORY}/devclusters/{self.name}")
        return int((found["spec"].get("controlPlaneEndpoint") or {}).get("port") or 0)

    def _authorities(self) -> bool:
        """The cluster's own, once its control plane has made them, are the twin's too."""
        theirs = named(_items(self._client, f"/api/v1/namespaces/{self.space}/secrets"))
        found = {kind: theirs.get(f"{self.owner}-{kind}") for kind in AUTHORITIES}
        place = f"/api/v1/namespaces/{SPACE}/secrets"
        there = named(_items(self._client, place))
        for kind, secret in found.items():
            name = f"{self.name}-{kind}"
            if secret is None:
                return all(f"{self.name}-{each}" in there for each in AUTHORITIES)
            if name not in there:
                body = {"type": "cluster.x-k8s.io/secret", "data": secret["data"]}
                metadata = {"name": name, "namespace": SPACE, "labels": {OF_CLUSTER: self.name}}
                head = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
                self._client.call("POST", place, {**head, **body})
        return True

    def _machines(self, booted: list[Object], theirs: dict[str, Object]) -> None:
        """Cluster API keeps its hands off these, or it would write into nodes whose they are."""
        selector = f"?labelSelector={OF_CLUSTER}%3D{self.name}"
        there = named(_items(self._client, OWNERS + selector))
        in_memory = named(_items(self._client, f"{MEMORY}/devmachines{selector}"))
        wanted = named(booted)
        for name, machine in wanted.items():
            if name not in in_memory and name in theirs:
                self._boot(name, theirs[name]["spec"].get("version", ""), machine["metadata"]["labels"])
        for name in set(there) - set(wanted):
            # what is in memory goes while its owner is there, or its node and its member of etcd would stay
            if name not in in_memory:
                _let_go(self._client, name)
            elif "deletionTimestamp" not in in_memory[name]["metadata"]:
                self._client.call("DELETE", f"{MEMORY}/devmachines/{name}")

    def _boot(self, name: str, version: str, theirs: dict[str, str]) -> None:
        labels = {OF_CLUSTER: self.name}
        if IS_CONTROL in theirs:
            labels[IS_CONTROL] = ""
        ref = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name}
        spec = {
            "clusterName": self.name,
            "version": version,
            "bootstrap": {"dataSecretName": f"{self.name}-ca"},  # it is never read
            "infrastructureRef": ref,
        }
        _once(self._client, OWNERS, "Machine", name, labels, spec)
        owner = self._client.call("GET", f"{OWNERS}/{name}")
        parts = ("vm", "node", *(("etcd", "apiServer") if IS_CONTROL in theirs else ()))
        backend = {"inMemory": {part: {"provisioning": {"startupDuration": "0s"}} for part in parts}}
        owned = {
            "apiVersion": owner["apiVersion"],
            "kind": "Machine",
            "name": name,
            "uid": owner["metadata"]["uid"],
        }
        _once(self._client, f"{MEMORY}/devmachines", "DevMachine", name, labels, {"backend": backend}, owned)

    def _nodes(self, port: int, booted: list[Object], theirs: dict[str, Object]) -> None:
        """Written again while its Machine has not found it: a watch that was cut is not told what it has missed."""
        memory = Client(port, self._keys())
        try:
            there = named(_items(memory, "/api/v1/nodes"))
        except OSError:
            return  # no machine of its control plane is up
        for machine in booted:
            name, wanted = machine["metadata"]["name"], machine["spec"]["providerID"]
            is_found = "nodeRef" in ((theirs.get(name) or {}).get("status") or {})
            if name in there and (there[name]["spec"].get("providerID") != wanted or not is_found):
                self._turns += 1
                metadata = {"annotations": {"lab.gpuaas.io/turn": str(self._turns)}}
                change = {"metadata": metadata, "spec": {"providerID": wanted}}
                memory.call("PATCH", f"/api/v1/nodes/{name}", change, MERGE)

    def _keys(self) -> Path:
        if not (self._home / "ca.crt").exists():
            data = self._client.call("GET", f"/api/v1/namespaces/{SPACE}/secrets/{self.name}-ca")["data"]
            for file, key in (("ca.key", "tls.key"), ("ca.crt", "tls.crt")):
                write_private(self._home / file, base64.b64decode(data[key]).decode())
        return self._home

    def _certify(self, address: str) -> None:
        folder = self._keys()
        if not (folder / "front.crt").exists():
            pki.server_certificate(folder, "front", f"IP:{address}")

    async def _serve(self, address: str, port: int) -> asyncio.Server:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._home / "front.crt", self._home / "front.key")
        inner = ssl.create_default_context(cafile=str(self._home / "ca.crt"))
        behind = self._behind

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                far = await asyncio.open_connection("127.0.0.1", behind, ssl=inner)
                far[1].write(_readdressed(head, f"127.0.0.1:{behind}"))
                await asyncio.gather(_pour(reader, far[1]), _pour(far[0], writer))
            writer.close()

        return await asyncio.start_server(forward, address, port, ssl=context)


def _readdressed(head: bytes, host: str) -> bytes:
    """A cluster in memory is found by the port in the header Host. One request a connection, so that there is one head to change."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    names = [line.partition(b":")[0].strip().lower() for line in lines]
    dropped = {b"host"} if b"upgrade" in names else {b"host", b"connection"}
    headers = [line for name, line in zip(names, lines, strict=True) if name not in dropped]
    closing = [] if b"upgrade" in names else [b"Connection: close"]
    return b"\r\n".join([first, b"Host: " + host.encode(), *closing, *headers, b"", b""])


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    writer.close()


def _is_booted(machine: Object) -> bool:
    """Its provider calls it ready when Nova has its server ACTIVE."""
    is_up = (machine.get("status") or {}).get("ready") and machine["spec"].get("providerID")
    return bool(is_up) and "deletionTimestamp" not in machine["metadata"]


def _items(client: Client, path: str) -> list[Object]:
    found: list[Object] = client.call("GET", path)["items"]
    return found


def _once(
    client: Client,
    place: str,
    kind: str,
    name: str,
    labels: dict[str, str],
    spec: Object,
    owner: Object | None = None,
) -> None:
    # the development provider writes into annotations without looking whether there are any
    annotations = {PAUSED: ""} if kind == "Machine" else {OF_CLUSTER: labels[OF_CLUSTER]}
    metadata: Object = {"name": name, "namespace": SPACE, "labels": labels, "annotations": annotations}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    body = {
        "apiVersion": place.removeprefix("/apis/").partition("/namespaces/")[0],
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }
    try:
        client.call("POST", place, body)
    except ApiError as error:
        if error.status != 409:
            raise


def _let_go(client: Client, name: str) -> None:
    """A Machine that nobody looks after waits for its finalizer for ever."""
    client.call("DELETE", f"{OWNERS}/{name}")
    with contextlib.suppress(ApiError):  # it has gone at once
        client.call("PATCH", f"{OWNERS}/{name}", {"metadata": {"finalizers": None}}, MERGE)


class Guests:
    def __init__(self, client: Client, home: Path) -> None:
        self._client = client
        self._home = home
        self._twins: dict[str, Twin] = {}
        self._ended: list[Twin] = []

    async def answer(self) -> None:
        for twin in self._twins.values():
            await twin.answer()
        for twin in self._ended:
            twin.close()
        self._ended = []

    def step(self) -> None:
        """Its calls wait for answers, so it is not taken where fronts answer."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        self._client.apply("/api/v1/namespaces", namespace)
        alive = set()
        for cluster in _items(self._client, f"{OPENSTACK}/openstackclusters"):
            metadata = cluster["metadata"]
            if OF_CLUSTER not in metadata.get("labels", {}):
                continue
            twin = self._twins.setdefault(metadata["uid"], Twin(self._client, cluster, self._home))
            alive.add(twin.name)
            if "deletionTimestamp" in metadata and not twin.exists():
                continue
            where = f"{OPENSTACK}/namespaces/{twin.space}/openstackmachines"
            machines = _items(self._client, f"{where}?labelSelector={OF_CLUSTER}%3D{twin.owner}")
            try:
                twin.step(cluster, machines)
            except (OSError, ApiError, LabError) as error:
                print(f"{twin.space}/{twin.owner}: {error}", flush=True)
        for uid in [uid for uid, twin in self._twins.items() if twin.name not in alive]:
            self._ended.append(self._twins.pop(uid))
        self._take_away(alive)

    def _take_away(self, alive: set[str]) -> None:
        place = f"{CORE}/namespaces/{SPACE}/clusters"
        for name, one in named(_items(self._client, place)).items():
            if name in alive:
                continue
            for machine in _items(self._client, f"{OWNERS}?labelSelector={OF_CLUSTER}%3D{name}"):
                _let_go(self._client, machine["metadata"]["name"])
            if "deletionTimestamp" not in one["metadata"]:
                self._client.call("DELETE", f"{place}/{name}")


async def main() -> None:
    management, home = Path(sys.argv[1]), Path(sys.argv[2])
    guests = Guests(KubernetesLab(state_dir=management).client(), home)
    while True:
        try:
            await asyncio.to_thread(guests.step)
            await guests.answer()
        except (OSError, ApiError) as error:
            print(error, flush=True)
        await asyncio.sleep(EVERY_S)


if __name__ == "__main__":
    asyncio.run(main())
