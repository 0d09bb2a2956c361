"""A second real control plane, with data of its own and no nodes: what answers inside of the virtual clusters of the tests.

All of them share it, so its room has one process (deploy/testing.py). GPUAAS_LAB_SUFFIX keeps two runs apart.
"""

import os
from pathlib import Path

import pytest

from deploy.lab.files import CACHE
from deploy.lab.kubernetes import Lab, LabError

STATE_DIR = CACHE / f"gpuaas-virtual-lab-tests{os.environ.get('GPUAAS_LAB_SUFFIX', '')}"
NO_NODES = Path(__file__).parent / "no-nodes.json"


@pytest.fixture(scope="session")
def virtual_lab() -> Lab:
    lab = Lab(state_dir=STATE_DIR)
    try:
        lab.up(topology=NO_NODES)
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    return lab
