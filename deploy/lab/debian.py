"""Packages of Debian, unpacked and not installed: no service of theirs starts on this machine."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from deploy.lab.commands import said


def unpack(packages: Iterable[str], target: Path) -> None:
    """Fetches them, without what they depend on, and makes `target` as a whole. Raises LabError."""
    said("apt-get", "-qq", "update")
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        root = Path(work, "root")
        here = ("sh", "-c", 'cd "$0" && apt-get -qq -o APT::Sandbox::User=root download "$@"', work)
        said(*here, *packages)
        for package in sorted(Path(work).glob("*.deb")):
            said("dpkg-deb", "--extract", str(package), str(root))
        root.rename(target)
