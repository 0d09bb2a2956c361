"""Cluster API's real controllers. A cluster takes half a minute there, so those that are whole serve the next test again.

Clusters of the lab are in memory: their API takes nodes and objects, but knows no tokens and no rights. So who gets access
is shown at a real API server that stands in for theirs (`real`); everything else is theirs.
"""

import socket
import uuid
from collections import Counter
from typing import Any, ClassVar
from unittest.mock import patch

import yaml

from gpuaas.core.errors import Unavailable
from gpuaas.core.ids import short
from gpuaas.providers.base import (
    Access,
    Change,
    ClusterDriver,
    ClusterKind,
    ClusterRef,
    ClusterSpec,
    Connection,
    ControlPlane,
    FlavorAmount,
    NodePool,
    PoolSignals,
    StepOutcome,
)
from gpuaas.providers.clusterapi import names
from gpuaas.providers.clusterapi.driver import ClusterApiDriver
from gpuaas.providers.clusterapi.site import admin_kubeconfig
from gpuaas.providers.kubeapi.client import FIELD_MANAGER, Api, Object
from gpuaas.providers.kubeapi.names import NAMESPACES, ORGANIZATION, PROJECT
from tests.contracts.clusters.rigs import ClusterRig, carry_out, counts, released
from tests.lab.fixtures import LabSite, until

ADDON = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: gpu-operator, namespace: kube-system}
data: {driver: "580"}
"""
SETTINGS = {
    "class": "lab",
    "class_namespace": "cluster-classes",
    "worker_class": "worker",
    "flavor_variable": "flavor",
    "repair_after_seconds": 0,
    "addons": {"gpu-operator": {"manifests": ADDON}},
}
WHOLE = {"": 1, "gpu": 2, "other": 1}


class CarelessDriver(ClusterApiDriver):
    """Loses the answers that it is told to lose; `real` stands in for the API of its clusters."""

    def __init__(self, connection: Connection, real: Api | None = None) -> None:
        super().__init__(connection)
        self.lost: set[tuple[Change, str]] = set()
        self.real = real

    def _workload(self, ref: ClusterRef) -> Api:
        return self.real or super()._workload(ref)

    def signals(self, spec: ClusterSpec) -> tuple[PoolSignals, ...]:
        """Pods are in the very cluster."""
        with patch.object(self, "real", None):
            return super().signals(spec)

    def perform(self, change: Change, spec: ClusterSpec, step: str) -> StepOutcome:
        outcome = super().perform(change, spec, step)
        if (change, step) in self.lost:
            self.lost.discard((change, step))
            raise Unavailable("the answer was lost", retry_after=1)
        return outcome


class ClusterApiRig(ClusterRig):
    old, new = "1.35.6", "1.36.3"
    names_everything = False
    driver_class: type[CarelessDriver] = CarelessDriver
    made: ClassVar[list[ClusterSpec]] = []

    def __init__(self, kubeconfig: str, real: LabSite) -> None:
        self._kubeconfig = kubeconfig
        self._real = real
        self.api = Api(kubeconfig)
        super().__init__(self.driver_class(_connection(kubeconfig), real.api()))

    def spec(self, *, workers: int = 2) -> ClusterSpec:
        made = uuid.uuid4()
        spec = ClusterSpec(
            id=made,
            external_name=f"c-{short(made)}-train",
            project_slug="weather-lm",
            organization_slug="climate",
            kind=ClusterKind.KUBERNETES,
            release=self.old,
            control_plane=ControlPlane(1, 4, 8, 40),
            pools=(self._pool("gpu", workers), self._pool("other", 1)),
            addons=("gpu-operator",),
            settings=self.settings(),
        )
        self.made.append(spec)
        return spec

    def settings(self) -> dict[str, Any]:
        return SETTINGS

    def _pool(self, name: str, count: int) -> NodePool:
        return NodePool(name, FlavorAmount("h100.2", count, 2, 8, 64, 100, "nvidia.com/gpu"), self.old)

    def ready(self) -> ClusterSpec:
        """One of an earlier test, brought back to the number of workers of a whole one, at whichever release it is by now; a new
        one where there is none."""
        for made in self.made:
            nodes = self.driver.observe(made.ref).nodes
            releases = {node.release for node in nodes}
            if len(releases) != 1 or not all(node.ready for node in nodes):
                continue
            spec = released(made, releases.pop(), *(pool.name for pool in made.pools))
            spec = counts(spec, gpu=WHOLE["gpu"], other=WHOLE["other"])
            if Counter(node.pool for node in nodes) != WHOLE:
                carry_out(self.driver, Change.SCALE, spec)
            return spec
        return super().ready()

    def unreachable(self) -> ClusterDriver:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        given = yaml.safe_load(self._kubeconfig)
        given["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        return ClusterApiDriver(_connection(yaml.safe_dump(given)))

    def answer_lost(self, change: Change, step: str) -> None:
        assert isinstance(self.driver, CarelessDriver)
        self.driver.lost.add((change, step))

    def node_break(self, name: str) -> None:
        machine = next(
            one for one in self.api.items(f"{names.CORE}/machines") if one["metadata"]["name"] == name
        )
        space, node = machine["metadata"]["namespace"], machine["status"]["nodeRef"]["name"]
        ref = next(spec.ref for spec in self.made if spec.external_name == space)
        workload = Api(admin_kubeconfig(self.api, ref))
        told = {"type": "Ready", "status": "False", "reason": "GpuFellOffTheBus", "message": "Xid 79"}
        since = {"lastTransitionTime": self.broken_since(machine)}
        workload.merge(f"/api/v1/nodes/{node}", {"status": {"conditions": [{**told, **since}]}})
        until(
            lambda: any(each.name == name and not each.ready for each in self.driver.observe(ref).nodes),
            "Cluster API sees that the node is broken",
        )

    def broken_since(self, machine: Object) -> str:
        """What its node says; the driver looks only for how long."""
        return str(machine["metadata"]["creationTimestamp"])

    def foreign(self, spec: ClusterSpec) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": spec.external_name}}
        self.api.create(NAMESPACES, body)

    def too_many(self) -> int:
        return 0

    def gpus_held(self, spec: ClusterSpec) -> int:
        machines = self.api.items(f"{names.CORE}/namespaces/{spec.external_name}/machines")
        pools = {pool.name: pool.flavor.gpus for pool in spec.pools}
        return sum(pools.get(one["metadata"]["labels"].get(names.OF_POOL, ""), 0) for one in machines)

    def made_by_us(self, spec: ClusterSpec) -> set[tuple[str, str]]:
        """By the site's own record of who wrote what."""
        space = f"namespaces/{spec.external_name}"
        places = {
            "Cluster": f"{names.CORE}/{space}/clusters",
            "ConfigMap": f"/api/v1/{space}/configmaps",
            "ClusterResourceSet": f"{names.ADDONS}/{space}/clusterresourcesets",
            "MachineDeployment": f"{names.CORE}/{space}/machinedeployments",
            "Secret": f"/api/v1/{space}/secrets",
        }
        found = {
            (kind, one["metadata"]["name"])
            for kind, place in places.items()
            for one in self.api.items(place)
            if any(each["manager"] == FIELD_MANAGER for each in one["metadata"]["managedFields"])
        }
        spaces = self.api.items(NAMESPACES, labelSelector=f"{names.TAG}={spec.id}")
        return found | {("Namespace", one["metadata"]["name"]) for one in spaces}

    def owners(self, spec: ClusterSpec) -> set[tuple[str, str]]:
        places = (NAMESPACES, f"{names.CORE}/namespaces/{spec.external_name}/clusters")
        found = [self.api.get(f"{place}/{spec.external_name}")["metadata"]["labels"] for place in places]
        return {(labels[PROJECT], labels[ORGANIZATION]) for labels in found}

    def demand(self, spec: ClusterSpec, pool: str, gpus: int) -> None:
        """Pods of one GPU each, on the pool's nodes as a scheduler would put them while there is room."""
        workload = Api(admin_kubeconfig(self.api, spec.ref))
        size = next(one.flavor.gpus for one in spec.pools if one.name == pool)
        machines = self.api.items(f"{names.CORE}/namespaces/{spec.external_name}/machines")
        nodes = [
            one["status"]["nodeRef"]["name"]
            for one in machines
            if one["metadata"]["labels"].get(names.OF_POOL) == pool
        ]
        room = [node for node in nodes for _ in range(size)]
        for number in range(gpus):
            asked = {"limits": {"nvidia.com/gpu": "1"}}
            body = {"containers": [{"name": "train", "image": "train", "resources": asked}]}
            bound = {"nodeName": room[number]} if number < len(room) else {}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"train-{number}", "namespace": "default"},
                "spec": {**body, **bound},
            }
            workload.create("/api/v1/namespaces/default/pods", pod)

    def who(self, spec: ClusterSpec, access: Access) -> str:
        """Asked of the API server itself; it takes some seconds until a token's end is known everywhere."""
        api = Api(access.document)
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        found = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
        return str(found["status"]["userInfo"]["username"]).rsplit(":", 1)[-1]


def _connection(kubeconfig: str) -> Connection:
    return Connection(
        site_id=uuid.uuid4(), site_slug="mgmt", endpoint="", credentials={"kubeconfig": kubeconfig}
    )
