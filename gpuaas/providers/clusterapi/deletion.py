"""Deletes a cluster with one request and reports while controllers carry it out, workers first.

Not in the foreground: the garbage collector would then delete the network before the machines in it, and those would
never go.
"""

from gpuaas.providers.base import ClusterRef, StepOutcome
from gpuaas.providers.base.steps import DONE, objects_left
from gpuaas.providers.clusterapi import conditions, names, site
from gpuaas.providers.clusterapi.sweep import sweep
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.names import NAMESPACES


def workers(api: Api, ref: ClusterRef) -> StepOutcome:
    return _machines(api, ref, control=False)


def control_plane(api: Api, ref: ClusterRef) -> StepOutcome:
    return _machines(api, ref, control=True)


def network(api: Api, ref: ClusterRef) -> StepOutcome:
    """What blocks it is reported by the provider's own object only."""
    found = _ask(api, ref)
    if found is None:
        return DONE
    infrastructure = site.infrastructure(api, found)
    troubles = conditions.troubles([infrastructure] if infrastructure else [])
    if not troubles:
        return _going(found, "the network is being deleted")
    return StepOutcome(done=False, detail=f"the network is being deleted: {troubles[0].sentence}")


def gone(api: Api, ref: ClusterRef) -> StepOutcome:
    """The namespace is deleted last, with everything else in it, once controllers have nothing left there."""
    found = _ask(api, ref)
    if found is not None:
        return _going(found, "it is being deleted")
    space = site.space_find(api, ref)
    if space is None:
        return DONE
    left = [
        one
        for one in sweep(api, ref)
        if one.kind not in {"Namespace", "ConfigMap", "Secret", "ClusterResourceSet"}
    ]
    if left:
        return objects_left(left)
    if not site.is_going(space):
        uid = {"preconditions": {"uid": space["metadata"]["uid"]}}
        api.delete(f"{NAMESPACES}/{ref.external_name}", uid)
    return StepOutcome(done=False, detail="its namespace is being deleted")


def _ask(api: Api, ref: ClusterRef) -> Object | None:
    """Request the Cluster's deletion; returns it, or None once it is gone."""
    found = site.cluster_find(api, ref)
    if found is not None and not site.is_going(found):
        path = f"{names.clusters(ref.external_name)}/{ref.external_name}"
        uid = {"preconditions": {"uid": found["metadata"]["uid"]}}
        api.delete(path, uid)
        return site.cluster_find(api, ref)
    return found


def _machines(api: Api, ref: ClusterRef, *, control: bool) -> StepOutcome:
    found = _ask(api, ref)
    if found is None:
        return DONE
    seen = site.seen_of(api, ref, found)
    left = seen.machines if control else [one for one in seen.machines if site.pool_of(one)]
    if not left:
        return DONE
    going = next((one.sentence for one in conditions.troubles(left) if one.step == conditions.GONE), "")
    return StepOutcome(
        done=False, detail=f"{len(left)} machines are still there" + (f": {going}" if going else "")
    )


def _going(found: Object, otherwise: str) -> StepOutcome:
    going = [
        one for one in conditions.troubles([{**found, "kind": "Cluster"}]) if one.step == conditions.GONE
    ]
    return StepOutcome(done=False, detail=going[0].sentence if going else otherwise)
