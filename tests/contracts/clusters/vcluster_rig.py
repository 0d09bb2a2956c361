"""Virtual clusters at the real API server of the lab, with a second real one inside of them; the syncer between is played."""

import re
import uuid
from dataclasses import replace

from deploy.lab.kubernetes import Lab
from gpuaas.core.errors import Unavailable
from gpuaas.core.ids import short
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
from gpuaas.providers.kubeapi.client import FIELD_MANAGER, Api
from gpuaas.providers.kubeapi.names import NAMESPACES, ORGANIZATION, PROJECT
from gpuaas.providers.vcluster import names, site
from gpuaas.providers.vcluster.driver import VirtualClusterDriver
from gpuaas.providers.vcluster.sweep import KINDS
from gpuaas.providers.vcluster.tenancy import gpus_in
from tests.contracts.clusters.rigs import ClusterRig
from tests.lab.fixtures import LabSite, until
from tests.providers.vcluster.play import PlayedSite

H100, MIG = "nvidia.com/gpu", "nvidia.com/mig-3g.20gb"
CLOSED = ("nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared")
ADDON = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: gpu-operator, namespace: kube-system}
data: {driver: "580"}
"""


class Forgetful(VirtualClusterDriver):
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


class VirtualRig(ClusterRig):
    old, new = "1.33.5", "1.34.0"
    names_everything = False

    def __init__(self, lab: LabSite, virtual: Lab) -> None:
        self.lab, self.api = lab, lab.api()
        inside = virtual.kubeconfig.read_text()
        self.address = virtual.server.removeprefix("https://")
        self.played = PlayedSite(self.api, Api(inside), inside)
        self.connection = replace(lab.connection(), site_slug="lab")
        self.lossy = Forgetful(self.connection)
        super().__init__(self.lossy)
        self.played.start()

    def close(self) -> None:
        self.played.stop()

    def spec(self, *, workers: int = 2) -> ClusterSpec:
        made = uuid.uuid4()
        spec = ClusterSpec(
            id=made,
            external_name=f"c-{short(made)}-train",
            project_slug="weather-lm",
            organization_slug="climate",
            kind=ClusterKind.KUBERNETES,
            release=self.old,
            control_plane=ControlPlane(1, 2, 4, 10),
            pools=(
                self._pool("gpu", workers, H100, "h100-sxm-80gb"),
                self._pool("other", 1, MIG, "a100-40gb-mig"),
            ),
            addons=("gpu-operator",),
            settings={"host": self.address, "addons": {"gpu-operator": ADDON}},
            closed=CLOSED,
        )
        self.played.clusters[spec.external_name] = spec
        return spec

    def _pool(self, name: str, count: int, resource: str, pool: str) -> NodePool:
        amount = FlavorAmount(f"{name}.2", count, 2, 8, 64, 100, resource, {"gpuaas.io/pool": pool})
        return NodePool(name, amount, self.old)

    def unreachable(self) -> ClusterDriver:
        nobody = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", self.lab.kubeconfig)
        return VirtualClusterDriver(replace(self.connection, credentials={"kubeconfig": nobody}))

    def answer_lost(self, change: Change, step: str) -> None:
        self.lossy.lost.add((change, step))

    def node_break(self, name: str) -> None:
        """Somebody at the site takes its share out of the quota."""
        spec = next(one for one in self.played.clusters.values() if name.startswith(one.external_name))
        path = site.path(spec.external_name, "resourcequotas")
        left = gpus_in(site.enforced(self.api, spec.external_name), H100) - 2
        self.api.merge(f"{path}/gpuaas", {"spec": {"hard": {f"requests.{H100}": str(left)}}})
        until(lambda: site.enforced(self.api, spec.external_name), "the site has taken it up")

    def foreign(self, spec: ClusterSpec) -> None:
        name = names.space(spec.external_name)
        self.api.create(NAMESPACES, {"metadata": {"name": name}})

    def too_many(self) -> int:
        return 0

    def gpus_held(self, spec: ClusterSpec) -> int:
        hard = site.enforced(self.api, spec.external_name)
        return sum(gpus_in(hard, each) for each in (H100, MIG, *CLOSED))

    def made_by_us(self, spec: ClusterSpec) -> set[tuple[str, str]]:
        """By the site's own record of who wrote what."""
        space = names.space(spec.external_name)
        found = {
            (kind, one["metadata"]["name"])
            for kind, place in KINDS
            for one in self.api.items_if_known(place.format(f"namespaces/{space}"))
            if any(each["manager"] == FIELD_MANAGER for each in one["metadata"].get("managedFields") or [])
        }
        there = self.api.items(NAMESPACES, labelSelector=f"{names.TAG}={spec.id}")
        return found | {("Namespace", one["metadata"]["name"]) for one in there}

    def owners(self, spec: ClusterSpec) -> set[tuple[str, str]]:
        labels = self.api.get(f"{NAMESPACES}/{names.space(spec.external_name)}")["metadata"]["labels"]
        return {(labels[PROJECT], labels[ORGANIZATION])}

    def who(self, spec: ClusterSpec, access: Access) -> str:
        api = Api(access.document)
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        found = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
        return str(found["status"]["userInfo"]["username"]).rsplit(":", 1)[-1]

    def demand(self, spec: ClusterSpec, pool: str, gpus: int) -> None:
        resource = next(one.flavor.resource_name for one in spec.pools if one.name == pool)
        for number in range(gpus):
            self.played.pod(spec, f"train-{number}", resource, 1)
