"""One lab for all tests of this folder, in a state folder of its own."""

from collections.abc import Iterator

import pytest

from deploy.lab.kubernetes import Lab, LabError
from tests.lab.kubernetes.kubectl import Kubectl


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(state_dir=tmp_path_factory.mktemp("lab"))
    try:
        started.up()
    except LabError as error:
        started.down(purge=True)
        pytest.fail(str(error), pytrace=False)
    yield started
    started.down(purge=True)


@pytest.fixture
def kubectl(lab: Lab) -> Kubectl:
    return Kubectl(lab)
