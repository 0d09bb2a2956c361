"""Rules for all other objects that a tenant can write, first of all the portal's own."""

from gpuaas.providers.base import SITE_VARIABLES
from gpuaas.providers.kubeapi import names, training
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.guards.kinds import WRITTEN, Rule, resources, validating
from gpuaas.providers.kubeapi.guards.site import Site, cel_list

OBJECTS = "gpuaas-objects"
NAMESPACES = "gpuaas-namespaces"
ACCOUNTS = "gpuaas-accounts"
MARKS = "gpuaas-marks"
DATA = "gpuaas-data"
VOLUMES = "gpuaas-volumes"
SERVICES = "gpuaas-services"

# kinds that a tenant can make; an owner of another kind is the portal's, the site's, or another tenant's
_OWNERS = (
    "Pod Service ConfigMap Secret PersistentVolumeClaim Deployment ReplicaSet StatefulSet Job CronJob "
    "HorizontalPodAutoscaler PodDisruptionBudget Lease ResourceClaim ResourceClaimTemplate JobSet TrainJob"
)
_KUBERNETES = (
    "['v1', 'apps/v1', 'batch/v1', 'autoscaling/v1', 'autoscaling/v2', 'policy/v1', 'coordination.k8s.io/v1']"
)
_GROUPS = ["resource.k8s.io/", f"{training.JOBSET_GROUP}/", f"{training.TRAINER_GROUP}/"]
_MEMBER = " || ".join(f"name.startsWith('{prefix}')" for prefix in names.MEMBER_PREFIXES)
_OLD = "request.operation == 'UPDATE' ? oldObject.metadata.?{}.orValue({{}}) : {{}}"
# labels and annotations of ours: none added, changed or taken away
_UNCHANGED = " && ".join(
    f"variables.{new}{kind}.all(key, !key.startsWith('{names.DOMAIN}/') || "
    f"(key in variables.{old}{kind} && variables.{old}{kind}[key] == variables.{new}{kind}[key]))"
    for kind in ("Labels", "Annotations")
    for new, old in (("new", "old"), ("old", "new"))
)
# a deletion of a collection comes object by object, without a name in the request
_OBJECT = "(request.operation == 'DELETE' ? oldObject : object)"


def policies(site: Site) -> list[Object]:
    return [
        _objects(site),
        _namespaces(site),
        _accounts(site),
        _marks(site),
        _data(site),
        _volumes(site),
        _services(site),
    ]


def _objects(site: Site) -> Object:
    return validating(
        OBJECTS,
        [
            resources("", "resourcequotas resourcequotas/status limitranges serviceaccounts/token"),
            resources("networking.k8s.io", "networkpolicies"),
            resources("rbac.authorization.k8s.io", "roles rolebindings"),
            resources("", "services secrets", ["UPDATE", "DELETE"]),
        ],
        conditions={
            "in-a-workspace": site.in_workspace,
            "by-others": site.outsiders,
            # of services and secrets, those by which workers of an environment and tasks of a job find one another
            "none-of-theirs": "!(request.resource.resource in ['services', 'secrets']) || "
            f"['{names.ENVIRONMENT}', '{names.JOB}'].exists(mark, mark in oldObject.metadata.?labels.orValue({{}}))",
        },
        rules=(Rule("false", "this object belongs to the portal: change the workspace there"),),
    )


def _namespaces(site: Site) -> Object:
    marked = f"request.operation != 'DELETE' && '{names.WORKSPACE}' in object.metadata.?labels.orValue({{}})"
    return validating(
        NAMESPACES,
        [resources("", "namespaces namespaces/status namespaces/finalize", scope="Cluster")],
        conditions={
            "a-workspace": f"({site.named_as_workspace}) || ({marked})",
            "by-others": site.outsiders,
        },
        rules=(Rule("false", "this namespace belongs to the portal: change or delete the workspace there"),),
    )


def _accounts(site: Site) -> Object:
    """Charts bring accounts for their pods; a member's is the portal's, and one made early would become a member's."""
    return validating(
        ACCOUNTS,
        [resources("", "serviceaccounts")],
        conditions={"in-a-workspace": site.in_workspace, "by-others": site.outsiders},
        rules=(
            Rule(
                "[{found}.?name.orValue(''), {found}.?generateName.orValue('')].all(name, !({member})) && "
                "!('{label}' in (request.operation == 'CREATE' ? object : oldObject).metadata.?labels.orValue({{}}))".format(
                    found=f"{_OBJECT}.metadata", member=_MEMBER, label=names.MEMBER
                ),
                "this object belongs to the portal: accounts of members are made there; "
                f"names that begin with {' or '.join(names.MEMBER_PREFIXES)} are kept for them",
            ),
        ),
    )


def _marks(site: Site) -> Object:
    """Labels and annotations by which the portal knows what is its own, and owners that are not the tenant's."""
    return validating(
        MARKS,
        # of what is below an object, only the status of a pod takes labels and annotations from who is no site's own
        [resources("*", "*", WRITTEN, scope="Namespaced"), resources("", "pods/status", ["UPDATE"])],
        conditions={
            "in-a-workspace": site.in_workspace,
            "by-others": site.outsiders,
            "no-event": "request.resource.resource != 'events'",
        },
        variables={
            "newLabels": "object.metadata.?labels.orValue({})",
            "oldLabels": _OLD.format("labels"),
            "newAnnotations": "object.metadata.?annotations.orValue({})",
            "oldAnnotations": _OLD.format("annotations"),
            "oldOwners": "request.operation == 'UPDATE' ? oldObject.metadata.?ownerReferences.orValue([]) : []",
        },
        rules=(
            Rule(
                _UNCHANGED,
                f"labels and annotations of {names.DOMAIN} belong to the portal: leave them as they are",
            ),
            Rule(
                f"variables.newLabels[?'{names.MANAGED_BY}'].orValue('') != '{names.MANAGER}' || "
                f"variables.oldLabels[?'{names.MANAGED_BY}'].orValue('') == '{names.MANAGER}'",
                f"{names.MANAGED_BY}={names.MANAGER} marks what the portal made: take the label out",
            ),
            Rule(
                "object.metadata.?ownerReferences.orValue([]).all(o, o in variables.oldOwners || "
                f"(o.kind in {cel_list(_OWNERS.split())} && (o.apiVersion in {_KUBERNETES} || "
                f"{cel_list(_GROUPS)}.exists(group, o.apiVersion.startsWith(group))) && "
                "(request.kind.kind != 'Pod' || !o.?controller.orValue(false) || o.kind == 'Pod')))",
                "an owner may only be something of the tenant's own making, and of a pod no controller: "
                "take ownerReferences out",
            ),
        ),
    )


def _data(site: Site) -> Object:
    variables = cel_list(SITE_VARIABLES)
    return validating(
        DATA,
        [resources("", "configmaps secrets", WRITTEN)],
        conditions={"in-a-workspace": site.in_workspace, "by-others": site.outsiders},
        rules=(
            Rule(
                f"!{variables}.exists(name, name in object.?data.orValue({{}}) || "
                "name in object.?stringData.orValue({}))",
                "a key NVIDIA_VISIBLE_DEVICES or its like would come into containers by envFrom: rename it",
            ),
            Rule(
                "request.kind.kind != 'Secret' || object.?type.orValue('') != 'kubernetes.io/service-account-token'",
                "a token that never ends may not be made: get a kubeconfig in the portal",
            ),
        ),
    )


# as Kubernetes finds it: the older annotation goes before the field
_CLASS = f"{{0}}.metadata.?annotations[?'{names.BETA_STORAGE_CLASS}'].or({{0}}.spec.?storageClassName)"
_OF_A_CLASS_THAT_WAS_BOUGHT = Rule(
    "!variables.storageClass.hasValue() || variables.storageClass == variables.before || !variables.bought.hasValue() || "
    "(variables.storageClass.value() != '' && variables.storageClass.value() in variables.bought.value().split(','))",
    "this workspace did not buy storage of the class that is claimed: claim one that it has, "
    "or add it to the workspace in the portal",
)


def _volumes(site: Site) -> Object:
    """Controllers make claims from a tenant's templates, so CREATE spares nobody.

    A claim may wait for a class that is not there yet, which no quota names; the default class it gets by Kubernetes itself. The
    class "" is that of volumes that were made by hand: any that is free, however large, and again no quota names it.
    """
    return validating(
        VOLUMES,
        [resources("", "persistentvolumeclaims", WRITTEN)],
        conditions={
            "in-a-workspace": site.in_workspace,
            "made-or-by-others": f"(request.operation == 'CREATE' && !('system:masters' in request.userInfo.groups))"
            f" || ({site.outsiders})",
        },
        variables={
            "bought": f"namespaceObject.metadata.?annotations[?'{names.STORAGE}']",
            "storageClass": _CLASS.format("object"),
            "before": f"request.operation == 'UPDATE' ? {_CLASS.format('oldObject')} : optional.none()",
        },
        rules=(
            _OF_A_CLASS_THAT_WAS_BOUGHT,
            Rule(
                "object.spec.?volumeName.orValue('') == (request.operation == 'UPDATE' ? "
                "oldObject.spec.?volumeName.orValue('') : '')",
                "a claim may not choose its volume, which may be another tenant's: take volumeName out",
            ),
            Rule(
                "request.operation == 'UPDATE' || !has(object.spec.selector)",
                "a claim may not choose among volumes by label: take the selector out",
            ),
            Rule(
                "object.spec.?dataSourceRef.?namespace.orValue(request.namespace) == request.namespace",
                "data of other namespaces may not be used: take dataSourceRef.namespace out",
            ),
        ),
    )


def _services(site: Site) -> Object:
    return validating(
        SERVICES,
        [resources("", "services", WRITTEN)],
        conditions={"in-a-workspace": site.in_workspace, "by-others": site.outsiders},
        rules=(
            Rule(
                "size(object.spec.?externalIPs.orValue([])) == 0",
                "external IPs would draw other tenants' traffic: take externalIPs out",
            ),
            Rule(
                "object.spec.?type.orValue('ClusterIP') == 'ClusterIP'",
                "services reach no further than the workspace: use type ClusterIP, and kubectl port-forward to see it",
            ),
            Rule(
                "object.metadata.?annotations.orValue({}).all(key, !key.startsWith('external-dns.alpha.kubernetes.io/'))",
                "host names belong to the site: take the external-dns annotations out",
            ),
        ),
    )
