"""OpenShift on bare metal, at a real API server with the hub's kinds and played controllers; nothing is installed."""

import re
import uuid
from dataclasses import replace

from gpuaas.core.errors import Unauthorized, Unavailable
from gpuaas.core.ids import short
from gpuaas.providers.baremetal.driver import OpenShiftBareMetalDriver
from gpuaas.providers.baremetal.hosts import host_take_out
from gpuaas.providers.baremetal.hub import KINDS
from gpuaas.providers.baremetal.models import Host
from gpuaas.providers.baremetal.plan import IMAGE_SET
from gpuaas.providers.base import (
    Access,
    Change,
    ClusterDriver,
    ClusterKind,
    ClusterSpec,
    Connection,
    ControlPlane,
    FlavorAmount,
    NodePool,
    StepOutcome,
)
from gpuaas.providers.kubeapi.names import CLUSTER
from tests.contracts.clusters.rigs import ClusterRig
from tests.lab.fixtures import LabSite
from tests.providers.baremetal.crds import crds_load
from tests.providers.baremetal.play import PlayedHub, namespace_make
from tests.providers.baremetal.rack import host_make

GPU = "nvidia.com/gpu"
CONTROL = "control"


class Forgetful(OpenShiftBareMetalDriver):
    """Whose site does what it is asked and is not heard, once."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.lost: set[tuple[Change, str]] = set()

    def perform(self, change: Change, spec: ClusterSpec, step: str) -> StepOutcome:
        outcome = super().perform(change, spec, step)
        if (change, step) in self.lost:
            self.lost.discard((change, step))
            raise Unavailable("the answer was lost", retry_after=1)
        return outcome


class BareMetalRig(ClusterRig):
    old, new = "4.18.5", "4.18.6"
    upgrades = False

    def __init__(self, lab: LabSite) -> None:
        self.lab = lab
        self.api = lab.api()
        crds_load(self.api)
        self.namespace = namespace_make(self.api)
        self.hub = PlayedHub(self.api, self.namespace)
        self.connection = replace(lab.connection(), site_slug="rack-1")
        self.lossy = Forgetful(self.connection)
        super().__init__(self.lossy)
        for _ in range(8):
            host_make(self.connection.site_id, resource_name=GPU, gpus=2)
        for _ in range(3):
            host_make(self.connection.site_id, resource_name=CONTROL, gpus=0)
        self.made: list[uuid.UUID] = []
        self.hub.start()

    def close(self) -> None:
        self.hub.stop()
        for one in self.made:
            self.api.delete(KINDS[IMAGE_SET].everywhere, labelSelector=f"{CLUSTER}={one}")
        self.api.delete(f"/api/v1/namespaces/{self.namespace}")
        self.api.close()

    def spec(self, *, workers: int = 2) -> ClusterSpec:
        made = uuid.uuid4()
        self.made.append(made)
        return ClusterSpec(
            id=made,
            external_name=f"c-{short(made)}-train",
            project_slug="weather-lm",
            organization_slug="climate",
            kind=ClusterKind.KUBERNETES,
            release=self.old,
            control_plane=ControlPlane(1, 16, 64, 400),
            pools=(self._pool("gpu", workers), self._pool("other", 1)),
            addons=("gpu-operator",),
            settings={
                "namespace": self.namespace,
                "pull_secret": "pull-secret",
                "base_domain": "clusters.example.org",
                "control_hosts": CONTROL,
                "images": {release: f"images.example.org/ocp:{release}" for release in (self.old, self.new)},
                "machine_networks": ["192.0.2.0/24"],
                "addons": {"gpu-operator": {"subscription.yaml": "kind: Subscription\n"}},
            },
        )

    def _pool(self, name: str, count: int) -> NodePool:
        return NodePool(name, FlavorAmount("dgx.2", count, 2, 64, 512, 1000, GPU), self.old)

    def unreachable(self) -> ClusterDriver:
        nobody = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", self.lab.kubeconfig)
        return OpenShiftBareMetalDriver(replace(self.connection, credentials={"kubeconfig": nobody}))

    def answer_lost(self, change: Change, step: str) -> None:
        self.lossy.lost.add((change, step))

    def node_break(self, name: str) -> None:
        host_take_out(site_id=self.connection.site_id, name=name, reason="a fan has failed")

    def foreign(self, spec: ClusterSpec) -> None:
        name = f"{spec.external_name}-addon-gpu-operator"
        body = {"metadata": {"name": name}, "data": {"theirs": "yes"}}
        self.api.create(f"/api/v1/namespaces/{self.namespace}/configmaps", body)

    def too_many(self) -> int:
        return 9

    def gpus_held(self, spec: ClusterSpec) -> int:
        return sum(Host.objects.filter(cluster_id=spec.id).values_list("gpus", flat=True))

    def who(self, spec: ClusterSpec, access: Access) -> str:
        raise Unauthorized("this driver gives no credentials")
