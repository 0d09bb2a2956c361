"""Whether the site serves JobSet and Trainer, which versions, and whether they answer."""

import re
from collections.abc import Callable, Iterable, Sequence

from gpuaas.core.errors import Permanent, Unavailable
from gpuaas.providers.base import Check
from gpuaas.providers.kubeapi import queues, training
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.preflight.canary import NAMESPACE
from gpuaas.providers.verdicts import Kind, some

JOBSET, TRAINER = Kind("JobSet"), Kind("Trainer")
# the first whose TrainJobs Kueue can start
QUEUED = (2, 2, 0)
_VERSION = re.compile(r"/(jobset|trainer-controller-manager):v(\d+)\.(\d+)\.(\d+)")
_DEPLOYMENTS = "/apis/apps/v1/deployments"
WEBHOOK = "failed calling webhook"  # as the API server says it


def jobset(api: Api) -> Check:
    if api.find(training.JOBSET) is None:
        return JOBSET.good("NotServed", "The site has no JobSet: members use Jobs.")
    called = _called("JobSet", version(api, "jobset"))
    if problem := _unanswered(lambda: _try(api, f"{training.JOBSET}/{{}}/jobsets", _jobset())):
        return JOBSET.bad(
            "DoesNotAnswer",
            f"{called} does not judge JobSets: {problem}. Until it does, no pod may start at the site.",
            "Look at the pods of its controller (kubectl get pods -n jobset-system) and at its webhooks.",
        )
    return JOBSET.good("Serves", f"{called} makes Jobs of JobSets in workspaces.")


def trainer(api: Api) -> Check:
    if api.find(training.TRAINER) is None:
        return TRAINER.good("NotServed", "The site has no Kubeflow Trainer: members use Jobs.")
    have = version(api, "trainer-controller-manager")
    called = _called("Trainer", have)
    runtimes = [each["metadata"]["name"] for each in api.items(f"{training.TRAINER}/clustertrainingruntimes")]
    if problem := _unanswered(lambda: _try(api, f"{training.TRAINER}/{{}}/trainjobs", _trainjob(runtimes))):
        return TRAINER.bad(
            "DoesNotAnswer",
            f"{called} does not judge TrainJobs: {problem}.",
            "Look at the pods of its controller (kubectl get pods -A -l app.kubernetes.io/name=trainer) and at its webhooks.",
        )
    words = f"{called} makes JobSets of TrainJobs in workspaces. Runtimes: {some(runtimes, 8) or 'none'}."
    if queues.served(api) and have is not None and have < QUEUED:
        return TRAINER.bad(
            "NotQueued",
            f"{words} Kueue cannot start TrainJobs of this version: those that name a queue wait for ever. Others run.",
            f"Upgrade Trainer to {'.'.join(map(str, QUEUED))} or newer, or let members queue JobSets.",
        )
    return TRAINER.good("Serves", words)


def version(api: Api, program: str) -> tuple[int, ...] | None:
    """By the image of its controller, wherever it is installed; None where no tag says it."""
    return version_of(api.items(_DEPLOYMENTS), program)


def version_of(deployments: Iterable[Object], program: str) -> tuple[int, ...] | None:
    images = [
        str(container.get("image", ""))
        for each in deployments
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    found = [
        tuple(map(int, match.groups()[1:]))
        for image in images
        if (match := _VERSION.search(image)) and match[1] == program
    ]
    return min(found, default=None)


def _called(name: str, have: tuple[int, ...] | None) -> str:
    return (
        f"{name} {'.'.join(map(str, have))}"
        if have
        else f"{name}, of a version that the portal does not recognize,"
    )


def _try(api: Api, collection: str, body: Object) -> None:
    api.create(collection.format(f"namespaces/{NAMESPACE}"), body, dryRun="All")


def _unanswered(attempt: Callable[[], None]) -> str:
    """A refusal is an answer, unless it is that of a webhook which was not reached."""
    try:
        attempt()
    except (Permanent, Unavailable) as error:
        return error.message if isinstance(error, Unavailable) or WEBHOOK in error.message else ""
    return ""


def _jobset() -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "none", "image": "none"}]}}
    return {
        "apiVersion": f"{training.JOBSET_GROUP}/v1alpha2",
        "kind": "JobSet",
        "metadata": {"generateName": "gpuaas-canary-"},
        "spec": {"replicatedJobs": [{"name": "main", "template": {"spec": {"template": template}}}]},
    }


def _trainjob(runtimes: Sequence[str]) -> Object:
    """Of a runtime that is there: of another one Kueue might refuse it first, whether Trainer answers or not."""
    return {
        "apiVersion": f"{training.TRAINER_GROUP}/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "gpuaas-canary"},
        "spec": {"runtimeRef": {"name": runtimes[0] if runtimes else "gpuaas-canary"}},
    }
