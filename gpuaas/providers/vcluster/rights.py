"""What our credentials must be allowed to do at a site beside the rights of workspaces, so that it may have virtual clusters.

`tests/providers/kubernetes/fitness/test_virtual_rights.py` goes the whole way of a cluster with these and no others.
"""

from gpuaas.providers.kubernetes.preflight.rights import RBAC, Right
from gpuaas.providers.vcluster import names

RIGHTS = (
    # the control plane: where it runs, how it is reached, its configuration, and the credentials that it writes
    Right("apps", "statefulsets", "get create"),
    Right("", "services", "get create"),
    Right("", "secrets", "get create"),
    Right("networking.k8s.io", "ingresses", "list create patch"),
    # where the site's API server is, which the control plane has to reach
    Right("discovery.k8s.io", "endpointslices", "list"),
    # what the syncer may do in its namespace; escalate and bind as for the roles of members
    Right(RBAC, "clusterroles", "bind escalate", names=(names.SYNCER_ROLE,)),
)
