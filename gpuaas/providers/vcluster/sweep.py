"""Everything at the site that is in a namespace with a cluster's tag, of the kinds that we or Kubernetes make for it.

Pods and what else people have there are not told one by one: the namespace is told as long as it is there.
"""

import uuid

from gpuaas.providers.base import ClusterRef, SiteObject
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.kubernetes.names import WORKSPACE
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
    """Of one, or (None) of every cluster of this driver."""
    tagged = f"{names.TAG}={ref.id}" if ref is not None else names.TAG
    found: list[SiteObject] = []
    for space in api.items(names.NAMESPACES, labelSelector=tagged):
        owner = _owner(space)
        found.append(_object("Namespace", space, owner))
        path = f"namespaces/{space['metadata']['name']}"
        for kind, collection in KINDS:
            each = api.items_if_known(collection.format(path))
            found += [_object(kind, one, owner) for one in each if _counts(one)]
    return tuple(found)


def _counts(one: Object) -> bool:
    """Ours and the control plane's. What people have in it by the syncer's hand goes with the namespace, which is told."""
    labels = one["metadata"].get("labels") or {}
    return names.TAG in labels or WORKSPACE in labels or labels.get("app") == "vcluster"


def _owner(space: Object) -> uuid.UUID | None:
    try:
        return uuid.UUID((space["metadata"].get("labels") or {}).get(names.TAG, ""))
    except ValueError:
        return None


def _object(kind: str, one: Object, owner: uuid.UUID | None) -> SiteObject:
    return SiteObject(kind, one["metadata"]["name"], uid=one["metadata"]["uid"], cluster_id=owner)
