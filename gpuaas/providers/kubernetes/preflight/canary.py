"""What must act, tried out: a namespace of our own that no workspace has, named so that the guards hold there too.

It stays between checks, since a namespace takes seconds to go; each check changes its quota, so that an answer of
yesterday proves nothing. Pods are only dry runs.
"""

import time
import uuid

from gpuaas.core.errors import Permanent, Unauthorized
from gpuaas.providers.base import Check, GpuAmount, WorkspaceSpec
from gpuaas.providers.kubernetes import guards, manifests, names, namespaces
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.verdicts import Kind

QUOTA = Kind("QuotaController", blocking=True)
GUARDS = Kind("Guards", blocking=True)
PINNING = Kind("Pinning")

NAMESPACE = "gpu-00000000-canary"
DEVICE = f"{names.DOMAIN}/canary"
COUNTED = "count/configmaps"
QUOTA_SECONDS, GUARDS_SECONDS = 15, 5.0
SPEC = WorkspaceSpec(
    id=uuid.UUID(int=0),
    external_name=NAMESPACE,
    project_slug="gpuaas",
    organization_slug="gpuaas",
    gpus=(GpuAmount(DEVICE, 1, {DEVICE: "true"}),),
    vcpus=1,
    memory_gib=1,
    storage_gib=0,
    members=(),
)


def prepare(api: Api) -> str:
    """The namespace and the guards, as for a workspace; what stands in the way, in words."""
    space = manifests.namespace(SPEC)
    # no workspace's: whoever looks for those by label does not meet it
    del space["metadata"]["labels"][names.WORKSPACE]
    if namespaces.is_terminating(api.apply(namespaces.COLLECTION, space)):
        return f"the namespace {NAMESPACE}, in which this is tried, is being taken away"
    guards.install(api)
    return ""


def quota_acts(api: Api) -> Check:
    """Until the controller has filled status.hard a quota admits everything; one that is dead never does."""
    quotas = f"{namespaces.path(NAMESPACE)}/resourcequotas"
    before = (api.find(f"{quotas}/{names.QUOTA}") or {}).get("spec") or {}
    count = int((before.get("hard") or {}).get(COUNTED, "0")) % 1000 + 1
    started = time.monotonic()
    applied = api.apply(quotas, _quota(count))
    watched = api.watch(quotas, version=applied["metadata"]["resourceVersion"], seconds=QUOTA_SECONDS)
    for event in watched:
        if event["type"] != "BOOKMARK" and _is_taken_up(event["object"]):
            seconds = time.monotonic() - started
            return QUOTA.good("Acts", f"The quota controller took up a change in {seconds:.2f} s.")
    if _is_taken_up(api.find(f"{quotas}/{names.QUOTA}") or {}):
        return QUOTA.good("Acts", "The quota controller takes up changes.")
    return QUOTA.bad(
        "Silent",
        f"The quota controller did not take up a change within {QUOTA_SECONDS} s: a quota that is not taken up "
        "admits everything.",
        "Check kube-controller-manager: that it runs, holds its lease, and has resourcequota among its "
        "controllers; its log says what it waits for.",
    )


def guards_act(api: Api) -> Check:
    """Policies act up to a second after they are made, so what was just installed gets some time."""
    deadline = time.monotonic() + GUARDS_SECONDS
    while (said := _acting(api)) and time.monotonic() < deadline:
        time.sleep(0.2)
    if not said:
        return GUARDS.good("Act", "The site refuses what the guards forbid.")
    guards.forget(api)
    return GUARDS.bad(
        "DoNotAct",
        f"A pod that the guards forbid was tried: {said}.",
        "Check that the policies and bindings named gpuaas-… are at the site (kubectl get "
        "validatingadmissionpolicies,validatingadmissionpolicybindings) and that no webhook takes them away.",
    )


def _acting(api: Api) -> str:
    """ "" where all of them act; else what was seen."""
    try:
        acting = guards.probe(api, NAMESPACE)
    except (Permanent, Unauthorized) as refused:
        return f"it was refused for another reason: {refused.message}"
    if acting is guards.Acting.REFUSALS and not guards.can_add(api):
        return ""
    return "" if acting is guards.Acting.ALL else acting


def pinning_acts(api: Api) -> Check:
    """What a pod looks like that asks for a GPU and says nothing else: does the site send it to its pool?"""
    try:
        made = api.create(_pods(), _plain_pod(), dryRun="All")["spec"]
    except (Permanent, Unauthorized) as refused:
        return PINNING.unknown("NotTried", f"A pod could not be tried: {refused.message}")
    selects = (made.get("nodeSelector") or {}).get(DEVICE) == "true"
    tolerates = any(_tolerates_gpus(each) for each in made.get("tolerations") or [])
    if selects and tolerates:
        return PINNING.good(
            "ByItself", "Pods get the node selector and toleration of their pool by themselves."
        )
    lacks = " and ".join(
        word for word, is_there in (("node selector", selects), ("toleration", tolerates)) if not is_there
    )
    return PINNING.bad(
        "ByHand",
        f"Pods do not get the {lacks} of their pool by themselves: tenants have to write it, or their pods wait. "
        "The guards still refuse the pods of other pools.",
        "Run the API server with the admission plugins PodNodeSelector and PodTolerationRestriction, or upgrade "
        "to a version that serves MutatingAdmissionPolicy v1 (Kubernetes 1.36).",
    )


def _quota(count: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": names.QUOTA, "labels": {names.MANAGED_BY: names.MANAGER}},
        "spec": {"hard": {f"requests.{DEVICE}": "1", COUNTED: str(count)}},
    }


def _is_taken_up(quota: Object) -> bool:
    wanted = (quota.get("spec") or {}).get("hard") or {}
    status = quota.get("status") or {}
    return bool(wanted) and status.get("hard") == wanted and COUNTED in (status.get("used") or {})


def _pods() -> str:
    return f"{namespaces.path(NAMESPACE)}/pods"


def _plain_pod() -> Object:
    container = {"name": "none", "image": "none", "resources": {"limits": {DEVICE: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "gpuaas-canary-", "namespace": NAMESPACE},
        "spec": {"containers": [container]},
    }


def _tolerates_gpus(toleration: Object) -> bool:
    return toleration.get("key", "") in (names.GPU_TAINT, "") and toleration.get("operator") in (
        "Exists",
        "Equal",
    )
