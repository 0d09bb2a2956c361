"""Writes the rules to a site, once for all workspaces: reads first, and writes only what differs."""

import json
import time
from collections.abc import Iterable, Mapping

from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Api, Object, Outdated
from gpuaas.providers.kubeapi.guards import (
    claims,
    kinds,
    mutations,
    objects,
    pods,
    queues,
    roles,
    spot,
    training,
)
from gpuaas.providers.kubeapi.guards.site import Site
from gpuaas.providers.kubeapi.objects import extras, put
from gpuaas.providers.kubeapi.served import BELIEVED

# annotations to which every portal at the site adds itself, on each policy so that losing one loses nothing
_PORTALS = f"{names.DOMAIN}/portals"
_ADOPTED = f"{names.DOMAIN}/adopted"
_SCHEDULERS = f"{names.DOMAIN}/schedulers"
OURS = f"{names.MANAGED_BY}={names.MANAGER}"
LOOKS = 5
_seen: dict[str, tuple[float, tuple[str, ...]]] = {}

Found = dict[tuple[str, str], Object]


def install(api: Api, schedulers: tuple[str, ...] | None = None) -> Site:
    """Idempotent; writes nothing if nothing differs. `schedulers`: what this portal allows there besides the default one; None: as
    before. Retries on conflicts, since the site itself updates a policy's status
    right after its creation; raises Unavailable if the conflicts persist.
    """
    for _ in range(LOOKS - 1):
        try:
            return _install(api, schedulers)
        except Outdated:
            continue
    return _install(api, schedulers)


def _install(api: Api, schedulers: tuple[str, ...] | None) -> Site:
    version = _mutating_version(api)
    found = _found(api, version)
    site = _site(api, found, schedulers)
    for collection, body in _wanted(site, version):
        present = found.get((collection, body["metadata"]["name"]))
        if present is None or not _stands(present, body):
            _write(api, collection, body, present)
    _seen[api.server] = (time.monotonic(), site.adopted)
    return site


def covers(api: Api, namespace: str) -> bool:
    """Whether this process saw recently that all rules are in place and cover this namespace."""
    at, adopted = _seen.get(api.server, (float("-inf"), ()))
    fresh = time.monotonic() - at < BELIEVED
    return fresh and (names.is_workspace_namespace(namespace) or namespace in adopted)


def forget(api: Api) -> None:
    _seen.pop(api.server, None)


def can_add(api: Api) -> bool:
    """Whether the site serves mutating policies."""
    return bool(_mutating_version(api))


def site_objects(api: Api, schedulers: tuple[str, ...] | None = None) -> list[tuple[str, Object]]:
    """Our desired objects of the whole site, each with its collection; writes nothing. `schedulers`: as for `install`."""
    version = _mutating_version(api)
    return _wanted(_site(api, _found(api, version), schedulers), version)


def whoami(api: Api) -> str:
    review = api.create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    return str(review["status"]["userInfo"]["username"])


def device_classes(api: Api) -> dict[str, str]:
    """Device class → resource name, for all classes of the site; empty where it has no DRA."""
    return {
        (name := item["metadata"]["name"]): names.resource_of(name, item["spec"].get("extendedResourceName"))
        for item in api.items_if_known("/apis/resource.k8s.io/v1/deviceclasses")
    }


def _wanted(site: Site, version: str) -> list[tuple[str, Object]]:
    """The policy for pods comes last: once it acts, the others do."""
    policies = [
        *objects.policies(site),
        *claims.policies(site),
        *queues.policies(site),
        *training.policies(site),
    ]
    policies += spot.policies(site)
    additions = mutations.policies(site, version) if version else []
    marks = {_PORTALS: json.dumps(site.portals), _ADOPTED: json.dumps(site.adopted)}
    marks[_SCHEDULERS] = json.dumps(site.schedulers, sort_keys=True)
    found: list[tuple[str, Object]] = [(kinds.CLUSTER_ROLES, role) for role in roles.cluster_roles()]
    for policy in (*policies, *additions, *pods.policies(site)):
        policy["metadata"]["annotations"] = marks
        bound = kinds.binding(policy)
        if policy["kind"] == "ValidatingAdmissionPolicy":
            found += [(kinds.POLICIES, policy), (kinds.BINDINGS, bound)]
        else:
            found += [(kinds.mutating(version), policy), (kinds.mutating(version, bindings=True), bound)]
    return found


def _site(api: Api, found: Found, schedulers: tuple[str, ...] | None) -> Site:
    policies = [body for (collection, _), body in found.items() if collection == kinds.POLICIES]
    labeled = api.items("/api/v1/namespaces", labelSelector=f"{names.ADOPTED}=true")
    adopted = {item["metadata"]["name"] for item in labeled}
    # a namespace whose label was removed stays guarded for as long as it exists
    adopted |= {
        name for name in _marked(policies, _ADOPTED) - adopted if api.find(f"/api/v1/namespaces/{name}")
    }
    me = whoami(api)
    allowed = _schedulers(policies)
    if schedulers is not None:
        allowed[me] = tuple(sorted(set(schedulers)))
    return Site(
        portals=tuple(sorted({me, *_marked(policies, _PORTALS)})),
        adopted=tuple(sorted(adopted)),
        ceiling=ceiling(api),
        schedulers={portal: names_ for portal, names_ in allowed.items() if names_},
    )


def ceiling(api: Api) -> int:
    """The priority of pods that request none."""
    found = api.items_if_known("/apis/scheduling.k8s.io/v1/priorityclasses")
    return max([0, *(int(item.get("value", 0)) for item in found if item.get("globalDefault"))])


def _marked(policies: Iterable[Object], annotation: str) -> set[str]:
    texts = [(policy["metadata"].get("annotations") or {}).get(annotation, "[]") for policy in policies]
    return {str(each) for text in texts for each in json.loads(text)}


def _schedulers(policies: Iterable[Object]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for policy in policies:
        text = (policy["metadata"].get("annotations") or {}).get(_SCHEDULERS, "{}")
        for portal, allowed in json.loads(text).items():
            found.setdefault(portal, set()).update(allowed)
    return {portal: tuple(sorted(allowed)) for portal, allowed in found.items()}


def _found(api: Api, version: str) -> Found:
    collections = [kinds.CLUSTER_ROLES, kinds.POLICIES, kinds.BINDINGS]
    if version:
        collections += [kinds.mutating(version), kinds.mutating(version, bindings=True)]
    return {
        (collection, item["metadata"]["name"]): item
        for collection in collections
        for item in api.items(collection, labelSelector=OURS)
    }


def _mutating_version(api: Api) -> str:
    """The preferred version that the site serves; "" if none."""
    for version in kinds.MUTATING_VERSIONS:
        served = api.find(f"{kinds.ADMISSION}/{version}") or {}
        if any(each["name"] == "mutatingadmissionpolicies" for each in served.get("resources") or []):
            return version
    return ""


def _write(api: Api, collection: str, body: Object, present: Object | None) -> None:
    """Raises Outdated for the later of two processes that write at once."""
    metadata = dict(body["metadata"])
    if present is not None:
        metadata["resourceVersion"] = present["metadata"]["resourceVersion"]
    put(api, collection, {**body, "metadata": metadata})


def _stands(present: Object, body: Object) -> bool:
    """Every field as desired and none added by others: a further selector on a binding would disable it."""
    return _holds(present, body) and not extras({"kind": body["kind"], **present})


def _holds(found: object, wanted: object) -> bool:
    """Defaults of the API server do not count as a difference; an additional list entry does."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(
            key in ("apiVersion", "kind") or _holds(found.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(_holds, found, wanted))
    return bool(found == wanted)
