"""Checks of what runs besides the API server: network, storage, container toolkit, metrics."""

import re
from collections.abc import Iterable, Iterator, Sequence

from gpuaas.providers.base import Check
from gpuaas.providers.kubeapi import guards, names, namespaces, spot
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.inventory.storage import is_default
from gpuaas.providers.verdicts import Kind, some

NETWORK = Kind("NetworkPolicy")
DEVICES = Kind("VisibleDevices")
_UNHIDDEN = Kind(DEVICES.type, blocking=True)
STORAGE = Kind("DefaultStorageClass")
METRICS = Kind("Metrics")
SCHEDULERS = Kind("Schedulers")
PREEMPTION = Kind("Preemption")

# patterns for the names of DaemonSets and of their images
ENFORCERS = {
    "Calico": r"calico-node|calico/node|canal",
    "Cilium": r"(^|/)cilium(-ci|-enterprise)?$|anetd",
    "OVN-Kubernetes": r"ovnkube",
    "OpenShift SDN": r"openshift-sdn",
    "Antrea": r"antrea-agent",
    "kube-router": r"kube-router",
    "Weave Net": r"weave-net|weave-npc|weave-kube",
    "Kube-OVN": r"kube-ovn-cni|kube-ovn$",
    "AWS VPC CNI network policy agent": r"network-policy-agent",
    "Azure network policy manager": r"azure-npm",
    "kube-network-policies": r"kube-network-policies",
}
FLANNEL = re.compile(r"flannel")
_HOW_TO_FIND_OUT = (
    "Find out whether the site's network enforces policies: create a default-deny NetworkPolicy in a namespace and see whether a "
    "pod of another one still reaches it. If it does, install a network that enforces them (Calico, Cilium and others)."
)
ACCEPTS = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
_CLOSE = (
    f"Set {ACCEPTS}=false in the GPU operator's toolkit.env (accept-nvidia-visible-devices-envvar-when-unprivileged "
    "in the toolkit's config.toml) and let the device plugin pass devices by CDI or volume mounts."
)
_HIDDEN = "Meanwhile the portal's guards set it to void in containers of workspaces that have no GPU."
_NOT_HIDDEN = (
    "The site serves no MutatingAdmissionPolicy, by which the portal would hide devices, so a container whose image sets the "
    "variable, as NVIDIA's do, may reach every GPU of its node."
)


def network(daemon_sets: Iterable[Object]) -> Check:
    """The API server accepts NetworkPolicies even if nothing enforces them."""
    found = {name: each for each in daemon_sets for name in _enforcers(each)}
    for name, each in found.items():
        status = each.get("status") or {}
        wanted, ready = int(status.get("desiredNumberScheduled", 0)), int(status.get("numberReady", 0))
        if ready < wanted or not wanted:
            return NETWORK.bad(
                "NotOnEveryNode",
                f"{name} enforces NetworkPolicies, but runs on only {ready} of {wanted} nodes.",
                f"Look at the pods of the DaemonSet {each['metadata']['namespace']}/{each['metadata']['name']}.",
            )
    if found:
        return NETWORK.good("Enforced", f"{' and '.join(sorted(found))} enforces NetworkPolicies.")
    if any(FLANNEL.search(text) for each in daemon_sets for text in _texts(each)):
        return NETWORK.bad(
            "FlannelAlone",
            "The site's network is flannel, which ignores NetworkPolicies: tenants can reach each other's pods.",
            "Add a policy engine (Calico's canal, kube-router), or install another network.",
        )
    return NETWORK.unknown(
        "NotRecognized",
        "The portal recognizes nothing at the site that enforces NetworkPolicies.",
        _HOW_TO_FIND_OUT,
    )


def storage(classes: Iterable[Object]) -> Check:
    default = sorted(each["metadata"]["name"] for each in classes if is_default(each))
    if default:
        return STORAGE.good("Found", f"The default StorageClass is {some(default)}.")
    return STORAGE.bad(
        "None",
        "The site has no default StorageClass: claims of tenants that name none wait forever.",
        "Annotate a StorageClass with storageclass.kubernetes.io/is-default-class=true.",
    )


def visible_devices(api: Api, daemon_sets: Iterable[Object]) -> Check:
    """Whether the toolkit honors NVIDIA_VISIBLE_DEVICES of unprivileged containers, which gives them GPUs without a request.

    Blocking where it does and the guards cannot hide devices, as what images set is seen by no admission policy.
    """
    hides = guards.can_add(api)
    policies = api.items_if_known("/apis/nvidia.com/v1/clusterpolicies")
    values = [
        value for policy in policies for value in _accepts((policy.get("spec") or {}).get("toolkit") or {})
    ]
    values += [
        value
        for each in daemon_sets
        if "container-toolkit" in each["metadata"]["name"]
        for container in _containers(each)
        for value in _accepts(container)
    ]
    if "true" in values or (policies and not values):
        return (DEVICES if hides else _UNHIDDEN).bad(
            "Open",
            "The container toolkit gives GPUs to any container that has NVIDIA_VISIBLE_DEVICES. "
            + (_HIDDEN if hides else _NOT_HIDDEN),
            _CLOSE,
        )
    if values:
        return DEVICES.good("Closed", "The container toolkit ignores NVIDIA_VISIBLE_DEVICES of tenants.")
    return DEVICES.unknown(
        "NotShown",
        "The site does not show its container toolkit's configuration (no ClusterPolicy of the GPU operator). "
        + (_HIDDEN if hides else _NOT_HIDDEN),
        "Check /etc/nvidia-container-runtime/config.toml on a GPU node. " + _CLOSE,
    )


def metrics(daemon_sets: Iterable[Object]) -> Check:
    exporters = [each for each in daemon_sets if any("dcgm-exporter" in text for text in _texts(each))]
    if not exporters:
        return METRICS.unknown(
            "NoExporter",
            "The site has no DCGM exporter: errors of GPUs are noticed only when a node's device plugin reports them.",
            "Install NVIDIA's dcgm-exporter (the GPU operator includes it).",
        )
    ready = sum(int((each.get("status") or {}).get("numberReady", 0)) for each in exporters)
    wanted = sum(int((each.get("status") or {}).get("desiredNumberScheduled", 0)) for each in exporters)
    if ready < wanted or not wanted:
        return METRICS.bad(
            "NotOnEveryNode",
            f"The DCGM exporter runs on only {ready} of {wanted} nodes.",
            "Look at the pods of its DaemonSet, and at the checks of the nodes.",
        )
    return METRICS.good("Found", f"The DCGM exporter runs on {ready} nodes.")


def schedulers(api: Api, allowed: Sequence[str]) -> Check:
    """Whether those that pods may name run: by what they have placed, or by pods of theirs that are ready."""
    if not allowed:
        return SCHEDULERS.good("DefaultOnly", "Pods of workspaces use the site's default scheduler.")
    pods = api.items("/api/v1/pods")
    placed = {each["spec"].get("schedulerName") for each in pods if _is(each, "PodScheduled")}
    spaces = api.items(namespaces.COLLECTION, labelSelector=names.WORKSPACE)
    tenants = {each["metadata"]["name"] for each in spaces}
    theirs = [each for each in pods if each["metadata"]["namespace"] not in tenants]
    running = {name: [_is(each, "Ready") for each in theirs if _schedules(each, name)] for name in allowed}
    missing = sorted(name for name in allowed if name not in placed and not running[name])
    if missing:
        return SCHEDULERS.bad(
            "NotFound",
            f"Nothing at the site runs as the scheduler {some(missing)}: pods that name it wait forever.",
            "Install it, or take it out of the site's option Further schedulers.",
        )
    if stopped := sorted(name for name in allowed if running[name] and not any(running[name])):
        return SCHEDULERS.bad(
            "NotReady",
            f"No pod of the scheduler {some(stopped)} is ready: pods that name it wait until one is.",
            "Look at its pods.",
        )
    return SCHEDULERS.good(
        "Found", f"{some(sorted(allowed))} can be named by pods of workspaces, and they run."
    )


def preemption(api: Api) -> Check:
    """Whether pods that name no priority class push out those that borrow GPUs, and whether the class of these is the portal's.

    Of several default classes the one with the lowest value counts (Kubernetes, "Pod Priority and Preemption").
    """
    classes = api.items(spot.CLASSES)
    wanted = spot.priority_class()
    theirs = [each for each in classes if each["metadata"]["name"] == names.SPOT]
    if any(each["value"] != wanted["value"] for each in theirs):
        return PREEMPTION.bad(
            "NotOurs",
            f"The site has a priority class {names.SPOT} that is not the portal's, so no pod may run in a spot workspace.",
            f"Delete it (kubectl delete priorityclass {names.SPOT}): the portal makes its own.",
        )
    default = min((each for each in classes if each.get("globalDefault")), key=_value, default=None)
    if default is not None and default.get("preemptionPolicy") == "Never":
        return PREEMPTION.bad(
            "Never",
            f"Pods that name no priority class get {default['metadata']['name']}, which preempts no other pod: a buyer's pods "
            "wait for as long as spot workspaces use its GPUs.",
            "Before you offer spot here, make a class with preemptionPolicy PreemptLowerPriority the default instead.",
        )
    return PREEMPTION.good(
        "Preempts", "Pods of workspaces that bought their GPUs push out pods that borrow them."
    )


def _value(priority_class: Object) -> int:
    return int(priority_class["value"])


def _is(pod: Object, condition: str) -> bool:
    found = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in found)


def _schedules(pod: Object, name: str) -> bool:
    """A pod of the scheduler, by its labels or its command line."""
    labels = (pod["metadata"].get("labels") or {}).items()
    words = [
        str(word)
        for container in pod["spec"]["containers"]
        for word in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]
    called = {
        value for key, value in labels if key.rpartition("/")[2] in ("app", "name", "component", "k8s-app")
    }
    return bool(called & {name, f"{name}-scheduler"}) or any(
        name in re.split(r"[=\s,]", word) for word in words
    )


def _enforcers(daemon_set: Object) -> Iterator[str]:
    for name, pattern in ENFORCERS.items():
        if any(re.search(pattern, text) for text in _texts(daemon_set)):
            yield name


def _containers(daemon_set: Object) -> list[Object]:
    return list(((daemon_set["spec"].get("template") or {}).get("spec") or {}).get("containers") or [])


def _texts(daemon_set: Object) -> list[str]:
    """Its name and its images without registry and tag: `registry:5000/calico/node:v3` says calico/node."""
    images = [str(each.get("image", "")).split("@")[0] for each in _containers(daemon_set)]
    return [daemon_set["metadata"]["name"], *(re.sub(r":[^/:]*$", "", image) for image in images)]


def _accepts(holder: Object) -> Iterator[str]:
    for each in holder.get("env") or []:
        if each.get("name") == ACCEPTS:
            yield str(each.get("value", "")).lower()
