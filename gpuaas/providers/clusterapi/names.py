"""Names and paths at a management cluster. Changing one orphans what carries the old one."""

from gpuaas.providers.kubernetes.names import DOMAIN

GROUP = "cluster.x-k8s.io"
CORE = f"/apis/{GROUP}/v1beta2"
ADDONS = f"/apis/addons.{GROUP}/v1beta2"
NAMESPACES = "/api/v1/namespaces"

# on the namespace of a cluster, and by the topology on its machines: whose all of it is
TAG = f"{DOMAIN}/cluster"
ADDON = f"{DOMAIN}/addon"
# on the Cluster: its release as it was ordered
RELEASE = f"{DOMAIN}/release"

# Cluster API's own
OF_CLUSTER = f"{GROUP}/cluster-name"
IS_CONTROL = f"{GROUP}/control-plane"
OF_POOL = f"topology.{GROUP}/deployment-name"
DEFER_UPGRADE = f"topology.{GROUP}/defer-upgrade"


def clusters(space: str) -> str:
    return f"{CORE}/namespaces/{space}/clusters"


def kubeconfig_secret(space: str) -> str:
    return f"{NAMESPACES}/{space}/secrets/{space}-kubeconfig"
