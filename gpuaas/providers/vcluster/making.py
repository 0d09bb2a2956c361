"""What is done at the site to make a virtual cluster as it is wanted. What limits it stands before anything of it may act."""

import re

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import ClusterSpec, StepOutcome
from gpuaas.providers.kubernetes import ending, guards, pods, warden
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.kubernetes.ensure import Ensure
from gpuaas.providers.kubernetes.objects import put
from gpuaas.providers.kubernetes.suspend import GRACE_SECONDS
from gpuaas.providers.vcluster import manifests, names, roles, site
from gpuaas.providers.vcluster.settings import documents, settings_read

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
VERSIONS_APART = 3
MINOR = re.compile(r"v?(\d+)\.(\d+)")
DONE = StepOutcome(done=True)
SMALLER = "More runs in the cluster than its pools have GPUs for: the newest pods that do not fit are ended."


def control_plane(api: Api, spec: ClusterSpec) -> StepOutcome:
    """Raises Permanent for a release that is too far from the site's own. Its pods are made by the site's controllers."""
    _skew_check(api, spec)
    put(api, guards.CLUSTER_ROLES, roles.cluster_role())
    for collection, body in manifests.objects(spec, settings_read(spec.settings), _api_blocks(api)):
        api.apply(collection, body)
    settled = site.control_settled(api, spec)
    if not settled.done or site.observe(api, spec.ref).endpoint:
        return settled
    return StepOutcome(done=False, detail="it has not written its credentials yet")


def shares(api: Api, spec: ClusterSpec, ensure: Ensure) -> StepOutcome:
    """The whole quota as it is wanted, patched in place; then whoever no longer fits goes, the newest first."""
    if site.space_find(api, spec.ref) is None:
        raise NotFound("the cluster's namespace is not at the site; it has to be made again")
    for step in ("namespace", "quota", "limits", "confirm"):
        outcome = ensure.run(step)
        if not outcome.done:
            return outcome
    return _fit(api, spec)


def _fit(api: Api, spec: ClusterSpec) -> StepOutcome:
    """While pods come and go the site's quota can be outrun: what a syncer makes anew at once may be one too many."""
    surplus = site.surplus(api, spec.external_name)
    for one in surplus:
        warden.evict(api, names.space(spec.external_name), one, reason=SMALLER)
    if surplus:
        return StepOutcome(done=False, detail=f"pods that no longer fit are ended: {len(surplus)}")
    return DONE


def stop(api: Api, spec: ClusterSpec) -> StepOutcome:
    """Everything but the control plane, as politely as in a workspace. What has a controller inside is made again there, and waits
    for its share of the quota."""
    collection = site.path(spec.external_name, "pods")
    running = [
        pod for pod in _live(api, collection) if names.CONTROL not in pod["metadata"].get("labels", {})
    ]
    for pod in running:
        ending.end(api, collection, pod, seconds=GRACE_SECONDS)
    if running:
        return StepOutcome(done=False, detail=ending.in_words(running))
    return StepOutcome(done=True, detail="nothing runs any more")


def _live(api: Api, collection: str) -> list[Object]:
    phases = ",".join(f"status.phase!={phase}" for phase in pods.FINISHED)
    return api.items(collection, fieldSelector=phases)


def checks(api: Api, spec: ClusterSpec) -> StepOutcome:
    settled = site.control_settled(api, spec)
    if not settled.done:
        return settled
    fitting = _fit(api, spec)
    if not fitting.done:
        return fitting
    nodes = site.observe(api, spec.ref).nodes
    broken = next((node for node in nodes if not node.ready), None)
    if broken is not None:
        return StepOutcome(done=False, detail=f"{broken.name}: {broken.reason}")
    return StepOutcome(done=True, detail=f"{len(nodes) - spec.control_plane.count} shares are granted")


def addon(api: Api, spec: ClusterSpec, name: str) -> StepOutcome:
    """Applied through the virtual cluster's own API, which knows its kinds."""
    known = settings_read(spec.settings).addons
    if name not in known:
        raise Permanent(f"the template's settings do not say what the add-on {name} is")
    inside = site.inside(api, spec.ref)
    found = documents(known[name])
    for body in found:
        inside.apply(_collection(inside, body), body)
    return StepOutcome(done=True, detail=f"{len(found)} objects applied")


def _collection(inside: Api, body: Object) -> str:
    version = body["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for resource in inside.get(group)["resources"]:
        if resource["kind"] == body["kind"] and "/" not in resource["name"]:
            space = f"/namespaces/{body['metadata'].get('namespace', 'default')}"
            return f"{group}{space if resource['namespaced'] else ''}/{resource['name']}"
    raise Permanent(f"the cluster knows no {body['kind']} of {version}")


def _api_blocks(api: Api) -> list[str]:
    """Where the site's API server is: its endpoints, and the address of the service that stands before them."""
    found = [
        address
        for each in api.items_if_known(SLICES, labelSelector="kubernetes.io/service-name=kubernetes")
        for endpoint in each.get("endpoints") or []
        for address in endpoint.get("addresses") or []
    ]
    service = api.find("/api/v1/namespaces/default/services/kubernetes") or {}
    found += (service.get("spec") or {}).get("clusterIPs") or []
    return sorted(f"{one}/{128 if ':' in one else 32}" for one in set(found))


def _skew_check(api: Api, spec: ClusterSpec) -> None:
    """A syncer writes what its own release knows, the site's takes what it knows: too far apart, fields get lost unseen."""
    told = str(api.get("/version").get("gitVersion", ""))
    here, wanted = MINOR.match(told), MINOR.match(spec.release)
    if here is None or wanted is None:
        return
    apart = abs(int(wanted[2]) - int(here[2])) if wanted[1] == here[1] else VERSIONS_APART + 1
    if apart > VERSIONS_APART:
        raise Permanent(
            f"the site runs Kubernetes {told}: a virtual cluster of {spec.release} is more than "
            f"{VERSIONS_APART} minor versions away from it",
            detail={
                "evidence": [f"GET /version: {told}"],
                "next": "Choose a release that is nearer to the site's, or ask its operator to upgrade the site first.",
            },
        )
