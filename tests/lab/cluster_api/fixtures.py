"""One management cluster with Cluster API's real controllers for all tests of this machine, whatever GPUAAS_LAB_SUFFIX says: a second
beside it does not work, since the development provider's ports are fixed. Two processes of its room use it, of which one has the
cloud (PARTS of tests/tiers.py)."""

import pytest

from deploy.lab.cluster_api import Lab, LabError
from deploy.lab.files import CACHE

STATE_DIR = CACHE / "gpuaas-cluster-api-tests"


@pytest.fixture(scope="session")
def cluster_api_lab() -> Lab:
    lab = Lab(state_dir=STATE_DIR)
    try:
        lab.up()  # under a lock of its own: of two processes one starts it, the other finds it
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    return lab


@pytest.fixture(scope="session")
def cluster_api_openstack_lab(cluster_api_lab: Lab) -> Lab:
    """The same one, with OpenStack's provider. Its build takes minutes, so this is for tests that are asked for."""
    try:
        cluster_api_lab.up(openstack=True)
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    return cluster_api_lab
