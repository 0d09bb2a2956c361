"""Brings a cluster at the management cluster to its spec."""

from datetime import datetime

from gpuaas.core import clock
from gpuaas.core.errors import NoCapacity, NotFound, Permanent
from gpuaas.providers.base import ClusterNode, ClusterSpec, NodePool, StepOutcome
from gpuaas.providers.base.steps import still_going
from gpuaas.providers.clusterapi import conditions, manifests, names, progress, site
from gpuaas.providers.clusterapi.settings import ClassSettings
from gpuaas.providers.clusterapi.site import Seen
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.names import NAMESPACES

# of OpenStackServer: refused, or started but failed. Neither is retried by its controller
REFUSED = {"InstanceCreateFailed", "InstanceStateError"}
SERVERS = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/{}/openstackservers"


def order(api: Api, spec: ClusterSpec, settings: ClassSettings) -> StepOutcome:
    """Namespace and Cluster: the only step that makes them. Repeated for another project, it hands them over."""
    space = site.space_own(api, spec.ref)
    if space is not None and site.is_going(space):
        return still_going("namespace")
    _class_check(api, settings)
    wanted = manifests.namespace(spec)
    if space is None:
        api.create(NAMESPACES, wanted)
    elif not wanted["metadata"]["labels"].items() <= (space["metadata"].get("labels") or {}).items():
        api.apply(NAMESPACES, wanted)  # a cluster of a warm pool is handed over
    found = apply(api, spec, settings)
    if site.is_going(found):
        return still_going("cluster")
    return progress.order(site.seen_of(api, spec.ref, found))


def apply(api: Api, spec: ClusterSpec, settings: ClassSettings) -> Object:
    """Server-side apply: repeating it changes nothing. Webhooks refuse at once what the class does not allow."""
    wanted = manifests.cluster(spec, settings)
    try:
        return api.apply(names.clusters(spec.external_name), wanted)
    except Permanent as error:
        raise Permanent(
            f"the management cluster refuses the order: {error.message}",
            detail={
                "evidence": [f"Cluster/{spec.external_name}: {error.message}"],
                "next": "An operator must compare the template's settings with the variables and releases of its ClusterClass.",
            },
        ) from error


def pool(api: Api, seen: Seen, wanted: NodePool, settings: ClassSettings) -> StepOutcome:
    """Deletes refused and broken machines first; controllers then create the missing ones again."""
    _refused(api, seen, seen.machines_of(wanted.name), f"a worker of the pool {wanted.name}")
    for machine in seen.machines_of(wanted.name):
        if _is_lost(machine, settings):
            metadata = machine["metadata"]
            api.delete(f"{names.CORE}/namespaces/{metadata['namespace']}/machines/{metadata['name']}")
            return StepOutcome(done=False, detail=f"{metadata['name']} is broken and is being replaced")
    return progress.pool(seen, wanted)


def control_plane(api: Api, seen: Seen, spec: ClusterSpec) -> StepOutcome:
    _refused(api, seen, seen.control_machines, "a machine of the control plane")
    return progress.control_plane(seen, spec)


def addon(api: Api, spec: ClusterSpec, name: str, settings: ClassSettings) -> StepOutcome:
    manifests.addon_check(spec, name, settings)
    if settings.addons[name].variable:
        return StepOutcome(done=True, detail=f"{name} comes with the class")
    space = f"{NAMESPACES}/{spec.external_name}"
    data, chosen = manifests.addon_objects(spec, name, settings)
    api.apply(f"{space}/configmaps", data)
    sets = f"{names.ADDONS}/namespaces/{spec.external_name}/clusterresourcesets"
    made = api.apply(sets, chosen)
    binding = api.find(f"{sets.removesuffix('s')}bindings/{spec.external_name}")
    bound = (binding or {}).get("spec", {}).get("bindings") or []
    mine: Object = next(
        (one for one in bound if one["clusterResourceSetName"] == made["metadata"]["name"]), {}
    )
    resources = mine.get("resources") or []
    if resources and all(one.get("applied") for one in resources):
        return StepOutcome(done=True, detail=f"{name} is installed")
    troubles = conditions.troubles([{**made, "kind": "ClusterResourceSet"}])
    return StepOutcome(done=False, detail=troubles[0].sentence if troubles else f"{name} is being installed")


def node(machine: Object, prefix: str) -> ClusterNode:
    release = str(machine["spec"].get("version", "")).removeprefix("v")
    return ClusterNode(
        name=machine["metadata"]["name"],
        pool=site.pool_of(machine),
        release=prefix + release,
        ready=progress.is_ready(machine),
        reason=progress.reason_of(machine),
    )


def release_prefix(cluster: Object) -> str:
    """Releases are shown as they were ordered: with a v, or without."""
    release = (cluster["metadata"].get("annotations") or {}).get(names.RELEASE, "")
    return "v" if release.startswith("v") else ""


def _class_check(api: Api, settings: ClassSettings) -> None:
    """The API server only warns about a missing class, and the cluster would wait for it forever."""
    path = f"{names.CORE}/namespaces/{settings.namespace}/clusterclasses/{settings.name}"
    try:
        api.get(path)
    except NotFound as error:
        raise Permanent(
            f"the management cluster has no ClusterClass {settings.namespace}/{settings.name}",
            detail={
                "evidence": [error.message],
                "next": "An operator must install the class, or add a version of the template that names another.",
            },
        ) from error


def _refused(api: Api, seen: Seen, machines: list[Object], what: str) -> None:
    """Only the OpenStackServer shows that a cloud is full: Machine and Cluster would wait forever. Its machine is deleted,
    so that the next try asks the cloud again."""
    space = seen.cluster["metadata"]["namespace"]
    mine = {one["metadata"]["name"]: one for one in machines if not site.is_going(one)}
    for server in api.items_if_known(SERVERS.format(space)):
        condition = conditions.condition_of(server, "InstanceReady")
        name = server["metadata"]["name"]
        if condition.get("reason") not in REFUSED or name not in mine:
            continue
        finding = conditions.read("OpenStackServer", name, condition)
        api.delete(f"{names.CORE}/namespaces/{space}/machines/{name}")
        reason = conditions.answer(str(condition.get("message") or ""))
        raise NoCapacity(
            f"the cloud refuses {what}: {reason or 'its server is in the state ERROR, for example because no host has room'}",
            detail={
                "evidence": [finding.line],
                "next": "Retry when the cloud has room or its quota is raised, or scale the pool to fewer workers.",
            },
        )


def _is_lost(machine: Object, settings: ClassSettings) -> bool:
    """Whether its node is broken for longer than `repair_after`; a health check of the class takes precedence."""
    condition = conditions.condition_of(machine, "NodeHealthy")
    broken = condition.get("status") == "False" and condition.get("reason") in {
        "NodeNotHealthy",
        "NodeDeleted",
    }
    if not broken or site.is_going(machine) or conditions.condition_of(machine, "HealthCheckSucceeded"):
        return False
    since = datetime.fromisoformat(condition["lastTransitionTime"])
    return (clock.now() - since).total_seconds() >= settings.repair_after
