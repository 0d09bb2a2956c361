"""What members may do: roles of our own. Kubernetes' `admin` may impersonate, make tokens for years and bind roles.

Left out on purpose: DaemonSets (they run on every node of a pool, other tenants' too), Roles and RoleBindings (rights
that outlive a member's removal), Ingresses (host names belong to the site), Endpoints and EndpointSlices (they would
send a service's callers to other tenants), pods/proxy and services/proxy (port-forward does it with the pod's network).
"""

from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Object


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


READ = ["get", "list", "watch"]
_WRITE = [*READ, "create", "update", "patch", "delete", "deletecollection"]
_CHANGE = ["get", "update", "patch"]
_VIEW = [
    _grant("", "namespaces", ["get"]),
    _grant(
        "",
        "pods pods/log pods/status services endpoints configmaps persistentvolumeclaims events "
        "resourcequotas limitranges replicationcontrollers",
        READ,
    ),
    _grant(
        "apps",
        "deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale "
        "daemonsets controllerrevisions",
        READ,
    ),
    _grant("batch", "jobs cronjobs", READ),
    _grant("autoscaling", "horizontalpodautoscalers", READ),
    _grant("networking.k8s.io", "networkpolicies ingresses", READ),
    _grant("policy", "poddisruptionbudgets", READ),
    _grant("events.k8s.io", "events", READ),
    _grant("discovery.k8s.io", "endpointslices", READ),
    _grant("coordination.k8s.io", "leases", READ),
    _grant("resource.k8s.io", "resourceclaims resourceclaimtemplates", READ),
    _grant("metrics.k8s.io", "pods", ["get", "list"]),
    # where the site has Kueue, by which they queue their own: what waits, why, and at which place
    _grant("kueue.x-k8s.io", "localqueues workloads", READ),
    # where the site has them; its ClusterTrainingRuntimes are no namespace's, so no role of one opens them
    _grant("jobset.x-k8s.io", "jobsets", READ),
    _grant("trainer.kubeflow.org", "trainjobs trainingruntimes", READ),
    _grant("visibility.kueue.x-k8s.io", "localqueues/pendingworkloads", ["get"]),
    # where the site has them; not routes/custom-host: names belong to the site
    _grant("route.openshift.io", "routes routes/status", READ),
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
    _grant("jobset.x-k8s.io", "jobsets", _WRITE),
    _grant("trainer.kubeflow.org", "trainjobs", _WRITE),
]
_ADMIN = [*_EDIT, _grant("rbac.authorization.k8s.io", "roles rolebindings", READ)]
