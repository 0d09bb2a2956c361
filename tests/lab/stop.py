"""Stops the control plane that the tests share: `python -m tests.lab.stop`. Its data stay for the next run."""

from deploy.lab.kubernetes import Lab
from deploy.lab.openstack import Lab as OpenStackLab
from tests.lab import fixtures
from tests.lab.openstack import fixtures as openstack


def main() -> None:
    if fixtures.STATE_DIR.exists():
        Lab(state_dir=fixtures.STATE_DIR).down()
    if openstack.STATE_DIR.exists():
        OpenStackLab(state_dir=openstack.STATE_DIR).down()


if __name__ == "__main__":
    main()
