"""One node whose pods really run, for all tests of it: their room has one process (deploy/testing.py). GPUAAS_LAB_SUFFIX keeps
two runs apart.

Each test makes namespaces of its own, and gives its GPUs back.
"""

import os

import pytest

from deploy.lab.files import CACHE
from deploy.lab.node import Lab, LabError, cannot_run

STATE_DIR = CACHE / f"gpuaas-node-tests{os.environ.get('GPUAAS_LAB_SUFFIX', '')}"


@pytest.fixture(scope="session")
def node_lab() -> Lab:
    if reason := cannot_run():
        pytest.skip(reason)
    lab = Lab(state_dir=STATE_DIR)
    try:
        lab.up()
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    return lab
