"""Starts the control planes that the tests of the first tier share: `python -m tests.lab.start`.

`make test` runs it beside the tests that need none. Where one does not start, the fixture of the first test that needs it
tries again and says why.
"""

import os
import sys
from collections.abc import Callable

from deploy.lab.cluster_api import Lab as ClusterApiLab
from deploy.lab.errors import LabError
from deploy.lab.kubernetes import Lab, existing_kubeconfig
from deploy.lab.openstack import Lab as OpenStackLab
from tests.lab import fixtures
from tests.lab.cluster_api import fixtures as cluster_api
from tests.lab.openstack import fixtures as openstack


def main() -> None:
    if existing_kubeconfig() is None:
        _tried(Lab(state_dir=fixtures.STATE_DIR).up)
    _tried(OpenStackLab(state_dir=openstack.STATE_DIR).up)
    _tried(ClusterApiLab(state_dir=cluster_api.STATE_DIR).up)


def _tried(up: Callable[[], object]) -> None:
    try:
        up()
    except LabError as error:
        sys.stderr.write(f"A lab did not start: {error}\n")


if __name__ == "__main__":
    os.nice(5)  # the tests go first
    main()
