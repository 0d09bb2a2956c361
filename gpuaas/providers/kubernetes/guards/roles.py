"""What members may do: roles of our own. Kubernetes' `admin` may impersonate, make tokens for years and bind roles.

Left out on purpose: DaemonSets (they run on every node of a pool, other tenants' too), Roles and RoleBindings (rights
that outlive a member's removal), Ingresses (host names belong to the site), Endpoints and EndpointSlices (they would
send a service's callers to other tenants), pods/proxy and services/proxy (port-forward does it with the pod's network).
"""

from gpuaas.providers.kubernetes import names
from gpuaas.providers.kubernetes.client import Object


def cluster_roles() -> list[Object]:
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": names.CLUSTER_ROLE.format(role=role),
                "labels": {names.MANAGED_BY: names.MANAGER},
            },
            "rules": rules,
        }
        for role, rules in (("view", _VIEW), ("edit", _EDIT), ("admin", _ADMIN))
    ]


def _grant(group: str, resources: str, verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs}


_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "update", "patch", "delete", "deletecollection"]
_CHANGE = ["get", "update", "patch"]
_VIEW = [
    _grant("", "namespaces", ["get"]),
    _grant(
        "",
        "pods pods/log pods/status services endpoints configmaps persistentvolumeclaims events "
        "resourcequotas limitranges replicationcontrollers",
        _READ,
    ),
    _grant(
        "apps",
        "deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale "
        "daemonsets controllerrevisions",
        _READ,
    ),
    _grant("batch", "jobs cronjobs", _READ),
    _grant("autoscaling", "horizontalpodautoscalers", _READ),
    _grant("networking.k8s.io", "networkpolicies ingresses", _READ),
    _grant("policy", "poddisruptionbudgets", _READ),
    _grant("events.k8s.io", "events", _READ),
    _grant("discovery.k8s.io", "endpointslices", _READ),
    _grant("coordination.k8s.io", "leases", _READ),
    _grant("resource.k8s.io", "resourceclaims resourceclaimtemplates", _READ),
    _grant("metrics.k8s.io", "pods", ["get", "list"]),
    # where the site has them; not routes/custom-host: names belong to the site
    _grant("route.openshift.io", "routes routes/status", _READ),
]
_EDIT = [
    *_VIEW,
    _grant("", "pods services configmaps secrets persistentvolumeclaims serviceaccounts", _WRITE),
    _grant("", "pods/attach pods/exec pods/portforward", ["get", "create"]),
    _grant("", "pods/eviction", ["create"]),
    _grant("", "pods/ephemeralcontainers pods/resize", _CHANGE),
    _grant("apps", "deployments replicasets statefulsets", _WRITE),
    _grant("apps", "deployments/scale replicasets/scale statefulsets/scale", _CHANGE),
    _grant("batch", "jobs cronjobs", _WRITE),
    _grant("autoscaling", "horizontalpodautoscalers", _WRITE),
    _grant("policy", "poddisruptionbudgets", _WRITE),
    _grant("coordination.k8s.io", "leases", _WRITE),
    _grant("route.openshift.io", "routes", _WRITE),
    _grant("resource.k8s.io", "resourceclaims resourceclaimtemplates", _WRITE),
]
_ADMIN = [*_EDIT, _grant("rbac.authorization.k8s.io", "roles rolebindings", _READ)]
