"""Lists objects in namespaces with a cluster's tag, of the kinds that the portal or Kubernetes creates for it.

Pods and other objects of people are not listed: the namespace stands for them as long as it exists.
"""

import uuid

from gpuaas.core.ids import uuid_read
from gpuaas.providers.base import ClusterRef, SiteObject
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.names import NAMESPACES, WORKSPACE
from gpuaas.providers.vcluster import names

KINDS = (
    ("ResourceQuota", "/api/v1/{}/resourcequotas"),
    ("LimitRange", "/api/v1/{}/limitranges"),
    ("NetworkPolicy", "/apis/networking.k8s.io/v1/{}/networkpolicies"),
    ("Ingress", "/apis/networking.k8s.io/v1/{}/ingresses"),
    ("RoleBinding", "/apis/rbac.authorization.k8s.io/v1/{}/rolebindings"),
    ("StatefulSet", "/apis/apps/v1/{}/statefulsets"),
    ("ServiceAccount", "/api/v1/{}/serviceaccounts"),
    ("Service", "/api/v1/{}/services"),
    ("Secret", "/api/v1/{}/secrets"),
    ("PersistentVolumeClaim", "/api/v1/{}/persistentvolumeclaims"),
)


def sweep(api: Api, ref: ClusterRef | None) -> tuple[SiteObject, ...]:
    """Of one cluster, or (None) of every cluster of this driver."""
    tagged = f"{names.TAG}={ref.id}" if ref is not None else names.TAG
    found: list[SiteObject] = []
    for space in api.items(NAMESPACES, labelSelector=tagged):
        owner = uuid_read((space["metadata"].get("labels") or {}).get(names.TAG))
        found.append(_object("Namespace", space, owner))
        path = f"namespaces/{space['metadata']['name']}"
        for kind, collection in KINDS:
            each = api.items_if_known(collection.format(path))
            found += [_object(kind, one, owner) for one in each if _counts(one)]
    return tuple(found)


def _counts(one: Object) -> bool:
    """Only our objects and the control plane's; those that the syncer copies are deleted with the namespace."""
    labels = one["metadata"].get("labels") or {}
    return names.TAG in labels or WORKSPACE in labels or labels.get("app") == "vcluster"


def _object(kind: str, one: Object, owner: uuid.UUID | None) -> SiteObject:
    return SiteObject(kind, one["metadata"]["name"], uid=one["metadata"]["uid"], cluster_id=owner)
