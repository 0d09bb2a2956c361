"""Lists all objects in namespaces with a cluster's tag, of every kind of Cluster API and its providers."""

import uuid
from collections.abc import Iterator, Mapping

from gpuaas.providers.base import ClusterRef, SiteObject
from gpuaas.providers.clusterapi import names
from gpuaas.providers.clusterapi.site import owner_of
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.names import NAMESPACES

# Kubernetes puts it into every namespace
NOT_OURS = {("ConfigMap", "kube-root-ca.crt")}
CORE_KINDS = (("Secret", "/api/v1/{}secrets"), ("ConfigMap", "/api/v1/{}configmaps"))


def sweep(api: Api, ref: ClusterRef | None) -> tuple[SiteObject, ...]:
    tagged = f"{names.TAG}={ref.id}" if ref is not None else names.TAG
    spaces = {one["metadata"]["name"]: one for one in api.items(NAMESPACES, labelSelector=tagged)}
    if not spaces:
        return ()
    owners = {name: owner_of(one) for name, one in spaces.items()}
    found = [_object("Namespace", one, owners[name]) for name, one in spaces.items()]
    for kind, place in kinds(api):
        found += [
            _object(kind, each, owners[each["metadata"]["namespace"]])
            for each in _listed(api, place, owners)
            if (kind, each["metadata"]["name"]) not in NOT_OURS
        ]
    return tuple(found)


def kinds(api: Api) -> Iterator[tuple[str, str]]:
    """(kind, path with {} for `namespaces/…/`) of all served kinds, of any provider and version."""
    yield from CORE_KINDS
    for group in api.get("/apis")["groups"]:
        if group["name"] != names.GROUP and not group["name"].endswith(f".{names.GROUP}"):
            continue
        seen: set[str] = set()
        for version in group["versions"]:
            path = f"/apis/{version['groupVersion']}"
            for resource in api.get(path)["resources"]:
                fits = resource["namespaced"] and "list" in resource["verbs"] and "/" not in resource["name"]
                if fits and resource["kind"] not in seen:
                    seen.add(resource["kind"])
                    yield resource["kind"], f"{path}/{{}}{resource['name']}"


def _listed(api: Api, place: str, owners: Mapping[str, uuid.UUID | None]) -> list[Object]:
    """One call for each kind. Secrets are read in our namespaces only."""
    spaces = [f"namespaces/{name}/" for name in owners]
    if len(spaces) > 1 and place not in {path for _, path in CORE_KINDS}:
        spaces = [""]
    found = [one for space in spaces for one in api.items_if_known(place.format(space))]
    return [one for one in found if one["metadata"]["namespace"] in owners]


def _object(kind: str, one: Object, owner: uuid.UUID | None) -> SiteObject:
    metadata = one["metadata"]
    return SiteObject(kind, metadata["name"], uid=metadata["uid"], cluster_id=owner)
