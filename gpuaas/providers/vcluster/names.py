"""Names and paths of virtual clusters at a Kubernetes site. Changing one orphans what carries the old one."""

from gpuaas.providers.kubeapi.names import DOMAIN

# on everything that the driver creates for a cluster: the cluster's id
TAG = f"{DOMAIN}/virtual-cluster"
# on the namespace: the desired pools, and the cluster's address
POOLS = f"{DOMAIN}/cluster-pools"
ADDRESS = f"{DOMAIN}/cluster-address"
# on the pods of the control plane
CONTROL = f"{DOMAIN}/control-plane"
# the syncer's own label: the virtual cluster that a pod of the namespace belongs to
SYNCED = "vcluster.loft.sh/managed-by"

# for the whole site, bound in each cluster's namespace: what the syncer may do there
SYNCER_ROLE = "gpuaas-virtual-cluster"
NETWORK = "gpuaas-control-plane"
PORT = 8443


def space(external_name: str) -> str:
    """The namespace, with a name that the guards of workspaces cover. `c-1a2b3c4d-train` runs in `gpu-1a2b3c4d-train`."""
    return f"gpu-{external_name.removeprefix('c-')}"


def account(name: str) -> str:
    return f"vc-{name}"


def config_secret(name: str) -> str:
    return f"vc-config-{name}"


def kubeconfig_secret(name: str) -> str:
    """Written by the syncer, with full rights in the virtual cluster."""
    return f"vc-{name}"


def headless(name: str) -> str:
    return f"{name}-headless"


def volume(name: str) -> str:
    """The claim of the only pod, created by the StatefulSet."""
    return f"data-{name}-0"
