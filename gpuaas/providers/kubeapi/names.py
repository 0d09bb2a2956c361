"""The names that we use at a Kubernetes site. Changing one orphans what carries the old one."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

DOMAIN = "gpuaas.io"
NAMESPACES = "/api/v1/namespaces"
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")

# on namespaces and on everything that we create in them
WORKSPACE = f"{DOMAIN}/workspace"
PROJECT = f"{DOMAIN}/project"
ORGANIZATION = f"{DOMAIN}/organization"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gpuaas"
# on what belongs to a cluster on demand, at its site and inside it
CLUSTER = f"{DOMAIN}/cluster"
RELEASE = f"{DOMAIN}/cluster-release"
# on everything of an environment in a workspace: its id
ENVIRONMENT = f"{DOMAIN}/environment"
# on the pods of one that others work for: which of both a pod is
PART = f"{DOMAIN}/part"
# on a job of the portal in a workspace: its id
JOB = f"{DOMAIN}/job"
# on one whose tasks run together: the number of the attempt that it is
ATTEMPT = f"{DOMAIN}/attempt"
# on the namespace, set by the operator, from which the portal's door reaches environments
DOOR = f"{DOMAIN}/door"
# on service accounts and bindings
MEMBER = f"{DOMAIN}/member"
ROLE = f"{DOMAIN}/role"
# prefixes of the service accounts of people and robots: tenants may neither create such accounts nor run pods as one
MEMBER_PREFIXES = ("u-", "ci-")
# on nodes, set by the operator: the node's pool
POOL_LABEL = f"{DOMAIN}/pool"
# on nodes, set by the operator or by node discovery: location and tuning. Of several keys for one fact the first that a
# node has counts; an affinity may name all of them as topology keys.
ZONE_LABELS = (f"{DOMAIN}/zone", "topology.kubernetes.io/zone")
RACK_LABELS = (f"{DOMAIN}/rack", "topology.kubernetes.io/rack", "network.topology.nvidia.com/leaf")
ARCH_LABEL = "kubernetes.io/arch"
NVLINK_LABELS = (f"{DOMAIN}/nvlink-domain", "nvidia.com/gpu.clique")
# the kubelet's policies: none, best-effort, restricted, single-numa-node; none, static
NUMA_LABELS = (f"{DOMAIN}/numa-policy",)
CPU_LABELS = (f"{DOMAIN}/cpu-policy",)
PROFILE_LABEL = f"{DOMAIN}/profile"
# on namespaces: what was bought and the labels of its nodes, for the guards: `name@key=value,key=value;name@…`
PINS = f"{DOMAIN}/pins"
# the DRA classes that were bought and the name each was sold by, even if other classes select the same devices: `class=name,…`
CLASSES = f"{DOMAIN}/classes"
# labels of all their nodes, `key=value,…`; topology keys in whose domains pods are placed together; further sysctls
POOLS = f"{DOMAIN}/pools"
NEAR = f"{DOMAIN}/near"
SYSCTLS = f"{DOMAIN}/sysctls"
SUSPENDED = f"{DOMAIN}/suspended"
# on one that borrows its GPUs: for how many seconds its pods may go on once a buyer needs them; absent on others
NOTICE = f"{DOMAIN}/notice-seconds"
# the storage classes that were bought, `name,…`; absent where the portal knows of no class
STORAGE = f"{DOMAIN}/storage-classes"
# on namespaces that existed before the portal and so have their own names
ADOPTED = f"{DOMAIN}/adopted"
# on pods of dry runs that probe whether the guards act
PROBE = f"{DOMAIN}/probe"
PLUGIN_NODE_SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
PLUGIN_TOLERATIONS = "scheduler.alpha.kubernetes.io/defaultTolerations"
PLUGIN_WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"

GPU_TAINT = "nvidia.com/gpu"
QUOTA = "gpuaas"
LIMITS = "gpuaas"
SPOT = "gpuaas-spot"  # the priority class of pods in a workspace that borrows its GPUs
QUEUE = "gpuaas"  # the LocalQueue of a workspace, at a site with Kueue
CLUSTER_ROLE = "gpuaas-workspace-{role}"
ROLES = ("admin", "edit", "view")

# Narrow on purpose: `gpu-operator` is not a workspace.
NAMESPACE_PATTERN = "^gpu-[0-9a-f]{8}-"
_NAMESPACE = re.compile(NAMESPACE_PATTERN)

DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
# on a claim, where it goes before the field
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
# of the key that limits claims of one storage class
_OF_STORAGE_CLASS = ".storageclass.storage.k8s.io/requests.storage"


@lru_cache(maxsize=4096)
def is_workspace_namespace(name: str) -> bool:
    return _NAMESPACE.match(name) is not None


def selector_text(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def implicit_resource(device_class: str) -> str:
    """The name by which a pod can request a device class that declares no extended resource."""
    return f"{DEVICE_CLASS_PREFIX}{device_class}"


def class_of(resource_name: str) -> str:
    """The device class of an implicit name; "" for any other name."""
    return (
        resource_name.removeprefix(DEVICE_CLASS_PREFIX)
        if resource_name.startswith(DEVICE_CLASS_PREFIX)
        else ""
    )


def quota_keys(resource_name: str, *device_classes: str) -> tuple[str, ...]:
    """All keys under which a site counts one GPU name. Extended resources count only under `requests.`; a device of a class
    is also charged to two keys of its class, so a pod could be admitted by one key and then blocked by another."""
    keys = [f"requests.{resource_name}"]
    for each in filter(None, (class_of(resource_name), *device_classes)):
        keys += [f"requests.{implicit_resource(each)}", f"{each}.deviceclass.resource.k8s.io/devices"]
    return tuple(dict.fromkeys(keys))


def storage_quota_key(storage_class: str) -> str:
    return f"{storage_class}{_OF_STORAGE_CLASS}"


def storage_class_of(quota_key: str) -> str:
    """ "" if the key limits something else."""
    return quota_key.removesuffix(_OF_STORAGE_CLASS) if quota_key.endswith(_OF_STORAGE_CLASS) else ""


def resource_of(device_class: str, extended_name: str | None) -> str:
    return extended_name or implicit_resource(device_class)


def shared_selector(selectors: Iterable[Mapping[str, str]]) -> dict[str, str] | None:
    """The selector that all share; None if they differ."""
    distinct = {selector_text(selector): dict(selector) for selector in selectors}
    return next(iter(distinct.values())) if len(distinct) == 1 else None
