"""Tests that must not run beside each other go to one process: those of one group, by where they are.

xdist's own mark for this is lost with pytest 9.2 (it renames `Item._nodeid`, which no longer is the name), so that each
test would start a portal or a control plane of its own.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# one process at a time deals with the few GPUs of the shared cloud
ON_CLOUD = "[openstack"
# one process at a time deals with the machines in one controller's memory
ON_CLUSTER_API = "[cluster-api"
# one process at a time has the API server that is inside of virtual clusters
ON_VCLUSTER = "[vcluster"
GROUPS = {
    "tests/providers/vcluster/": "vcluster",
    "tests/clusters/test_virtual_lab.py": "vcluster",
    "tests/e2e/": "e2e",
    "tests/providers/kubernetes/test_outage.py": "own-lab",
    "tests/providers/kubernetes/test_chaos.py": "own-lab",
    "tests/providers/kubernetes/test_changes.py": "own-lab",
    "tests/providers/kubernetes/test_guards.py": "own-lab",
    "tests/providers/kubernetes/test_device_classes.py": "own-lab",
    "tests/contracts/test_counting.py": "own-lab",
    "tests/workspaces/test_new_model.py": "own-lab",
    "tests/providers/kubernetes/fitness/": "own-lab",
    "tests/providers/baremetal/": "own-lab",
    "tests/providers/openstack/test_chaos.py": "own-lab",
    "tests/providers/openstack/test_policies.py": "own-lab",
    "tests/providers/openstack/": "openstack-contracts",
    "tests/workspaces/test_openstack_lab.py": "openstack-contracts",
    "tests/lab/openstack/": "openstack-contracts",
    "tests/providers/openstack_clusters/test_two_sites.py": "openstack-contracts",
    "tests/clusters/test_openstack_lab.py": "openstack-contracts",
    "tests/clusters/test_openstack_burst.py": "openstack-contracts",
    "tests/providers/clusterapi/": "cluster-api",
    "tests/lab/cluster_api/": "cluster-api",
}


class ByGroup(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        if ON_CLOUD in nodeid:
            return "openstack-contracts"
        if ON_CLUSTER_API in nodeid:
            return "cluster-api"
        if ON_VCLUSTER in nodeid:
            return "vcluster"
        return next((group for place, group in GROUPS.items() if nodeid.startswith(place)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGroup | None:
    return ByGroup(config, log) if config.getvalue("dist") == "loadgroup" else None
