"""What the syncer of a virtual cluster may do in its namespace: no more than what the kinds need that it copies there.

Pods, Services, ConfigMaps, Secrets, volume claims and endpoints, nothing of RBAC, no quota, no token, nothing outside of the
namespace. It is an outsider to the guards, as a tenant's own pods are.
"""

from gpuaas.providers.kubernetes import names as site_names
from gpuaas.providers.kubernetes.client import Object
from gpuaas.providers.vcluster import names

_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "update", "patch", "delete"]


def _rule(group: str, resources: str, verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs}


RULES = [
    _rule("", "pods services configmaps secrets persistentvolumeclaims endpoints", _WRITE),
    _rule("discovery.k8s.io", "endpointslices", _WRITE),
    # for kubectl exec, attach, port-forward and logs of people in the virtual cluster
    _rule("", "pods/exec pods/attach pods/portforward", ["create", "get"]),
    _rule("", "pods/log", ["get"]),
    _rule("", "pods/status pods/ephemeralcontainers", ["patch", "update"]),
    _rule("", "events", [*_READ, "create"]),
    # the syncer looks for its own control plane
    _rule("apps", "statefulsets replicasets deployments", _READ),
]


def cluster_role() -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": names.SYNCER_ROLE, "labels": {site_names.MANAGED_BY: site_names.MANAGER}},
        "rules": RULES,
    }


def binding(name: str, metadata: Object) -> Object:
    """In the namespace alone: the rules are the whole site's, the right is not."""
    account = {"kind": "ServiceAccount", "name": names.account(name), "namespace": metadata["namespace"]}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": names.SYNCER_ROLE},
        "subjects": [account],
    }
