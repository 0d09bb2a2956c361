"""The names that we use at a Kubernetes site. Changing one orphans what carries the old one."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

DOMAIN = "gpuaas.io"

# on namespaces and on all that we put into them
WORKSPACE = f"{DOMAIN}/workspace"
PROJECT = f"{DOMAIN}/project"
ORGANIZATION = f"{DOMAIN}/organization"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gpuaas"
# on service accounts and bindings
MEMBER = f"{DOMAIN}/member"
ROLE = f"{DOMAIN}/role"
# how the service accounts of people and of robots begin: nobody else may make such, or run pods as one
MEMBER_PREFIXES = ("u-", "ci-")
# on nodes, given by the operator: which nodes are one pool
POOL_LABEL = f"{DOMAIN}/pool"
# on nodes, by the operator or by what discovers nodes: where a node stands and how it is tuned. Of several keys for one
# fact the first that a node has counts; as topology keys of an affinity all of them may be named.
ZONE_LABELS = (f"{DOMAIN}/zone", "topology.kubernetes.io/zone")
RACK_LABELS = (f"{DOMAIN}/rack", "topology.kubernetes.io/rack", "network.topology.nvidia.com/leaf")
NVLINK_LABELS = (f"{DOMAIN}/nvlink-domain", "nvidia.com/gpu.clique")
# the kubelet's policies: none, best-effort, restricted, single-numa-node; none, static
NUMA_LABELS = (f"{DOMAIN}/numa-policy",)
CPU_LABELS = (f"{DOMAIN}/cpu-policy",)
PROFILE_LABEL = f"{DOMAIN}/profile"
# on namespaces: what was bought and where its nodes are, for the guards: `name@key=value,key=value;name@…`
PINS = f"{DOMAIN}/pins"
# labels of all their nodes, `key=value,…`; topology keys in whose domains pods are put together; further sysctls
POOLS = f"{DOMAIN}/pools"
NEAR = f"{DOMAIN}/near"
SYSCTLS = f"{DOMAIN}/sysctls"
SUSPENDED = f"{DOMAIN}/suspended"
# on namespaces that were there before us and so have a name of their own
ADOPTED = f"{DOMAIN}/adopted"
# on pods that are never made, to see whether the guards act
PROBE = f"{DOMAIN}/probe"
PLUGIN_NODE_SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
PLUGIN_TOLERATIONS = "scheduler.alpha.kubernetes.io/defaultTolerations"
PLUGIN_WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"

GPU_TAINT = "nvidia.com/gpu"
QUOTA = "gpuaas"
LIMITS = "gpuaas"
CLUSTER_ROLE = "gpuaas-workspace-{role}"
ROLES = ("admin", "edit", "view")

# Narrow on purpose: `gpu-operator` is somebody else's namespace.
NAMESPACE_PATTERN = "^gpu-[0-9a-f]{8}-"
_NAMESPACE = re.compile(NAMESPACE_PATTERN)

DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


@lru_cache(maxsize=4096)
def is_workspace_namespace(name: str) -> bool:
    return _NAMESPACE.match(name) is not None


def selector_text(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def implicit_resource(device_class: str) -> str:
    """By this name a pod can ask for a device class that declares no extended resource."""
    return f"{DEVICE_CLASS_PREFIX}{device_class}"


def quota_keys(resource_name: str, device_class: str = "") -> tuple[str, ...]:
    """All keys under which a site counts one GPU name. Only `requests.` counts extended resources; a device of a
    class is charged to its class twice more, and a pod is admitted by one key and then held up by another."""
    keys = [f"requests.{resource_name}"]
    if device_class:
        keys += [
            f"requests.{implicit_resource(device_class)}",
            f"{device_class}.deviceclass.resource.k8s.io/devices",
        ]
    return tuple(dict.fromkeys(keys))


def resource_of(device_class: str, extended_name: str | None) -> str:
    return extended_name or implicit_resource(device_class)


def shared_selector(selectors: Iterable[Mapping[str, str]]) -> dict[str, str] | None:
    """The one selector that all agree on; None where they differ."""
    distinct = {selector_text(selector): dict(selector) for selector in selectors}
    return next(iter(distinct.values())) if len(distinct) == 1 else None
