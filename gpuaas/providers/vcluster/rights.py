"""The rights that the portal's credentials need at a site for virtual clusters, besides those for workspaces.

`tests/providers/kubernetes/fitness/test_virtual_rights.py` runs a cluster's whole life with these and no others.
"""

from gpuaas.providers.kubeapi.manifests import RBAC
from gpuaas.providers.kubeapi.rights import Right
from gpuaas.providers.vcluster import names

RIGHTS = (
    # the control plane: where it runs, how it is reached, its configuration, and the credentials that it writes
    Right("apps", "statefulsets", "get create"),
    Right("", "services", "get"),
    Right("", "secrets", "get"),
    Right("networking.k8s.io", "ingresses", "list create patch"),
    # addresses of the site's API server, which the control plane must reach
    Right("discovery.k8s.io", "endpointslices", "list"),
    # what the syncer may do in its namespace; escalate and bind as for the roles of members
    Right(RBAC, "clusterroles", "bind escalate", names=(names.SYNCER_ROLE,)),
)
