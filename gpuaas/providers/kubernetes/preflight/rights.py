"""What our credentials must be allowed to do at a site: one table, from which come the check and the ClusterRole.

`tests/providers/kubernetes/rights` runs the contract with an account that has these rights and no others, and compares
the table with what the driver sends.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuaas.providers.base import Check
from gpuaas.providers.kubernetes import names
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.verdicts import Kind, some

PERMISSIONS = Kind("Permissions", blocking=True)
ROLE = "gpuaas-portal"
NAMESPACE = "gpuaas-portal"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RBAC = "rbac.authorization.k8s.io"
DRA = "resource.k8s.io"
PROJECTS, WALLS = "project.openshift.io/v1", "quota.openshift.io/v1"
ADMISSION = "admissionregistration.k8s.io"


@dataclass(frozen=True)
class Right:
    """`resources` and `verbs` as words; names: only objects of these names. served: asked only where this is there."""

    group: str
    resources: str
    verbs: str
    names: tuple[str, ...] = ()
    served: str = ""

    def rule(self) -> Object:
        rule: Object = {
            "apiGroups": [self.group],
            "resources": self.resources.split(),
            "verbs": self.verbs.split(),
        }
        return {**rule, "resourceNames": list(self.names)} if self.names else rule

    def attributes(self) -> Iterator[Object]:
        """As the access review wants them, one for each verb on each resource."""
        for resource in self.resources.split():
            main, _, sub = resource.partition("/")
            for verb in self.verbs.split():
                for name in self.names or ("",):
                    asked = {"group": self.group, "resource": main, "subresource": sub, "verb": verb}
                    yield {**asked, "name": name}


_OUR_ROLES = tuple(names.CLUSTER_ROLE.format(role=role) for role in names.ROLES)
_TAKEN_AWAY = "list patch deletecollection"
RIGHTS = (
    # what is there
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
    # members
    Right("", "serviceaccounts", "get list watch create patch delete deletecollection"),
    Right("", "serviceaccounts/token", "create"),
    Right(RBAC, "rolebindings", "get list watch create patch delete deletecollection"),
    # the guards; escalate and bind let it grant what it does not own, by these three roles alone
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
    Right("", "events", "list create"),
    Right("scheduling.k8s.io", "priorityclasses", "list create patch"),
    # taking a workspace away or to sleep: owners of pods first, then what a finalizer holds up
    Right("apps", "deployments statefulsets replicasets", _TAKEN_AWAY),
    Right("apps", "daemonsets", "patch deletecollection"),
    Right("batch", "jobs cronjobs", _TAKEN_AWAY),
    Right("", "replicationcontrollers", _TAKEN_AWAY),
    Right("", "configmaps secrets services persistentvolumeclaims", "list patch"),
    Right("autoscaling", "horizontalpodautoscalers", "list patch"),
    Right("policy", "poddisruptionbudgets", "list patch"),
    # which API of the site does not answer, and so holds up every namespace that goes
    Right("apiregistration.k8s.io", "apiservices", "list"),
    # taking over what was there: who has rights in it
    Right(RBAC, "roles", "get"),
    Right(RBAC, "clusterrolebindings", "list"),
    Right("resource.k8s.io", "resourceclaimtemplates", "list", served="resource.k8s.io/v1"),
    # OpenShift: projects, and the second wall over those of one project of ours
    Right("project.openshift.io", "projectrequests", "create", served=f"{PROJECTS}/projectrequests"),
    Right("project.openshift.io", "projects", "get delete", served=f"{PROJECTS}/projects"),
    Right("quota.openshift.io", "clusterresourcequotas", "get list create update delete", served=WALLS),
)


def site_role(beside: Iterable[Right] = ()) -> list[Object]:
    """For operators: an account of the portal's own and exactly the rights that it needs; `beside`: for what the site is to do more."""
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
            "Our credentials may do everything at the site; an account of the portal's own would do with less.",
        )
    missing = [
        f"{asked['verb']} {asked['resource']}{'/' if asked['subresource'] else ''}{asked['subresource']}"
        f"{'.' if asked['group'] else ''}{asked['group']}"
        for right in RIGHTS
        if not right.served or _is_served(api, right.served)
        for asked in right.attributes()
        if not _allowed(api, asked)
    ]
    if missing:
        return PERMISSIONS.bad(
            "Missing",
            f"Our credentials lack {len(missing)} of the rights that the driver uses: {some(missing, 8)}.",
            "Apply what `manage.py site_role` prints to the site with an administrator's credentials; it names "
            "every right. If another account is used, bind it to that ClusterRole.",
        )
    return PERMISSIONS.good("Enough", "Our credentials have every right that the driver uses.")


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
