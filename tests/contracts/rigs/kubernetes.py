"""A real control plane: with simulated nodes, or with one whose pods really run."""

import re
from dataclasses import replace
from functools import partial
from typing import ClassVar

from deploy.lab.node import images
from gpuaas.providers.base import Driver, EnvironmentSpec, GpuAmount, JobSpec, Member, WorkspaceSpec
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from tests.contracts.rigs.base import ALICE, BOB, Rig, refusals
from tests.lab.fixtures import LabSite, in_the_end, until

TOOLS = images.reference("busybox")  # which only a kubelet that is real looks for


# which devices it got, and what its home has, where it answers
# the first process of a container gets no signal that it has no trap for: it would be waited for until its grace is over
SERVES = (
    "trap exit TERM; mkdir -p /tmp/www && echo it answers > /tmp/www/index.html && echo $NVIDIA_VISIBLE_DEVICES && "
    "httpd -f -p 8888 -h /tmp/www & wait"
)


class KubernetesRig(Rig):
    pool = "h100-sxm-80gb"
    at_once: ClassVar[dict[str, str]] = {
        "gracePeriodSeconds": "0"
    }  # there is no container that would have to end

    def __init__(self, lab: LabSite) -> None:
        gpu = GpuAmount("nvidia.com/gpu", 2, {"gpuaas.io/pool": self.pool})
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
        credential: str,
        resource: str,
        gpus: int,
        run_seconds: int | None,
    ) -> None:
        body = pod(name, {resource: str(gpus)}, run_seconds=run_seconds)
        pods = f"/api/v1/namespaces/{spec.external_name}/pods"
        in_the_end(
            lambda: Api(credential).create(pods, body)
        )  # the site may be counting into the quota itself

    def own(self, spec: WorkspaceSpec, kind: str, name: str, *, gpus: int = 1) -> None:
        api = Api(self.credential(spec))
        with refusals():
            wanted = workload(spec.external_name, kind, name, {self.gpu.resource_name: str(gpus)})
            in_the_end(lambda: api.create(*wanted))

    def keep(self, spec: WorkspaceSpec) -> None:
        api, space = Api(self.credential(spec)), f"/api/v1/namespaces/{spec.external_name}"
        api.create(f"{space}/configmaps", {"metadata": {"name": "notes"}, "data": {"epoch": "7"}})
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        api.create(f"{space}/persistentvolumeclaims", {"metadata": {"name": "disk"}, "spec": claim})

    def kept(self, spec: WorkspaceSpec) -> bool:
        api, space = Api(self.credential(spec)), f"/api/v1/namespaces/{spec.external_name}"
        disk = api.get(f"{space}/persistentvolumeclaims/disk")
        notes = api.get(f"{space}/configmaps/notes")
        return "deletionTimestamp" not in disk["metadata"] and bool(notes["data"] == {"epoch": "7"})

    def environment(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        self._api.create("/api/v1/persistentvolumes", volume_for(spec))
        return replace(spec, image=TOOLS, command=("sh", "-c", SERVES))

    def home(self, spec: EnvironmentSpec) -> str:
        space = f"/api/v1/namespaces/{spec.workspace.external_name}"
        found = self._api.find(f"{space}/persistentvolumeclaims/{spec.name}")
        return str(found["metadata"]["uid"]) if found else ""

    def job(self, spec: JobSpec) -> JobSpec:
        return replace(spec, image=TOOLS)

    def stop(self, spec: WorkspaceSpec, name: str) -> None:
        self._api.delete(f"/api/v1/namespaces/{spec.external_name}/pods/{name}")

    def empty(self, spec: WorkspaceSpec) -> None:
        space = f"/api/v1/namespaces/{spec.external_name}"
        self._api.delete(f"{space}/pods", body=None, **self.at_once)
        until(lambda: not self._api.items(f"{space}/pods"), "its pods are gone")
        until(lambda: not any(self._counted(space)), "its quota counts nothing")

    def _counted(self, space: str) -> list[int]:
        """GPUs that a quota of the workspace counts as used."""
        return [
            int(amount)
            for quota in self._api.items(f"{space}/resourcequotas")
            for name, amount in quota.get("status", {}).get("used", {}).items()
            if name == f"requests.{self.gpu.resource_name}"
        ]

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

    def sites_own(self) -> None:
        assert self._api.find(f"/api/v1/namespaces/{self.sites_own_name}")

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
            self._api.delete(f"/api/v1/namespaces/{name}/pods", body=None, **self.at_once)
            self._api.delete(f"/api/v1/namespaces/{name}")


class RealPodsRig(KubernetesRig):
    """Of four GPUs in all, which the next test can have only when the containers of this one have ended."""

    pool = "l4-24gb"
    build_seconds = 10
    at_once: ClassVar[dict[str, str]] = {}

    def environment(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        """Its pods reserve no vCPU: the node has those of this machine, which may be fewer than its GPUs."""
        return replace(super().environment(spec), vcpus=0)

    def job(self, spec: JobSpec) -> JobSpec:
        return replace(super().job(spec), vcpus=0)

    def clean_up(self) -> None:
        for name in self._made:
            self._api.delete(f"/api/v1/namespaces/{name}")  # first, or what a Deployment lost would come back
        for name in self._made:
            until(
                partial(self._is_empty, f"/api/v1/namespaces/{name}/pods"), f"the pods of {name} have ended"
            )

    def _is_empty(self, pods: str) -> bool:
        return not self._api.items(pods)


def volume_for(spec: EnvironmentSpec) -> Object:
    """What a class of storage would make for the home: these sites have none."""
    return {
        "metadata": {"name": spec.name},
        "spec": {
            "capacity": {"storage": f"{spec.home_gib}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": f"/tmp/{spec.name}", "type": "DirectoryOrCreate"},
            "claimRef": {"namespace": spec.workspace.external_name, "name": spec.name},
        },
    }


def pod(name: str, limits: dict[str, str], *, run_seconds: int | None = None, **spec: object) -> Object:
    run = {"lab.gpuaas.io/run": f"{run_seconds}s"} if run_seconds is not None else {}
    lasts = "trap exit TERM; sleep 86400 & wait" if run_seconds is None else f"sleep {run_seconds}"
    container = {
        "name": "main",
        "image": TOOLS,
        "command": ["sh", "-c", lasts],
        "resources": {"limits": limits},
    }
    ends = {} if run_seconds is None else {"restartPolicy": "Never"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": run},
        "spec": {"containers": [container], **ends, **spec},
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
