"""Prometheus and promtool, with which the alert rules and the queries of the boards are tried: those of this machine,
else Debian's, fetched once. `python -m deploy.lab.prometheus build`
"""

import argparse
import shutil
import sys
from pathlib import Path

from deploy.lab.debian import unpack
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE
from deploy.lab.gobuild import BUILD_LIMIT_S
from deploy.lab.locks import locked

FOLDER = CACHE / "gpuaas-prometheus"


def program(name: str) -> Path | None:
    """prometheus or promtool; None where it is not there."""
    cached = FOLDER / "debian" / "usr" / "bin" / name
    found = shutil.which(name) or (cached if cached.exists() else None)
    return Path(found) if found else None


def ensure() -> None:
    """Raises LabError where they are neither here nor can be fetched."""
    if program("prometheus") and program("promtool"):
        return
    if not shutil.which("apt-get"):
        raise LabError("the tests of the alert rules need prometheus and promtool on the path")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with locked(FOLDER / ".lock", limit=BUILD_LIMIT_S):
        if not program("prometheus"):
            print("fetching Debian's Prometheus", flush=True)
            unpack(["prometheus"], FOLDER / "debian")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.lab.prometheus")
    parser.add_argument("command", choices=["build"])
    parser.parse_args()
    try:
        ensure()
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
