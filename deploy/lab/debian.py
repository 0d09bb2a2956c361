"""Packages of Debian, unpacked and not installed: no service of theirs starts on this machine."""

import platform
import tempfile
from collections.abc import Iterable
from pathlib import Path

from deploy.lab.commands import output_of
from deploy.lab.errors import LabError


def unpack(packages: Iterable[str], target: Path) -> None:
    """Fetches them, without what they depend on, and makes `target` as a whole. Raises LabError."""
    output_of("apt-get", "-qq", "update")
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        root = Path(work, "root")
        here = ("sh", "-c", 'cd "$0" && apt-get -qq -o APT::Sandbox::User=root download "$@"', work)
        output_of(*here, *packages)
        _extract(Path(work), root)
        root.rename(target)


def unpack_whole(packages: Iterable[str], target: Path, *, suite: str) -> None:
    """The same with all that they depend on, as on a machine that has nothing yet: of that release of Debian."""
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        here, root = Path(work), Path(work, "root")
        for each in ("lists/partial", "archives/partial"):
            (here / each).mkdir(parents=True)
        (here / "status").touch()
        choices = {
            "Dir::State::lists": here / "lists",
            "Dir::State::status": here / "status",
            "Dir::Cache::archives": here / "archives",
            "Dir::Etc::sourcelist": _sources(here, suite),
            "Dir::Etc::sourceparts": "-",
            "Debug::NoLocking": 1,
            "APT::Sandbox::User": "root",
        }
        apt = ("apt-get", "-qq", *(f"-o{key}={value}" for key, value in choices.items()))
        output_of(*apt, "update")
        output_of(*apt, "--yes", "--no-install-recommends", "--download-only", "install", *packages)
        _extract(here / "archives", root)
        root.rename(target)


def _sources(folder: Path, suite: str) -> Path:
    """From where this machine has its own packages of Debian."""
    own = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    known = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
    found = next((path for path in known if path.exists() and own and own in path.read_text()), None)
    if found is None:
        raise LabError(f"neither {' nor '.join(map(str, known))} says where the packages of Debian are")
    made = folder / found.name
    made.write_text(found.read_text().replace(own, suite))
    return made


def _extract(archives: Path, root: Path) -> None:
    for package in sorted(archives.glob("*.deb")):
        output_of("dpkg-deb", "--extract", str(package), str(root))
