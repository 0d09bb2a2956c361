"""`python -m deploy.lab.helm build`: only builds it; prints where it is."""

import argparse
import sys

from deploy.lab.base import print_report
from deploy.lab.errors import LabError
from deploy.lab.helm.programs import Programs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.lab.helm")
    parser.add_argument("command", choices=["build"], help="build helm, where it is not there yet")
    parser.parse_args()
    programs = Programs()
    try:
        programs.ensure(print_report)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(programs.helm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
