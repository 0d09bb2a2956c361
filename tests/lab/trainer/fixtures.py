"""One control plane with Kueue's, JobSet's and Trainer's real controllers for all tests of this room, which has one process.
GPUAAS_LAB_SUFFIX keeps two runs apart."""

import os

import pytest

from deploy.lab.files import CACHE
from deploy.lab.trainer import Lab, LabError

STATE_DIR = CACHE / f"gpuaas-trainer-tests{os.environ.get('GPUAAS_LAB_SUFFIX', '')}"


@pytest.fixture(scope="session")
def trainer_lab() -> Lab:
    lab = Lab(state_dir=STATE_DIR)
    try:
        lab.up()
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    return lab
