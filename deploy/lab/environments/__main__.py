"""`python -m deploy.lab.environments build`: only installs them; prints where they are."""

import argparse
import sys

from deploy.lab.base import print_report
from deploy.lab.environments.programs import CodeServer, TensorBoard
from deploy.lab.errors import LabError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.lab.environments")
    parser.add_argument("command", choices=["build"], help="install what is not there yet")
    parser.parse_args()
    for program in (TensorBoard(), CodeServer()):
        try:
            program.ensure(print_report)
        except LabError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(*program.command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
