"""What `ensure` would change in a namespace now, and who changed it. Writes nothing.

Bounded: seven reads for a workspace without drift (at a site with Kueue four more), and one dry run for each object that seems to differ.
"""

from gpuaas.providers.base import Difference, WorkspaceSpec
from gpuaas.providers.kubeapi import (
    managed_objects,
    manifests,
    namespaces,
    objects,
    queues,
    served,
    spot,
    training,
)
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards import device_classes, site_objects

MOST = 100  # differences reported for one workspace


def differences(
    api: Api, spec: WorkspaceSpec, *, openings: manifests.Openings = manifests.NOTHING_OPEN
) -> tuple[Difference, ...]:
    found = namespaces.own_namespace(api, spec.external_name, spec.id)
    name = f"Namespace/{spec.external_name}"
    if found is None:
        return (Difference(name, "", "present", "missing", step="namespace"),)
    if namespaces.is_terminating(found):
        return (Difference(name, "", "present", "being deleted", step="namespace"),)
    differing = objects.compare(
        api,
        namespaces.COLLECTION,
        manifests.namespace(spec),
        {"kind": "Namespace", **found},
        step="namespace",
    )
    versions = served.group_versions(api)
    counted = openings.without(training.unserved(versions))
    quotas, *others = managed_objects.everything(spec, device_classes(api), counted)
    for wanted in (quotas, *others):
        differing += _of_collection(api, wanted)
    if spec.notice_seconds:
        differing += objects.compare(api, spot.CLASSES, spot.priority_class(), spot.find(api), step="guards")
    if queues.VERSION in versions:
        differing += queues.differences(api, spec, quotas.objects[0]["spec"]["hard"])
    return tuple(differing[:MOST])


def _of_collection(api: Api, wanted: managed_objects.ManagedObjects) -> list[Difference]:
    present = {item["metadata"]["name"]: item for item in api.items(wanted.collection)}
    differing: list[Difference] = []
    for body in wanted.objects:
        differing += objects.compare(
            api, wanted.collection, body, present.get(body["metadata"]["name"]), step=wanted.step
        )
    for name in wanted.surplus(present.values()):
        by = objects.changed_by({**present[name], "kind": wanted.kind}, ())
        differing.append(Difference(f"{wanted.kind}/{name}", "", "", "present", by, wanted.step))
    return differing


def site_repair(api: Api, schedulers: tuple[str, ...] | None = None) -> tuple[Difference, ...]:
    """Applies what we keep for the whole site; what was not as it should be before."""
    differing: list[Difference] = []
    for collection, body in site_objects(api, schedulers):
        before: Object | None = api.find(f"{collection}/{body['metadata']['name']}")
        after = objects.put(api, collection, body)
        name = f"{body['kind']}/{body['metadata']['name']}"
        if before is None:
            differing.append(Difference(name, "", "present", "missing"))
        elif before["metadata"]["resourceVersion"] != after["metadata"]["resourceVersion"]:
            differing += objects.differences({"kind": body["kind"], **before}, after)
    return tuple(differing)
