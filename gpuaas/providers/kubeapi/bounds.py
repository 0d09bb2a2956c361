"""How many objects a workspace may have, so that one tenant cannot fill the site's etcd: a site's option, shown with its use. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuaas.core.schema import Schema
from gpuaas.providers.base import ObjectBound
from gpuaas.providers.fields import number, section
from gpuaas.providers.kubeapi.quantities import whole

OPTION = "object_bounds"
LEAST, MOST = 10, 100_000
FINISHED = (
    "Finished Jobs and their pods stay until somebody deletes them: set ttlSecondsAfterFinished in each Job, and delete those "
    "that have ended, for example with kubectl delete jobs --field-selector status.successful=1."
)
PODS = "Stop pods that are not needed, or run them one after the other."
REVISIONS = "Lower revisionHistoryLimit in each StatefulSet: every change of one is kept as a revision, up to that number."
UNUSED = "Delete those that are not needed any more, or ask an operator of the site for more."


class Bound(NamedTuple):
    """key: of the ResourceQuota. name: of the option; label: of several, for people. A site never counts a kind that it does not
    serve, so the keys of those that come with a controller are written only where they are served."""

    key: str
    name: str
    label: str
    usual: int
    remedy: str = UNUSED
    only_where_served: bool = False

    @property
    def group(self) -> str:
        return self.key.partition(".")[2]


BOUNDS = (
    Bound("count/jobs.batch", "jobs", "Jobs", 500, FINISHED),
    Bound("count/pods", "pods", "pods, finished ones too", 1500, FINISHED),
    Bound("pods", "running_pods", "pods that have not finished", 250, PODS),
    Bound("count/cronjobs.batch", "cronjobs", "CronJobs", 100),
    Bound("count/deployments.apps", "deployments", "Deployments", 200),
    Bound("count/statefulsets.apps", "statefulsets", "StatefulSets", 100),
    Bound("count/replicasets.apps", "replicasets", "ReplicaSets", 2500),
    Bound(
        "count/controllerrevisions.apps", "controller_revisions", "revisions of StatefulSets", 2500, REVISIONS
    ),
    Bound("services", "services", "Services", 50),
    Bound("persistentvolumeclaims", "volume_claims", "PersistentVolumeClaims", 50),
    Bound("count/secrets", "secrets", "Secrets", 200),
    Bound("count/configmaps", "configmaps", "ConfigMaps", 200),
    Bound("count/serviceaccounts", "serviceaccounts", "ServiceAccounts", 500),
    Bound("count/leases.coordination.k8s.io", "leases", "Leases", 100),
    Bound("count/horizontalpodautoscalers.autoscaling", "autoscalers", "HorizontalPodAutoscalers", 100),
    Bound("count/poddisruptionbudgets.policy", "disruption_budgets", "PodDisruptionBudgets", 100),
    Bound("count/routes.route.openshift.io", "routes", "Routes", 50, only_where_served=True),
    Bound("count/jobsets.jobset.x-k8s.io", "jobsets", "JobSets", 200, FINISHED, only_where_served=True),
    Bound("count/trainjobs.trainer.kubeflow.org", "trainjobs", "TrainJobs", 200, only_where_served=True),
)
BY_KEY = {bound.key: bound for bound in BOUNDS}


def schema() -> Schema:
    """The option: a number for each, all optional."""
    fields = {
        bound.name: number(
            f"At most: {bound.label}", f"in a workspace; {bound.usual:,} if empty", least=LEAST, most=MOST
        )
        for bound in BOUNDS
    }
    return section(**fields)


def hard(options: Mapping[str, Any]) -> dict[str, str]:
    """By key of the quota, as the site's operator wants them."""
    given: Mapping[str, Any] = options.get(OPTION) or {}
    return {bound.key: str(given.get(bound.name) or bound.usual) for bound in BOUNDS}


def usual() -> dict[str, str]:
    """Of kinds that every site serves."""
    return {bound.key: str(bound.usual) for bound in BOUNDS if not bound.only_where_served}


def observed(status: Mapping[str, Any]) -> tuple[ObjectBound, ...]:
    """What the site counts. The status of a ResourceQuota."""
    most, used = status.get("hard") or {}, status.get("used") or {}
    return tuple(
        ObjectBound(
            bound.name, bound.label, whole(used.get(bound.key, "0")), whole(most[bound.key]), bound.remedy
        )
        for bound in BOUNDS
        if bound.key in most
    )


def remedy_of(key: str) -> str:
    """What to do when it is used up; "" for what was bought."""
    return BY_KEY[key].remedy if key in BY_KEY else ""
