"""Taking a cluster away: one deletion, and looking on while controllers carry it out, workers first.

Not in the foreground: the garbage collector would then take the network away before the machines in it, and those would
never go.
"""

from gpuaas.providers.base import ClusterRef, StepOutcome
from gpuaas.providers.clusterapi import conditions, names, site
from gpuaas.providers.clusterapi.sweep import sweep
from gpuaas.providers.kubernetes.client import Api, Object

DONE = StepOutcome(done=True)


def workers(api: Api, ref: ClusterRef) -> StepOutcome:
    return _machines(api, ref, control=False)


def control_plane(api: Api, ref: ClusterRef) -> StepOutcome:
    return _machines(api, ref, control=True)


def network(api: Api, ref: ClusterRef) -> StepOutcome:
    """What holds it up is said by the provider's own object alone."""
    found = _ask(api, ref)
    if found is None:
        return DONE
    infrastructure = site.infrastructure(api, found)
    told = conditions.troubles([infrastructure] if infrastructure else [])
    if not told:
        return _going(found, "the network is being taken away")
    return StepOutcome(done=False, detail=f"the network is being taken away: {told[0].sentence}")


def gone(api: Api, ref: ClusterRef) -> StepOutcome:
    """The namespace goes last, once controllers have nothing left in it: it takes whatever else is there along."""
    found = _ask(api, ref)
    if found is not None:
        return _going(found, "it is being taken away")
    space = site.space_find(api, ref)
    if space is None:
        return DONE
    left = [
        one
        for one in sweep(api, ref)
        if one.kind not in {"Namespace", "ConfigMap", "Secret", "ClusterResourceSet"}
    ]
    if left:
        some = ", ".join(f"{one.kind} {one.name}" for one in left[:3])
        return StepOutcome(done=False, detail=f"{len(left)} objects are still there: {some}")
    if not site.is_going(space):
        uid = {"preconditions": {"uid": space["metadata"]["uid"]}}
        api.delete(f"{names.NAMESPACES}/{ref.external_name}", uid)
    return StepOutcome(done=False, detail="its namespace is being taken away")


def _ask(api: Api, ref: ClusterRef) -> Object | None:
    """The Cluster, asked to go; None where it is gone."""
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
    told = conditions.troubles(left)
    going = next((one.sentence for one in told if one.step == conditions.GONE), "")
    return StepOutcome(
        done=False, detail=f"{len(left)} machines are still there" + (f": {going}" if going else "")
    )


def _going(found: Object, otherwise: str) -> StepOutcome:
    said = [one for one in conditions.troubles([{**found, "kind": "Cluster"}]) if one.step == conditions.GONE]
    return StepOutcome(done=False, detail=said[0].sentence if said else otherwise)
