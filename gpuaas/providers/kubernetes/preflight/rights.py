"""The rights that the portal's credentials need at a site: one table for both the check and the ClusterRole.

`tests/providers/kubernetes/rights` runs the contract with an account that has these rights and no others, and compares
the table with what the driver sends.
"""

from collections.abc import Iterable

from gpuaas.providers.base import Check
from gpuaas.providers.kubeapi import names, training
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.manifests import RBAC
from gpuaas.providers.kubeapi.rights import Right
from gpuaas.providers.verdicts import PERMISSIONS, Kind, some

ROLE = "gpuaas-portal"
NAMESPACE = "gpuaas-portal"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
DRA = "resource.k8s.io"
JOBSET, TRAINER = training.JOBSET_GROUP, training.TRAINER_GROUP
QUEUES = "kueue.x-k8s.io"
PROJECTS, WALLS = "project.openshift.io/v1", "quota.openshift.io/v1"
ADMISSION = "admissionregistration.k8s.io"

_SPARED = Kind(PERMISSIONS.type)
_OUR_ROLES = tuple(names.CLUSTER_ROLE.format(role=role) for role in names.ROLES)
_REMEDY = (
    "Apply the output of `gpuaas-portal site_role` at the site with an administrator's credentials; it contains "
    "every right. If the portal uses another account, bind it to that ClusterRole."
)
_TAKEN_AWAY = "list patch deletecollection"
_NO_RUNTIMES = "jobs that name a training runtime do not start"
_HELD = "a member's finalizer on one keeps a namespace from being deleted"
RIGHTS = (
    # inventory
    Right("", "nodes", "get list watch"),
    Right("coordination.k8s.io", "leases", "list"),
    Right("storage.k8s.io", "storageclasses", "list"),
    Right("apps", "daemonsets", "list"),
    Right(DRA, "resourceslices deviceclasses", "list watch", served=f"{DRA}/v1"),
    Right(DRA, "resourceclaims", "list watch create patch delete", served=f"{DRA}/v1"),
    Right(DRA, "devicetaintrules", "list", served=f"{DRA}/v1"),
    Right("nvidia.com", "clusterpolicies", "list", served="nvidia.com/v1"),
    # workspaces and what limits them
    Right("", "namespaces", "get list watch create patch delete"),
    Right("", "resourcequotas", "get list watch create patch"),
    Right("", "limitranges", "list watch create patch"),
    Right("networking.k8s.io", "networkpolicies", "list watch create patch delete"),
    # their queues, where the site has Kueue
    Right(QUEUES, "clusterqueues", "get list watch create patch delete", served=f"{QUEUES}/v1beta2"),
    Right(QUEUES, "localqueues", "get list watch create patch delete", served=f"{QUEUES}/v1beta2"),
    Right(QUEUES, "resourceflavors", "get create patch delete", served=f"{QUEUES}/v1beta2"),
    Right(
        QUEUES,
        "workloadpriorityclasses",
        "get create patch",
        served=f"{QUEUES}/v1beta2",
        without="jobs of the portal have no priority class of Kueue",
    ),
    Right(QUEUES, "workloads", "list patch", served=f"{QUEUES}/v1beta2"),
    # what members train with, where the site has it: checked by dry runs, paused and ended with the workspace
    Right(JOBSET, "jobsets", f"create {_TAKEN_AWAY}", served=f"{JOBSET}/v1alpha2"),
    Right(TRAINER, "trainjobs", f"create {_TAKEN_AWAY}", served=f"{TRAINER}/v1alpha1"),
    Right(TRAINER, "clustertrainingruntimes", "list", served=f"{TRAINER}/v1alpha1"),
    # jobs of the portal that name a runtime
    Right(JOBSET, "jobsets", "get", served=f"{JOBSET}/v1alpha2", without=_NO_RUNTIMES),
    Right(TRAINER, "trainjobs", "get delete", served=f"{TRAINER}/v1alpha1", without=_NO_RUNTIMES),
    Right(
        TRAINER,
        "trainingruntimes",
        "get list create patch delete",
        served=f"{TRAINER}/v1alpha1",
        without=_NO_RUNTIMES,
    ),
    # environments
    Right("", "services", "create patch delete"),
    Right("", "persistentvolumeclaims", "get create delete"),
    # jobs
    Right("batch", "jobs", "get create delete"),
    Right("", "secrets", "create patch delete"),
    # members
    Right("", "serviceaccounts", "get list watch create patch delete deletecollection"),
    Right("", "serviceaccounts/token", "create"),
    Right(RBAC, "rolebindings", "get list watch create patch delete deletecollection"),
    # the guards; escalate and bind allow granting rights that it lacks itself, by these three roles only
    Right(RBAC, "clusterroles", "get list watch create patch"),
    Right(RBAC, "clusterroles", "bind escalate", names=_OUR_ROLES),
    Right(
        ADMISSION,
        "validatingadmissionpolicies validatingadmissionpolicybindings",
        "get list watch create patch",
    ),
    Right(
        ADMISSION,
        "mutatingadmissionpolicies mutatingadmissionpolicybindings",
        "get list watch create patch",
        served=f"{ADMISSION}/v1/mutatingadmissionpolicies",
    ),
    Right("scheduling.k8s.io", "priorityclasses", "list"),
    # metering, the warden, checks of nodes, the health of cards
    Right("", "pods", "get list watch create patch delete deletecollection"),
    Right("", "pods/log pods/proxy", "get"),
    Right("", "pods/exec pods/portforward", "get create"),
    Right("", "events", "list create"),
    Right("scheduling.k8s.io", "priorityclasses", "list create patch"),
    # deleting or suspending a workspace: owners of pods first, then objects blocked by a finalizer
    Right("apps", "deployments statefulsets replicasets", _TAKEN_AWAY),
    Right("apps", "daemonsets", "patch deletecollection"),
    Right("batch", "jobs cronjobs", _TAKEN_AWAY),
    Right("", "replicationcontrollers", _TAKEN_AWAY),
    Right("", "configmaps secrets services persistentvolumeclaims", "list patch"),
    Right("autoscaling", "horizontalpodautoscalers", "list patch"),
    Right("policy", "poddisruptionbudgets", "list patch"),
    Right("coordination.k8s.io", "leases", "patch", without=_HELD),
    Right(DRA, "resourceclaimtemplates", "patch", served=f"{DRA}/v1", without=_HELD),
    Right("route.openshift.io", "routes", "list patch", served="route.openshift.io/v1", without=_HELD),
    # an API service that does not answer blocks the deletion of every namespace
    Right("apiregistration.k8s.io", "apiservices", "list"),
    # adoption: who has rights in a namespace
    Right(RBAC, "roles", "get"),
    Right("apps", "controllerrevisions", "list", without="no namespace can be taken over"),
    Right(RBAC, "clusterrolebindings", "list"),
    Right("resource.k8s.io", "resourceclaimtemplates", "list", served="resource.k8s.io/v1"),
    # OpenShift: projects, and the quota across those of one project of the portal
    Right("project.openshift.io", "projectrequests", "create", served=f"{PROJECTS}/projectrequests"),
    Right("project.openshift.io", "projects", "get delete", served=f"{PROJECTS}/projects"),
    Right("quota.openshift.io", "clusterresourcequotas", "get list create update delete", served=WALLS),
)


def site_role(beside: Iterable[Right] = ()) -> list[Object]:
    """Manifests for operators: an account for the portal with exactly the rights that it needs; `beside`: further rights."""
    labels = {names.MANAGED_BY: names.MANAGER}
    rules = [right.rule() for right in (*RIGHTS, *beside)]
    subject = {"kind": "ServiceAccount", "name": ROLE, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ROLE, "namespace": NAMESPACE, "labels": labels},
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": ROLE, "labels": labels},
            "rules": [*rules, {"nonResourceURLs": ["/version"], "verbs": ["get"]}],
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ROLE, "labels": labels},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ROLE},
            "subjects": [subject],
        },
    ]


def permissions(api: Api) -> Check:
    if _allowed(api, {"group": "*", "resource": "*", "verb": "*"}):
        return PERMISSIONS.good(
            "All",
            "The portal's credentials have full rights at the site; an account with fewer rights is enough.",
        )
    served = (right for right in RIGHTS if not right.served or _is_served(api, right.served))
    lacking = {right: texts for right in served if (texts := _missing(api, right))}
    if not lacking:
        return PERMISSIONS.good("Enough", "The portal's credentials have every right that the driver uses.")
    missing = [text for texts in lacking.values() for text in texts]
    words = f"The portal's credentials lack {len(missing)} of the rights that the driver uses: {some(missing, 8)}."
    if not all(right.without for right in lacking):
        return PERMISSIONS.bad("Missing", words, _REMEDY)
    without = "; ".join(dict.fromkeys(right.without for right in lacking))
    return _SPARED.bad("Fewer", f"{words} Until they have them, {without}; all else works.", _REMEDY)


def _missing(api: Api, right: Right) -> list[str]:
    return [
        f"{asked['verb']} {asked['resource']}{'/' if asked['subresource'] else ''}{asked['subresource']}"
        f"{'.' if asked['group'] else ''}{asked['group']}"
        for asked in right.attributes()
        if not _allowed(api, asked)
    ]


def _allowed(api: Api, attributes: Object) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool(api.create(REVIEWS, review)["status"].get("allowed"))


def _is_served(api: Api, what: str) -> bool:
    """`group/version`, or one resource of it."""
    group, version, *resource = what.split("/")
    known = api.find(f"/apis/{group}/{version}")
    if known is None:
        return False
    return not resource or resource[0] in {each["name"] for each in known.get("resources") or []}
