"""The simulated site."""

import uuid

import yaml

from gpuaas.providers.base import Driver, EnvironmentSpec, GpuAmount, WorkspaceSpec
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.drift import tamper
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.models import SandboxClaim, SandboxNamespace, SandboxNode, SandboxPod
from gpuaas.providers.sandbox.pods import foreign_namespace, pod_create, pod_delete, token_role
from tests.contracts.rigs.base import Rig, refusals


class SandboxRig(Rig):
    def __init__(self, driver: SandboxDriver, site_id: uuid.UUID) -> None:
        pool = next(pool for pool in driver.probe().pools if pool.kind.slug == "h100-sxm-80gb")
        gpu = GpuAmount(pool.resource_name, 2, pool.selector)
        super().__init__(driver, gpu=gpu, unsold="nvidia.com/mig-1g.5gb")
        self.site_id = site_id

    def _start(
        self,
        spec: WorkspaceSpec,
        name: str,
        credential: str,
        resource: str,
        gpus: int,
        run_seconds: int | None,
    ) -> None:
        token = yaml.safe_load(credential)["users"][0]["user"]["token"]
        pod_create(
            self.site_id, spec.external_name, name, gpus, run_seconds, resource_name=resource, token=token
        )

    def own(self, spec: WorkspaceSpec, kind: str, name: str, *, gpus: int = 1) -> None:
        token = yaml.safe_load(self.credential(spec))["users"][0]["user"]["token"]
        with refusals():
            pod_create(self.site_id, spec.external_name, name, gpus, owner=f"{kind}/{name}", token=token)

    def keep(self, spec: WorkspaceSpec) -> None:
        self._room = SandboxNamespace.objects.get(site=self.site_id, name=spec.external_name).pk

    def kept(self, spec: WorkspaceSpec) -> bool:
        """The simulated site has no disks: what a namespace holds is there as long as it is."""
        token = yaml.safe_load(self.credential(spec))["users"][0]["user"]["token"]
        token_role(self.site_id, spec.external_name, token)
        return SandboxNamespace.objects.filter(pk=self._room, gone_at=None).exists()

    def home(self, spec: EnvironmentSpec) -> str:
        found = SandboxClaim.objects.filter(namespace__site=self.site_id, name=spec.name).first()
        return str(found.pk) if found else ""

    def stop(self, spec: WorkspaceSpec, name: str) -> None:
        pod_delete(self.site_id, spec.external_name, name)

    def empty(self, spec: WorkspaceSpec) -> None:
        for pod in SandboxPod.objects.filter(
            namespace__site=self.site_id, namespace__name=spec.external_name
        ):
            pod_delete(self.site_id, spec.external_name, pod.name)

    def loosen(self, spec: WorkspaceSpec, gpus: int) -> None:
        resource = self.gpu.resource_name
        tamper(self.site_id, spec.external_name, "quota", resource=resource, hard=gpus)

    def foreign(self, name: str) -> None:
        foreign_namespace(self.site_id, name)

    def foreign_start(self, namespace: str, name: str, *, gpus: int) -> None:
        pod_create(self.site_id, namespace, name, gpus, resource_name=self.gpu.resource_name)
        SandboxPod.objects.filter(name=name).update(node=self._node, node_name=self._node.name)

    def foreign_quota(self, namespace: str, *, gpus: int) -> None:
        room = SandboxNamespace.objects.get(site=self.site_id, name=namespace)
        room.quotas.create(resource=self.gpu.resource_name, wanted=gpus, hard=gpus)

    def sites_own(self) -> None:
        foreign_namespace(self.site_id, self.sites_own_name)

    def uids(self, namespace: str) -> list[str]:
        pods = SandboxPod.objects.filter(namespace__site=self.site_id, namespace__name=namespace)
        return sorted(map(str, pods.values_list("uid", flat=True)))

    @property
    def _node(self) -> SandboxNode:
        """One of the pool that is bought from."""
        return next(
            node
            for node in SandboxNode.objects.filter(site=self.site_id)
            if all(node.labels.get(key) == value for key, value in self.gpu.selector.items())
        )

    def namespaces(self, name: str) -> int:
        self.driver.probe()
        return SandboxNamespace.objects.filter(site=self.site_id, name=name).count()

    def unreachable(self) -> Driver:
        dials_set(self.site_id, down=True)
        return self.driver

    def clean_up(self) -> None:
        """The test's transaction takes it all back."""
