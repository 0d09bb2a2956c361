"""Stops the control planes that the tests share: `python -m tests.lab.stop`. Its data stay for the next run."""

import itertools
import os
from pathlib import Path

from deploy.lab.cluster_api import Lab as ClusterApiLab
from deploy.lab.kubernetes import Lab
from deploy.lab.node import Lab as NodeLab
from deploy.lab.openstack import Lab as OpenStackLab
from tests.lab import fixtures
from tests.lab.cluster_api import fixtures as cluster_api
from tests.lab.node import fixtures as node
from tests.lab.openstack import fixtures as openstack
from tests.lab.virtual import fixtures as virtual


def main() -> None:
    if fixtures.STATE_DIR.exists():
        Lab(state_dir=fixtures.STATE_DIR).down()
    for state_dir in itertools.takewhile(Path.exists, openstack.state_dirs()):
        OpenStackLab(state_dir=state_dir).down()
    if virtual.STATE_DIR.exists():
        Lab(state_dir=virtual.STATE_DIR).down()
    if node.STATE_DIR.exists():
        NodeLab(state_dir=node.STATE_DIR).down()
    # a run with a suffix leaves it to others; its clusters live in memory, so none of them is of use to the next run
    if cluster_api.STATE_DIR.exists() and not os.environ.get("GPUAAS_LAB_SUFFIX"):
        ClusterApiLab(state_dir=cluster_api.STATE_DIR).down(purge=True)


if __name__ == "__main__":
    main()
