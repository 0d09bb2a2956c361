"""`python -m deploy.lab.guest build`: see README.md beside this file."""

import argparse
import sys
from pathlib import Path

from deploy.lab.base import print_report
from deploy.lab.errors import LabError
from deploy.lab.guest.image import Image
from deploy.lab.guest.keeper import Keeper


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.lab.guest")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="make the image ready, where it is not there yet (root)")
    keep = commands.add_parser("keep", help="boot what is wanted in FOLDER until SIGTERM (root)")
    keep.add_argument("folder", type=Path)
    options = parser.parse_args()
    image = Image()
    try:
        image.ensure(print_report)
        if options.command == "keep":
            Keeper(options.folder.absolute(), image.root).run()
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
