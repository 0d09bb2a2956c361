"""Builds and starts the API server that the tests of the fast tier share: `python -m tests.lab.start`.

`make test` runs it beside the tests that need none. Where it does not start, the fixture of the first test that needs it
tries again and says why.
"""

import os
import sys

from deploy.lab.errors import LabError
from deploy.lab.kubernetes import Lab, existing_kubeconfig
from tests.lab.fixtures import STATE_DIR


def main() -> None:
    if existing_kubeconfig() is None:
        try:
            Lab(state_dir=STATE_DIR).up()
        except LabError as error:
            sys.stderr.write(f"The Kubernetes lab did not start: {error}\n")


if __name__ == "__main__":
    os.nice(5)  # the tests go first
    main()
