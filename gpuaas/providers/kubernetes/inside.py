"""What environments and jobs share: where they are, how their objects are made, and as what their containers run."""

import base64
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from gpuaas.core.errors import NotFound, Permanent, QuotaRefused
from gpuaas.providers import base
from gpuaas.providers.base.steps import Provisioner
from gpuaas.providers.kubeapi import names, namespaces, pods, release, spot
from gpuaas.providers.kubeapi.client import Api, Object

# waiting does not help: something of the image or the definition is wrong
HOPELESS = {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
LOG_BYTES = 200_000
SHARED_MEMORY = "shared-memory"
InsideSpec = base.EnvironmentSpec | base.JobSpec
SpecT = TypeVar("SpecT", base.EnvironmentSpec, base.JobSpec)


class Inside(Provisioner[SpecT]):
    """changes: with their steps. Where the namespace is gone, those of a deletion have nothing to do."""

    name = "kubernetes"
    changes: ClassVar[Mapping[base.Change, tuple[base.StepSpec, ...]]]

    def __init__(self, connection: base.Connection, api: Api, *, chooses_users: bool) -> None:
        super().__init__(connection)
        self._api, self._chooses_users = api, chooses_users

    def steps(self, change: base.Change, spec: SpecT) -> tuple[base.StepSpec, ...]:
        del spec
        return self.changes[change]

    def perform(self, change: base.Change, spec: SpecT, step: str) -> base.StepOutcome:
        deeds = self.deeds()
        do = base.step_require({each.key: deeds[each] for each in self.changes[change]}, step)
        if is_there(self._api, spec.workspace):
            return do(spec)
        if step in {each.key for each in self.changes[base.Change.DELETE]}:
            return base.StepOutcome(done=True, detail="nothing of it is at the site")
        raise NotFound(f"the namespace {spec.workspace.external_name} is not at the site")

    @abstractmethod
    def deeds(self) -> Mapping[base.StepSpec, Callable[[SpecT], base.StepOutcome]]:
        """What each step does in the namespace."""


def is_there(api: Api, workspace: base.WorkspaceRef) -> bool:
    """Whether its namespace is, and stays."""
    found = namespaces.only_ours(api, workspace.external_name, workspace.id)
    return found is not None and not namespaces.is_terminating(found)


def path(workspace: base.WorkspaceRef, plural: str, group: str = "/api/v1") -> str:
    return f"{group}/namespaces/{workspace.external_name}/{plural}"


def create(api: Api, collection: str, body: Object) -> None:
    """The site's refusal of a quota that is used up is said in our words."""
    _refused(api.create, collection, body)


def apply(api: Api, collection: str, body: Object) -> None:
    """The same; one of ours that is there already becomes as `body` has it."""
    _refused(api.apply, collection, body)


def _refused(write: Callable[[str, Object], Object], collection: str, body: Object) -> None:
    try:
        write(collection, body)
    except Permanent as error:
        if "exceeded quota" not in error.message:
            raise
        raise QuotaRefused(pods.refusal_in_words(error.message)) from error


# -- manifests -----------------------------------------------------------------------------------------------------


def object_of(spec: InsideSpec, label: str, api: str, kind: str, body: Object) -> Object:
    """Without the label of the workspace: the steps of that delete what has it and is not theirs."""
    labels = {names.MANAGED_BY: names.MANAGER, label: str(spec.id)}
    metadata = {"name": spec.name, "namespace": spec.workspace.external_name, "labels": labels}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": body}


def secret_of(spec: base.JobSpec, job: Object, files: Mapping[str, str]) -> Object:
    """What the pods of a Job wait for; the site deletes it with the job that it belongs to, if the portal does not."""
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    made = object_of(spec, names.JOB, "v1", "Secret", {})
    made["metadata"]["ownerReferences"] = [owner]
    data = {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
    return {**{key: each for key, each in made.items() if key != "spec"}, "type": "Opaque", "data": data}


def pod_spec(
    spec: InsideSpec,
    container: Object,
    *,
    restart: str,
    claims: Mapping[str, tuple[str, str]],
    chooses_users: bool,
) -> Object:
    """Under Pod Security's `restricted`, without a token, and with exactly the GPUs that it asks for.

    container: what it has besides; its name at least. claims: by the name of the volume, that of the claim and where it is
    mounted. chooses_users: False where the site chooses the account itself.
    """
    mounts = [{"name": name, "mountPath": path} for name, (_, path) in claims.items()]
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, (claim, _) in claims.items()
    ]
    context: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if chooses_users:
        context |= {"runAsUser": spec.user, "fsGroup": spec.user, "fsGroupChangePolicy": "OnRootMismatch"}
    container = {
        **container,
        "image": spec.image,
        "env": [{"name": key, "value": value} for key, value in spec.variables.items()],
        "resources": _resources(spec),
        "securityContext": CONTAINER_SECURITY,
        # what processes of one program share; its memory counts as the container's
        "volumeMounts": [*mounts, {"name": SHARED_MEMORY, "mountPath": "/dev/shm"}],  # noqa: S108
        **({"command": list(spec.command)} if spec.command else {}),
        **({"args": list(spec.arguments)} if spec.arguments else {}),
    }
    return {
        "containers": [container],
        "restartPolicy": restart,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **(spot.pod_fields(spec.notice_seconds) or {"terminationGracePeriodSeconds": release.GRACE_SECONDS}),
        "securityContext": context,
        "volumes": [*volumes, {"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory"}}],
    }


def job_pod(spec: base.JobSpec, name: str, *, chooses_users: bool) -> Object:
    """Of one container of that name, which runs once."""
    claims = {f"volume{at or ''}": (claim, place) for at, (claim, place) in enumerate(spec.volumes.items())}
    made = pod_spec(spec, {"name": name}, restart="Never", claims=claims, chooses_users=chooses_users)
    if spec.grace_seconds:
        made["terminationGracePeriodSeconds"] = spec.grace_seconds
    return made


def grace_of(spec: base.JobSpec) -> int:
    """Seconds after SIGTERM for a pod of it."""
    return spec.grace_seconds or release.GRACE_SECONDS


def _resources(spec: InsideSpec) -> Object:
    """Requests and limits alike."""
    amounts = {"cpu": str(spec.vcpus), "memory": f"{spec.memory_gib}Gi"}
    amounts |= {spec.resource_name: str(spec.gpus)} if spec.gpus else {}
    return {"limits": amounts, "requests": amounts}


# -- what is there -------------------------------------------------------------------------------------------------


def container_of(pod: Object, name: str) -> Object:
    """Its status; empty while there is none."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return next((each for each in statuses if each["name"] == name), {})


def waiting_of(container: Object) -> Object:
    """ContainerCreating is no reason, but the beginning."""
    found: Object = (container.get("state") or {}).get("waiting") or {}
    return found if found.get("reason") != "ContainerCreating" else {}


def waits_for(waiting: Object, spec: InsideSpec) -> str:
    """waiting: as `waiting_of` finds it."""
    return f"{waiting.get('reason')}: {waiting.get('message', spec.image)}"[:300]
