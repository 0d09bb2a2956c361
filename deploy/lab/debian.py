"""Packages of Debian, unpacked and not installed: no service of theirs starts on this machine."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from deploy.lab.commands import output_of


def unpack(packages: Iterable[str], target: Path) -> None:
    """Fetches them, without what they depend on, and makes `target` as a whole. Raises LabError."""
    output_of("apt-get", "-qq", "update")
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        root = Path(work, "root")
        here = ("sh", "-c", 'cd "$0" && apt-get -qq -o APT::Sandbox::User=root download "$@"', work)
        output_of(*here, *packages)
        for package in sorted(Path(work).glob("*.deb")):
            output_of("dpkg-deb", "--extract", str(package), str(root))
        root.rename(target)
