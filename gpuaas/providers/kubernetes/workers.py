"""Pods that work for the main pod of an environment: they find it by a name, and one another, and nobody else gets in.

Each is a bare pod like the main one, with its label, so that the guards, the meter and the rules of the network know whose it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gpuaas.providers.base import EnvironmentSpec, workers_words
from gpuaas.providers.kubeapi import demand, names, pods
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes import inside

CONTAINER = "environment"
MAIN, WORKER = "main", "worker"


@dataclass(frozen=True)
class Seen:
    """running: how many do. missing: how many have no pod, or one that has ended. detail: "" where all run."""

    running: int
    missing: int
    detail: str


def find(api: Api, spec: EnvironmentSpec) -> list[Object]:
    """Nobody but the portal gives a pod these labels."""
    if spec.workers is None:
        return []
    selector = names.selector_text({names.ENVIRONMENT: str(spec.id), names.PART: WORKER})
    return api.items(inside.path(spec.workspace, "pods"), labelSelector=selector)


def seen(found: Iterable[Object], spec: EnvironmentSpec) -> Seen:
    """Pure."""
    there = {pod["metadata"]["name"]: pod for pod in found if not _is_over(pod)}
    waiting, running, missing = "", 0, 0
    for number, each in spec.of_workers().items():
        pod = there.get(each.name)
        if pod is not None and is_ready(pod):
            running += 1
            continue
        missing += pod is None
        waiting = waiting or f"worker {number}: {_waits_for(pod, each) if pod is not None else 'it is gone'}"
    count = len(spec.of_workers())
    words = f"{running} of {workers_words(count)} {'runs' if running == 1 else 'run'}; {waiting}"
    return Seen(running, missing, words if waiting else "")


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in demand.FINISHED


def _waits_for(pod: Object, worker: EnvironmentSpec) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "it is ending"
    container = inside.container_of(pod, CONTAINER)
    last = (container.get("lastState") or {}).get("terminated") or {}
    if last:
        how = f"{last.get('reason', 'it ended')}, exit code {last.get('exitCode')}"
        return f"its container has ended {container.get('restartCount')} times, last by {how}: read its log"
    waiting = inside.waiting_of(container)
    return inside.waits_for(waiting, worker) if waiting else pods.consumer(pod).waiting_for or "it starts"


# -- manifests -----------------------------------------------------------------------------------------------------


def labels_of_main(spec: EnvironmentSpec) -> dict[str, str]:
    return {names.ENVIRONMENT: str(spec.id), **({names.PART: MAIN} if spec.workers is not None else {})}


def main(spec: EnvironmentSpec, pod: Object) -> Object:
    """The main pod, under the name by which its workers know it. It knows that name itself before any server of names does."""
    if spec.workers is not None:
        pod["metadata"]["labels"] |= labels_of_main(spec)
        pod["spec"] |= {"hostname": spec.workers.host, "subdomain": spec.workers.host}
    return pod


def pod_of(worker: EnvironmentSpec, *, chooses_users: bool = True) -> Object:
    """Its home is the main pod's: a volume is attached to one node alone."""
    body = inside.pod_spec(
        worker, {"name": CONTAINER}, restart="Always", claims={}, chooses_users=chooses_users
    )
    made = inside.object_of(worker, names.ENVIRONMENT, "v1", "Pod", body)
    made["metadata"]["labels"][names.PART] = WORKER
    return made


def services_of(spec: EnvironmentSpec) -> list[Object]:
    """Without an address: it gives the main pod a name at all its ports, before it is ready too."""
    if spec.workers is None:
        return []
    body: Object = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels_of_main(spec)}
    return [_named(spec, spec.workers.host, "v1", "Service", body)]


def policies_of(spec: EnvironmentSpec) -> list[Object]:
    """Pods of the environment reach one another at any port."""
    if spec.workers is None:
        return []
    own: Object = {"podSelector": {"matchLabels": {names.ENVIRONMENT: str(spec.id)}}}
    body: Object = {
        **own,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [own]}],
        "egress": [{"to": [{"podSelector": {}}]}],
    }
    return [_named(spec, f"{spec.name}-workers", "networking.k8s.io/v1", "NetworkPolicy", body)]


def _named(spec: EnvironmentSpec, name: str, api: str, kind: str, body: Object) -> Object:
    made = inside.object_of(spec, names.ENVIRONMENT, api, kind, body)
    made["metadata"]["name"] = name
    return made
