"""Brings a virtual cluster at the site to its spec. Its limits are in force before any part of it starts."""

import re

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import ClusterSpec, StepOutcome
from gpuaas.providers.base.steps import DONE
from gpuaas.providers.kubeapi import ending, guards, warden
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.ensure import Ensure
from gpuaas.providers.kubeapi.objects import put
from gpuaas.providers.vcluster import manifests, names, roles, site
from gpuaas.providers.vcluster.settings import documents, settings_read

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
VERSIONS_APART = 3
MINOR = re.compile(r"v?(\d+)\.(\d+)")
SMALLER = "The cluster's pods use more GPUs than its pools have: the newest pods that do not fit are ended."


def control_plane(api: Api, spec: ClusterSpec) -> StepOutcome:
    """Raises Permanent for a release that is too far from the site's own. The site's controllers create its pods."""
    _skew_check(api, spec)
    put(api, guards.CLUSTER_ROLES, roles.cluster_role())
    for collection, body in manifests.objects(spec, settings_read(spec.settings), _api_blocks(api)):
        api.apply(collection, body)
    settled = site.control_settled(api, spec)
    if not settled.done or site.observe(api, spec.ref).endpoint:
        return settled
    return StepOutcome(done=False, detail="it has not stored its credentials yet")


def shares(api: Api, spec: ClusterSpec, ensure: Ensure) -> StepOutcome:
    """Patch the whole quota in place; then end pods that no longer fit, newest first."""
    if site.space_find(api, spec.ref) is None:
        raise NotFound("the cluster's namespace is not at the site; it must be created again")
    for step in ("namespace", "quota", "limits", "confirm"):
        outcome = ensure.run(step)
        if not outcome.done:
            return outcome
    return _fit(api, spec)


def _fit(api: Api, spec: ClusterSpec) -> StepOutcome:
    """Ends surplus pods: while pods come and go they can exceed the site's quota, as when a syncer recreates one at once."""
    surplus = site.surplus(api, spec.external_name)
    for one in surplus:
        warden.evict(api, names.space(spec.external_name), one, reason=SMALLER)
    if surplus:
        return StepOutcome(done=False, detail=f"ending pods that no longer fit: {len(surplus)}")
    return DONE


def stop(api: Api, spec: ClusterSpec) -> StepOutcome:
    """End all pods but the control plane's, with the same grace as in a workspace. Controllers inside recreate theirs, which then
    wait for quota."""
    collection = site.path(spec.external_name, "pods")
    running = [
        pod for pod in ending.live(api, collection) if names.CONTROL not in pod["metadata"].get("labels", {})
    ]
    for pod in running:
        ending.end(api, collection, pod, seconds=ending.SUSPEND_GRACE_SECONDS)
    if running:
        return StepOutcome(done=False, detail=ending.in_words(running))
    return StepOutcome(done=True, detail="nothing is running any more")


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
    return StepOutcome(
        done=True, detail=f"{len(nodes) - spec.control_plane.count} shares of the quota are granted"
    )


def addon(api: Api, spec: ClusterSpec, name: str) -> StepOutcome:
    """Applied through the virtual cluster's own API, which serves their kinds."""
    known = settings_read(spec.settings).addons
    if name not in known:
        raise Permanent(f"the template does not define the add-on {name}")
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
    raise Permanent(f"the cluster does not serve {body['kind']} of {version}")


def _api_blocks(api: Api) -> list[str]:
    """Addresses of the site's API server: its endpoints and its service."""
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
    """With releases too far apart, fields that only one of the syncer and the site knows would be lost silently."""
    version = str(api.get("/version").get("gitVersion", ""))
    here, wanted = MINOR.match(version), MINOR.match(spec.release)
    if here is None or wanted is None:
        return
    apart = abs(int(wanted[2]) - int(here[2])) if wanted[1] == here[1] else VERSIONS_APART + 1
    if apart > VERSIONS_APART:
        raise Permanent(
            f"the site runs Kubernetes {version}: a virtual cluster of {spec.release} is more than "
            f"{VERSIONS_APART} minor versions away from it",
            detail={
                "evidence": [f"GET /version: {version}"],
                "next": "Choose a release closer to the site's, or ask its operator to upgrade the site first.",
            },
        )
