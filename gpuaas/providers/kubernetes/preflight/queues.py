"""Whether the site has Kueue, which version, and what it does with jobs that name a queue and with those that name none."""

import re
from collections.abc import Iterable

from gpuaas.core.errors import Permanent, Unavailable
from gpuaas.providers.base import Check
from gpuaas.providers.kubeapi import names, queues
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.preflight.canary import NAMESPACE
from gpuaas.providers.verdicts import Kind

KUEUE = Kind("Kueue")
# the first without a published way around its quota
CLOSED = (0, 19, 2)
_VERSION = re.compile(r":v(\d+)\.(\d+)\.(\d+)")
_SETTINGS = (
    "In Kueue's configuration integrations.frameworks has batch/job, manageJobsWithoutQueueName is false, and "
    "managedJobsNamespaceSelector, where it is set, selects the namespaces of workspaces."
)
_MANAGER = "app.kubernetes.io/name=kueue"


def kueue(api: Api) -> Check:
    """Its webhooks judge two dry runs of a Job. What it lets through is held by the quota, so that none of this forbids to sell."""
    if not queues.served(api):
        return _without(api)
    have = version(api.items("/apis/apps/v1/deployments", labelSelector=_MANAGER))
    called = (
        f"Kueue {'.'.join(map(str, have))}"
        if have
        else "Kueue, of a version that the portal does not recognize,"
    )
    try:
        queued, others = (_suspends(api, labels) for labels in ({queues.LABEL: names.QUEUE}, {}))
    except (Unavailable, Permanent) as error:
        return KUEUE.bad(
            "DoesNotAnswer",
            f"{called} does not judge jobs: {error.message}. Until it does, nothing may start at the site.",
            "Look at the pods of its controller (kubectl get pods -A -l app.kubernetes.io/name=kueue) and at its webhooks.",
        )
    if others:
        return KUEUE.bad(
            "TakesAll",
            f"{called} holds back jobs that name no queue, too, until somebody gives them one.",
            _SETTINGS,
        )
    if not queued:
        return KUEUE.bad(
            "Idle", f"{called} does not hold back jobs that name a queue: they start past it.", _SETTINGS
        )
    if have is None or have < CLOSED:
        return KUEUE.bad(
            "KnownWaysAround",
            f"{called} queues jobs of workspaces. There are known ways around its quota; the portal's guards close them, and "
            "no workspace gets more than it bought.",
            f"Upgrade Kueue to {'.'.join(map(str, CLOSED))} or newer.",
        )
    return KUEUE.good("Queues", f"{called} queues jobs of workspaces.")


def version(deployments: Iterable[Object]) -> tuple[int, ...] | None:
    """By the image of its controller; None where its tag does not say it."""
    images = [
        str(container.get("image", ""))
        for each in deployments
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    found = [tuple(map(int, match.groups())) for image in images if (match := _VERSION.search(image))]
    return min(found, default=None)


def _without(api: Api) -> Check:
    if api.find(f"{queues.KUEUE.rpartition('/')[0]}/v1beta1") is not None:
        return KUEUE.bad(
            "TooOld",
            "The site's Kueue does not serve kueue.x-k8s.io/v1beta2: the portal makes no queues in it.",
            f"Upgrade Kueue to {'.'.join(map(str, CLOSED))} or newer.",
        )
    return KUEUE.good("NotServed", "The site has no Kueue: jobs wait in the portal's own queue.")


def _suspends(api: Api, labels: dict[str, str]) -> bool:
    template = {"restartPolicy": "Never", "containers": [{"name": "none", "image": "none"}]}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "gpuaas-canary-", "labels": labels},
        "spec": {"template": {"spec": template}},
    }
    made = api.create(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", body, dryRun="All")
    return bool(made["spec"].get("suspend"))
