"""Tests that must not run beside each other go to one process: those of one group, by where they are.

xdist's own mark for this is lost with pytest 9.2 (it renames `Item._nodeid`, which no longer is the name), so that each
test would start a portal or a control plane of its own.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# one process at a time deals with the few GPUs of a cloud; two groups, as there may be two processes with one each
ON_CLOUD = "[openstack"
CONTRACTS_ON_CLOUD = "openstack-contracts"
SITE_ON_CLOUD = "openstack-site"
# one process at a time deals with the machines in one controller's memory
ON_CLUSTER_API = "[cluster-api"
# one process at a time has the API server that is inside of virtual clusters
ON_VCLUSTER = "[vcluster"
# one process at a time has the four GPUs of the node whose pods run
ON_NODE = "[real-pods"
GROUPS = {
    "tests/lab/openstack/test_machines.py": "machines",
    "tests/lab/node/": "node",
    "tests/deploy/helm/test_installed.py": "node",
    "tests/providers/vcluster/": "vcluster",
    "tests/clusters/test_virtual_lab.py": "vcluster",
    "tests/e2e/": "e2e",
    "tests/reliability/": "reliability",
    "tests/providers/kubernetes/test_outage.py": "own-lab",
    "tests/providers/kubernetes/test_chaos.py": "own-lab",
    "tests/providers/kubernetes/test_changes.py": "own-lab",
    "tests/providers/kubernetes/test_guards.py": "own-lab",
    "tests/providers/kubernetes/test_device_classes.py": "own-lab",
    "tests/contracts/test_counting.py": "own-lab",
    "tests/workspaces/test_new_model.py": "own-lab",
    "tests/workspaces/test_sold_stays.py": "own-lab",
    "tests/providers/kubernetes/fitness/": "own-lab",
    "tests/providers/baremetal/": "own-lab",
    "tests/providers/openstack/test_chaos.py": "own-lab",
    "tests/providers/openstack/test_policies.py": "own-lab",
    # what is nearest to the contract's verbs runs with it, so that the two groups are about equally long
    "tests/providers/openstack/test_drift.py": CONTRACTS_ON_CLOUD,
    "tests/providers/openstack/test_machines.py": CONTRACTS_ON_CLOUD,
    "tests/providers/openstack/test_volumes.py": CONTRACTS_ON_CLOUD,
    "tests/providers/openstack/": SITE_ON_CLOUD,
    "tests/workspaces/test_openstack_lab.py": SITE_ON_CLOUD,
    "tests/lab/openstack/": SITE_ON_CLOUD,
    "tests/providers/openstack_clusters/test_two_sites.py": SITE_ON_CLOUD,
    "tests/clusters/test_openstack_lab.py": SITE_ON_CLOUD,
    "tests/clusters/test_openstack_burst.py": SITE_ON_CLOUD,
    "tests/providers/clusterapi/": "cluster-api",
    "tests/lab/cluster_api/": "cluster-api",
}


class ByGroup(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        if ON_CLOUD in nodeid:
            return CONTRACTS_ON_CLOUD
        if ON_CLUSTER_API in nodeid:
            return "cluster-api"
        if ON_VCLUSTER in nodeid:
            return "vcluster"
        if ON_NODE in nodeid:
            return "node"
        return next((group for place, group in GROUPS.items() if nodeid.startswith(place)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGroup | None:
    return ByGroup(config, log) if config.getvalue("dist") == "loadgroup" else None
