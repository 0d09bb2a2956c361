"""The rights of a virtual cluster's syncer in its namespace: only what it needs for the kinds that it copies there.

Pods, Services, ConfigMaps, Secrets, volume claims and endpoints; no RBAC, no quota, no tokens, nothing outside the
namespace. To the guards it is an outsider, like a tenant.
"""

from gpuaas.providers.kubeapi import names as site_names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.guards.roles import READ
from gpuaas.providers.kubeapi.manifests import RBAC
from gpuaas.providers.vcluster import names

_WRITE = [*READ, "create", "update", "patch", "delete"]


def _rule(group: str, resources: str, verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs}


RULES = [
    _rule("", "pods services configmaps secrets persistentvolumeclaims endpoints", _WRITE),
    _rule("discovery.k8s.io", "endpointslices", _WRITE),
    # for kubectl exec, attach, port-forward and logs of people in the virtual cluster
    _rule("", "pods/exec pods/attach pods/portforward", ["create", "get"]),
    _rule("", "pods/log", ["get"]),
    _rule("", "pods/status pods/ephemeralcontainers", ["patch", "update"]),
    _rule("", "events", [*READ, "create"]),
    # the syncer looks for its own control plane
    _rule("apps", "statefulsets replicasets deployments", READ),
]


def cluster_role() -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": names.SYNCER_ROLE, "labels": {site_names.MANAGED_BY: site_names.MANAGER}},
        "rules": RULES,
    }


def binding(name: str, metadata: Object) -> Object:
    """In the namespace only, although the role is cluster-wide."""
    account = {"kind": "ServiceAccount", "name": names.account(name), "namespace": metadata["namespace"]}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": names.SYNCER_ROLE},
        "subjects": [account],
    }
