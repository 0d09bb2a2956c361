"""One management cluster with Cluster API's real controllers for all tests of this machine: a second beside it does not work, since
the development provider's ports are fixed. So all tests of it are one group (tests/groups.py)."""

import os

import pytest

from deploy.lab.cluster_api import Lab, LabError
from deploy.lab.files import CACHE

STATE_DIR = CACHE / f"gpuaas-cluster-api-tests{os.environ.get('GPUAAS_LAB_SUFFIX', '')}"


@pytest.fixture(scope="session")
def cluster_api_lab() -> Lab:
    lab = Lab(state_dir=STATE_DIR)
    try:
        lab.up()  # under a lock of its own: of two processes one starts it, the other finds it
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    return lab
