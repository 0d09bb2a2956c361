"""Names and paths of virtual clusters at a Kubernetes site. Changing one orphans what carries the old one."""

from gpuaas.providers.kubernetes.names import DOMAIN

NAMESPACES = "/api/v1/namespaces"
# on everything that the driver makes for a cluster: whose it is
TAG = f"{DOMAIN}/virtual-cluster"
# on the namespace: the pools as they are wanted there, and where the cluster answers
POOLS = f"{DOMAIN}/cluster-pools"
ADDRESS = f"{DOMAIN}/cluster-address"
# on the pods of the control plane
RELEASE = f"{DOMAIN}/cluster-release"
CONTROL = f"{DOMAIN}/control-plane"
# the released syncer's own: which virtual cluster a pod of the namespace belongs to
SYNCED = "vcluster.loft.sh/managed-by"

# for the whole site, bound in each cluster's namespace: what the syncer may do there
SYNCER_ROLE = "gpuaas-virtual-cluster"
NETWORK = "gpuaas-control-plane"
PORT = 8443


def space(external_name: str) -> str:
    """The namespace: by a name that the guards of workspaces cover. `c-1a2b3c4d-train` lives in `gpu-1a2b3c4d-train`."""
    return f"gpu-{external_name.removeprefix('c-')}"


def account(name: str) -> str:
    return f"vc-{name}"


def config_secret(name: str) -> str:
    return f"vc-config-{name}"


def kubeconfig_secret(name: str) -> str:
    """Written by the syncer, with every right in the virtual cluster."""
    return f"vc-{name}"


def headless(name: str) -> str:
    return f"{name}-headless"


def volume(name: str) -> str:
    """Of the one pod, made by the StatefulSet."""
    return f"data-{name}-0"
