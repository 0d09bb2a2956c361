"""One control plane with Kueue's real controller for all tests of this room, which has one process. GPUAAS_LAB_SUFFIX keeps two runs
apart."""

import os

import pytest

from deploy.lab.files import CACHE
from deploy.lab.kueue import Lab, LabError

STATE_DIR = CACHE / f"gpuaas-kueue-tests{os.environ.get('GPUAAS_LAB_SUFFIX', '')}"


@pytest.fixture(scope="session")
def kueue_lab() -> Lab:
    lab = Lab(state_dir=STATE_DIR)
    try:
        lab.up()
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    return lab
