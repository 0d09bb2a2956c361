"""What the contract suite needs of a driver's site beside the driver: to act as its tenants, and to break it."""

import contextlib
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import yaml

from gpuaas.core.errors import GpuaasError, Unavailable
from gpuaas.core.ids import short
from gpuaas.providers.base import (
    AdoptionCapability,
    Driver,
    GpuAmount,
    Member,
    StepOutcome,
    WorkspaceRef,
    WorkspaceSpec,
)
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.drift import tamper
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxNode, SandboxPod
from gpuaas.providers.sandbox.pods import foreign_namespace, pod_create, pod_delete, token_role
from tests.lab.fixtures import LabSite, until

ALICE = Member(subject="u-alice", name="alice", role="admin")
BOB = Member(subject="u-bob", name="bob", role="edit")
CHARLIE = Member(subject="u-charlie", name="charlie", role="view")


class Refused(Exception):
    """The site said no to the tenant, in these words."""


class Rig(ABC):
    """A driver, its site, and tenants with the credentials that the driver gave them."""

    def __init__(self, driver: KubernetesDriver | SandboxDriver, *, gpu: GpuAmount, unsold: str) -> None:
        self.driver = driver
        self.gpu = gpu
        self.unsold = unsold
        self._kubeconfigs: dict[tuple[str, str], str] = {}

    def spec(self, *, gpus: int = 2, members: tuple[Member, ...] = (ALICE, BOB)) -> WorkspaceSpec:
        made = uuid.uuid4()
        return WorkspaceSpec(
            id=made,
            external_name=f"gpu-{short(made)}-contract",
            project_slug=f"weather-{short(made)}",  # on OpenShift a wall around each project
            organization_slug="climate",
            gpus=(replace(self.gpu, count=gpus),),
            vcpus=32,
            memory_gib=128,
            storage_gib=10,
            members=members,
            closed=(self.unsold,),
        )

    def resized(self, spec: WorkspaceSpec, gpus: int) -> WorkspaceSpec:
        return replace(spec, gpus=(replace(self.gpu, count=gpus),))

    def kubeconfig(self, spec: WorkspaceSpec, member: Member = ALICE) -> str:
        """Asked for once and kept, as people keep theirs."""
        key = (spec.external_name, member.subject)
        if key not in self._kubeconfigs:
            access = self.driver.issue_access(ref(spec), member, lifetime=timedelta(hours=1))
            self._kubeconfigs[key] = access.document
        return self._kubeconfigs[key]

    def forget(self, spec: WorkspaceSpec, member: Member) -> None:
        """The next one is asked for anew."""
        self._kubeconfigs.pop((spec.external_name, member.subject), None)

    def start(
        self,
        spec: WorkspaceSpec,
        name: str,
        *,
        gpus: int = 1,
        run_seconds: int | None = None,
        resource: str = "",
        member: Member = ALICE,
    ) -> None:
        with _refusals():
            self._start(
                spec,
                name,
                self.kubeconfig(spec, member),
                resource or self.gpu.resource_name,
                gpus,
                run_seconds,
            )

    @abstractmethod
    def _start(
        self,
        spec: WorkspaceSpec,
        name: str,
        kubeconfig: str,
        resource: str,
        gpus: int,
        run_seconds: int | None,
    ) -> None: ...

    @abstractmethod
    def own(self, spec: WorkspaceSpec, kind: str, name: str, *, gpus: int = 1) -> None:
        """The tenant makes a Deployment or a Job of one pod."""

    @abstractmethod
    def keep(self, spec: WorkspaceSpec) -> None:
        """The tenant leaves data there."""

    @abstractmethod
    def kept(self, spec: WorkspaceSpec) -> bool:
        """Whether that data is there still, read with the tenant's own credential."""

    @abstractmethod
    def stop(self, spec: WorkspaceSpec, name: str) -> None: ...

    @abstractmethod
    def loosen(self, spec: WorkspaceSpec, gpus: int) -> None:
        """The site's own administrator allows another number of GPUs, behind the portal's back."""

    @abstractmethod
    def foreign(self, name: str) -> None:
        """Somebody else makes a namespace of this name."""

    @abstractmethod
    def foreign_start(self, namespace: str, name: str, *, gpus: int) -> None:
        """Somebody else starts a pod in their own namespace; returns when it runs."""

    @abstractmethod
    def foreign_quota(self, namespace: str, *, gpus: int) -> None:
        """Somebody else has a quota of their own there."""

    @abstractmethod
    def sites_own(self, name: str) -> None:
        """The site has this namespace for itself."""

    @abstractmethod
    def uids(self, namespace: str) -> list[str]:
        """Of the pods there, whosever they are."""

    @abstractmethod
    def namespaces(self, name: str) -> int:
        """How many namespaces of this name the site has, whosever they are."""

    @abstractmethod
    def unreachable(self) -> Driver:
        """A driver whose site does not answer."""

    @abstractmethod
    def clean_up(self) -> None: ...


def ref(spec: WorkspaceSpec) -> WorkspaceRef:
    return WorkspaceRef(spec.id, spec.external_name)


def ensure_step(driver: Driver, spec: WorkspaceSpec, key: str) -> None:
    """Asks until it is done, as the reconciler does."""
    until(lambda: _done(driver.ensure, spec, key), f"step {key} of ensure")


def release_step(driver: Driver, spec: WorkspaceSpec, key: str) -> None:
    until(lambda: _done(driver.release, ref(spec), key), f"step {key} of release")


def adopt(driver: AdoptionCapability, spec: WorkspaceSpec) -> None:
    until(lambda: _done(lambda spec, _: driver.adopt(spec), spec, ""), "it is taken over")


def _done(verb: Callable[[Any, str], StepOutcome], given: WorkspaceSpec | WorkspaceRef, key: str) -> bool:
    """A site that is busy with others is asked again."""
    with contextlib.suppress(Unavailable):
        return verb(given, key).done
    return False


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except Unavailable:
        raise
    except GpuaasError as error:
        raise Refused(error.message) from error


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
        kubeconfig: str,
        resource: str,
        gpus: int,
        run_seconds: int | None,
    ) -> None:
        token = yaml.safe_load(kubeconfig)["users"][0]["user"]["token"]
        pod_create(
            self.site_id, spec.external_name, name, gpus, run_seconds, resource_name=resource, token=token
        )

    def own(self, spec: WorkspaceSpec, kind: str, name: str, *, gpus: int = 1) -> None:
        token = yaml.safe_load(self.kubeconfig(spec))["users"][0]["user"]["token"]
        with _refusals():
            pod_create(self.site_id, spec.external_name, name, gpus, owner=f"{kind}/{name}", token=token)

    def keep(self, spec: WorkspaceSpec) -> None:
        self._room = SandboxNamespace.objects.get(site=self.site_id, name=spec.external_name).pk

    def kept(self, spec: WorkspaceSpec) -> bool:
        """The simulated site has no disks: what a namespace holds is there as long as it is."""
        token = yaml.safe_load(self.kubeconfig(spec))["users"][0]["user"]["token"]
        token_role(self.site_id, spec.external_name, token)
        return SandboxNamespace.objects.filter(pk=self._room, gone_at=None).exists()

    def stop(self, spec: WorkspaceSpec, name: str) -> None:
        pod_delete(self.site_id, spec.external_name, name)

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

    def sites_own(self, name: str) -> None:
        foreign_namespace(self.site_id, name)

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


class KubernetesRig(Rig):
    def __init__(self, lab: LabSite) -> None:
        gpu = GpuAmount("nvidia.com/gpu", 2, {"gpuaas.io/pool": "h100-sxm-80gb"})
        super().__init__(lab.driver(), gpu=gpu, unsold="nvidia.com/mig-1g.5gb")
        self._lab = lab
        self._api = lab.api()
        self._made: set[str] = set()

    def spec(self, *, gpus: int = 2, members: tuple[Member, ...] = (ALICE, BOB)) -> WorkspaceSpec:
        made = super().spec(gpus=gpus, members=members)
        self._made.add(made.external_name)
        return made

    def _start(
        self,
        spec: WorkspaceSpec,
        name: str,
        kubeconfig: str,
        resource: str,
        gpus: int,
        run_seconds: int | None,
    ) -> None:
        body = pod(name, {resource: str(gpus)}, run_seconds=run_seconds)
        Api(kubeconfig).create(f"/api/v1/namespaces/{spec.external_name}/pods", body)

    def own(self, spec: WorkspaceSpec, kind: str, name: str, *, gpus: int = 1) -> None:
        api = Api(self.kubeconfig(spec))
        with _refusals():
            api.create(*workload(spec.external_name, kind, name, {self.gpu.resource_name: str(gpus)}))

    def keep(self, spec: WorkspaceSpec) -> None:
        api, space = Api(self.kubeconfig(spec)), f"/api/v1/namespaces/{spec.external_name}"
        api.create(f"{space}/configmaps", {"metadata": {"name": "notes"}, "data": {"epoch": "7"}})
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        api.create(f"{space}/persistentvolumeclaims", {"metadata": {"name": "disk"}, "spec": claim})

    def kept(self, spec: WorkspaceSpec) -> bool:
        api, space = Api(self.kubeconfig(spec)), f"/api/v1/namespaces/{spec.external_name}"
        disk = api.get(f"{space}/persistentvolumeclaims/disk")
        notes = api.get(f"{space}/configmaps/notes")
        return "deletionTimestamp" not in disk["metadata"] and bool(notes["data"] == {"epoch": "7"})

    def stop(self, spec: WorkspaceSpec, name: str) -> None:
        self._api.delete(f"/api/v1/namespaces/{spec.external_name}/pods/{name}")

    def loosen(self, spec: WorkspaceSpec, gpus: int) -> None:
        change = {"spec": {"hard": {f"requests.{self.gpu.resource_name}": str(gpus)}}}
        path = f"/api/v1/namespaces/{spec.external_name}/resourcequotas/gpuaas"
        self._api.merge(path, change, fieldManager="kubectl-edit")

    def foreign(self, name: str) -> None:
        self._made.add(name)
        self._api.create("/api/v1/namespaces", {"metadata": {"name": name}})

    def foreign_start(self, namespace: str, name: str, *, gpus: int) -> None:
        tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        body = pod(
            name,
            {self.gpu.resource_name: str(gpus), "cpu": "1"},
            tolerations=tolerations,
            nodeSelector=dict(self.gpu.selector),
        )
        pods = f"/api/v1/namespaces/{namespace}/pods"
        self._api.create(pods, body)
        until(lambda: self._api.get(f"{pods}/{name}")["status"].get("phase") == "Running", f"{name} runs")

    def foreign_quota(self, namespace: str, *, gpus: int) -> None:
        hard = {f"requests.{self.gpu.resource_name}": str(gpus)}
        body = {"metadata": {"name": "team"}, "spec": {"hard": hard}}
        self._api.create(f"/api/v1/namespaces/{namespace}/resourcequotas", body)

    def sites_own(self, name: str) -> None:
        assert self._api.find(f"/api/v1/namespaces/{name}")

    def uids(self, namespace: str) -> list[str]:
        return sorted(
            one["metadata"]["uid"] for one in self._api.items(f"/api/v1/namespaces/{namespace}/pods")
        )

    def namespaces(self, name: str) -> int:
        found = self._api.find(f"/api/v1/namespaces/{name}")
        return int(found is not None and "deletionTimestamp" not in found["metadata"])

    def unreachable(self) -> Driver:
        connection = self._lab.connection()
        nobody = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", self._lab.kubeconfig)
        return KubernetesDriver(replace(connection, credentials={"kubeconfig": nobody}))

    def clean_up(self) -> None:
        for name in self._made:
            self._api.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds="0")
            self._api.delete(f"/api/v1/namespaces/{name}")


def pod(name: str, limits: dict[str, str], *, run_seconds: int | None = None, **spec: object) -> Object:
    run = {"lab.gpuaas.io/run": f"{run_seconds}s"} if run_seconds is not None else {}
    container = {"name": "main", "image": "cuda", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": run},
        "spec": {"containers": [container], **spec},
    }


def workload(
    namespace: str, kind: str, name: str, limits: dict[str, str], *, replicas: int = 1
) -> tuple[str, Object]:
    """Where to create it, and what."""
    labels = {"app": name}
    made = pod(name, limits)
    made["metadata"] = {"labels": labels}
    if kind == "Job":
        made["metadata"]["annotations"] = {"lab.gpuaas.io/run": "3600s"}
        made["spec"]["restartPolicy"] = "Never"
        spec = {"template": made, "backoffLimit": 0, "parallelism": replicas, "completions": replicas}
        group = "batch/v1"
    else:
        spec = {"template": made, "replicas": replicas, "selector": {"matchLabels": labels}}
        group = "apps/v1"
    path = f"/apis/{group}/namespaces/{namespace}/{kind.lower()}s"
    return path, {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec}
