"""helm, built by `make test` before the first test; elsewhere by the first test that needs it."""

import pytest

from deploy.lab.base import print_report
from deploy.lab.errors import LabError
from deploy.lab.helm import Programs
from tests.deploy.helm.chart import Helm


@pytest.fixture(scope="session")
def helm() -> Helm:
    programs = Programs()
    try:
        programs.ensure(print_report)
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    return Helm(programs.helm)
