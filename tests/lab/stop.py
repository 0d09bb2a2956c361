"""Stops the control plane that the tests share: `python -m tests.lab.stop`. Its data stay for the next run."""

from deploy.lab.cluster_api import Lab as ClusterApiLab
from deploy.lab.kubernetes import Lab
from deploy.lab.openstack import Lab as OpenStackLab
from tests.lab import fixtures
from tests.lab.cluster_api import fixtures as cluster_api
from tests.lab.openstack import fixtures as openstack


def main() -> None:
    if fixtures.STATE_DIR.exists():
        Lab(state_dir=fixtures.STATE_DIR).down()
    if openstack.STATE_DIR.exists():
        OpenStackLab(state_dir=openstack.STATE_DIR).down()
    if cluster_api.STATE_DIR.exists():
        # its clusters live in memory: none of them is of use to the next run
        ClusterApiLab(state_dir=cluster_api.STATE_DIR).down(purge=True)


if __name__ == "__main__":
    main()
