"""Names and paths at a management cluster. Changing one orphans what carries the old one."""

from gpuaas.providers.kubeapi.names import CLUSTER, DOMAIN, NAMESPACES

GROUP = "cluster.x-k8s.io"
CORE = f"/apis/{GROUP}/v1beta2"
ADDONS = f"/apis/addons.{GROUP}/v1beta2"

# on the namespace of a cluster, and by the topology on its machines: the cluster's id
TAG = CLUSTER
ADDON = f"{DOMAIN}/addon"
# on the Cluster: its release as it was ordered
RELEASE = f"{DOMAIN}/release"

# Cluster API's own
IS_CONTROL = f"{GROUP}/control-plane"
OF_POOL = f"topology.{GROUP}/deployment-name"
DEFER_UPGRADE = f"topology.{GROUP}/defer-upgrade"


def clusters(space: str) -> str:
    return f"{CORE}/namespaces/{space}/clusters"


def kubeconfig_secret(space: str) -> str:
    return f"{NAMESPACES}/{space}/secrets/{space}-kubeconfig"
