"""Tests the controllers that limits rely on, in a namespace of our own whose name the guards cover.

It stays between checks, since deleting a namespace takes seconds; each check changes its quota, so that an old status
proves nothing. Pods are only dry runs.
"""

import time
import uuid

from gpuaas.core.errors import Permanent, Unauthorized
from gpuaas.providers.base import Check, GpuAmount, WorkspaceSpec
from gpuaas.providers.kubeapi import guards, manifests, names, namespaces
from gpuaas.providers.kubeapi.client import Api, Object
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


def prepare(api: Api, schedulers: tuple[str, ...] = ()) -> str:
    """Create the namespace and the guards, as for a workspace; returns what prevents it, in words."""
    space = manifests.namespace(SPEC)
    # without the label, so that it does not count as a workspace
    del space["metadata"]["labels"][names.WORKSPACE]
    if namespaces.is_terminating(api.apply(namespaces.COLLECTION, space)):
        return f"the namespace {NAMESPACE}, in which this is tested, is being deleted"
    guards.install(api, schedulers)
    return ""


def quota_acts(api: Api) -> Check:
    """Until the controller fills status.hard a quota admits everything, so it must be running."""
    quotas = f"{namespaces.path(NAMESPACE)}/resourcequotas"
    before = (api.find(f"{quotas}/{names.QUOTA}") or {}).get("spec") or {}
    count = int((before.get("hard") or {}).get(COUNTED, "0")) % 1000 + 1
    started = time.monotonic()
    applied = api.apply(quotas, _quota(count))
    watched = api.watch(quotas, version=applied["metadata"]["resourceVersion"], seconds=QUOTA_SECONDS)
    for event in watched:
        if event["type"] != "BOOKMARK" and _is_taken_up(event["object"]):
            seconds = time.monotonic() - started
            return QUOTA.good("Acts", f"The quota controller processed a change in {seconds:.2f} s.")
    if _is_taken_up(api.find(f"{quotas}/{names.QUOTA}") or {}):
        return QUOTA.good("Acts", "The quota controller processes changes.")
    return QUOTA.bad(
        "Silent",
        f"The quota controller did not process a change within {QUOTA_SECONDS} s: until then a quota "
        "admits everything.",
        "Check that kube-controller-manager runs, holds its lease, and has resourcequota among its "
        "controllers; its log says what it waits for.",
    )


def guards_act(api: Api) -> Check:
    """Policies take up to a second to act, so the check waits for those just installed."""
    deadline = time.monotonic() + GUARDS_SECONDS
    while (problem := _acting(api)) and time.monotonic() < deadline:
        time.sleep(0.2)
    if not problem:
        return GUARDS.good("Act", "The site refuses what the guards forbid.")
    guards.forget(api)
    return GUARDS.bad(
        "DoNotAct",
        f"A pod that the guards forbid was not refused as expected: {problem}.",
        "Check that the policies and bindings named gpuaas-… are at the site (kubectl get "
        "validatingadmissionpolicies,validatingadmissionpolicybindings) and that no webhook removes them.",
    )


def _acting(api: Api) -> str:
    """ "" if all policies act; else what happened."""
    try:
        acting = guards.probe(api, NAMESPACE)
    except (Permanent, Unauthorized) as refused:
        return f"it was refused for another reason: {refused.message}"
    if acting is guards.Acting.REFUSALS and not guards.can_add(api):
        return ""
    return "" if acting is guards.Acting.ALL else acting


def pinning_acts(api: Api) -> Check:
    """Whether the site sends a pod that only requests a GPU to its pool."""
    try:
        made = api.create(_pods(), _plain_pod(), dryRun="All")["spec"]
    except (Permanent, Unauthorized) as refused:
        return PINNING.unknown("NotTried", f"No pod could be tested: {refused.message}")
    selects = (made.get("nodeSelector") or {}).get(DEVICE) == "true"
    tolerates = any(_tolerates_gpus(each) for each in made.get("tolerations") or [])
    if selects and tolerates:
        return PINNING.good(
            "ByItself", "Pods get the node selector and toleration of their pool automatically."
        )
    lacks = " and ".join(
        word for word, is_there in (("node selector", selects), ("toleration", tolerates)) if not is_there
    )
    return PINNING.bad(
        "ByHand",
        f"Pods do not get the {lacks} of their pool automatically: tenants must set it, or their pods wait. "
        "The guards still refuse pods that would run in other pools.",
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
