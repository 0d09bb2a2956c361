"""The lowest layer: what Python, the portal's libraries and PDFs need of Debian 12, and nothing that starts a shell.

Packages are those that the machine's apt knows, whose index it has checked; no script of theirs is run.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.image.errors import ImageError

# Closed under what their programs and libraries load (tests/deploy/image/test_image.py): apt's own closure has perl and a shell.
PACKAGES = (
    *(
        "base-files",
        "ca-certificates",
        "media-types",
        "tzdata",
        "gcc-12-base",
        "libc6",
        "libgcc-s1",
        "libstdc++6",
    ),
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"),
    *(
        "zlib1g",
        "libbz2-1.0",
        "libcrypt1",
        "libexpat1",
        "libffi8",
        "liblzma5",
        "libsqlite3-0",
        "libssl3",
        "libuuid1",
    ),
    # Pango, by which WeasyPrint sets the text of invoices
    *(
        "libpango-1.0-0",
        "libpangoft2-1.0-0",
        "libglib2.0-0",
        "libpcre2-8-0",
        "libmount1",
        "libblkid1",
        "libselinux1",
    ),
    *("libharfbuzz0b", "libharfbuzz-subset0", "libgraphite2-3", "libfreetype6", "libpng16-16", "libbrotli1"),
    *("libfontconfig1", "libfribidi0", "libthai0", "libthai-data", "libdatrie1", "fonts-dejavu-core"),
)
# For people, other programs, or with libraries that nothing here needs; of the documentation, the licenses stay.
LEFT_OUT = (
    *(
        "usr/share/man",
        "usr/share/locale",
        "usr/share/lintian",
        "usr/share/bug",
        "usr/share/info",
        "usr/share/gcc",
    ),
    *(
        "usr/share/binfmts",
        "usr/share/applications",
        "usr/share/pixmaps",
        "usr/share/menu",
        "usr/share/python",
    ),
    *(
        "usr/share/zoneinfo/posix",
        "usr/share/zoneinfo/right",
        "usr/share/base-files",
        "usr/sbin",
        "usr/lib/ssl",
    ),
    *(
        "etc/skel",
        "etc/profile.d",
        "etc/update-motd.d",
        "etc/ca-certificates",
        "etc/python3.11",
        "home",
        "root",
    ),
    *("usr/lib/python3.11/lib2to3", "usr/lib/python3.11/pydoc_data", "usr/lib/python3.11/sitecustomize.py"),
    *(
        f"usr/lib/python3.11/lib-dynload/{name}.*"
        for name in ("_curses", "_curses_panel", "_dbm", "nis", "readline")
    ),
)
USER = 10001
FILES = {
    "etc/passwd": f"root:x:0:0:root:/:/nonexistent\ngpuaas:x:{USER}:{USER}:gpuaas:/tmp:/nonexistent\n",
    "etc/group": f"root:x:0:\ngpuaas:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/fonts/fonts.conf": """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts</dir>
  <cachedir>/tmp/fontconfig</cachedir>
  <alias binding="same"><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
</fontconfig>
""",
}
BUNDLE = "etc/ssl/certs/ca-certificates.crt"
URI = re.compile(r"'[^']*' (?P<file>(?P<name>[^_]+)_\S+) \d+ SHA256:(?P<digest>[0-9a-f]{64})")


@dataclass(frozen=True)
class Package:
    """control: what Debian says of it, as `dpkg-deb --field`."""

    name: str
    version: str
    sha256: str
    control: str
    copyright: str


@dataclass(frozen=True)
class Archive:
    name: str
    path: Path
    sha256: str


def refresh() -> None:
    """Asks Debian for newer packages; only root may do so."""
    if os.geteuid() == 0:
        _said("apt-get", "-qq", "update")


def fetch(folder: Path) -> list[Archive]:
    """The newest packages that apt knows, downloaded where `folder` has them not yet.

    Raises ImageError where apt is not that of Debian 12 or a package cannot be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _fetched(folder)
    except ImageError:
        if os.geteuid() != 0:
            raise
        refresh()  # a mirror no longer has what an old index names
        return _fetched(folder)


def _fetched(folder: Path) -> list[Archive]:
    options = ("-qq", "-o", f"APT::Sandbox::User={'root' if os.geteuid() == 0 else ''}", "download")
    told = _said("apt-get", *options, "--print-uris", *PACKAGES).splitlines()
    found = [match for line in told if (match := URI.match(line))]
    wanted = [Archive(match["name"], folder / match["file"], match["digest"]) for match in found]
    if len(wanted) != len(PACKAGES):
        raise ImageError(
            f"apt knows {len(wanted)} of {len(PACKAGES)} packages: the image is made on Debian 12"
        )
    if missing := [one.name for one in wanted if not one.path.exists()]:
        _said("apt-get", *options, *missing, folder=folder)
    for one in wanted:
        if hashlib.sha256(one.path.read_bytes()).hexdigest() != one.sha256:
            raise ImageError(f"{one.path} is not what apt's index says; delete it")
    return sorted(wanted, key=lambda one: one.name)


def unpack(archives: list[Archive], root: Path) -> None:
    for one in archives:
        _said("dpkg-deb", "--extract", str(one.path), str(root))
        status = (
            root / "var/lib/dpkg/status.d" / one.name
        )  # where scanners look for packages of an image without dpkg
        status.parent.mkdir(parents=True, exist_ok=True)
        status.write_text(_said("dpkg-deb", "--field", str(one.path)))
    _prune(root)
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    authorities = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    (root / BUNDLE).parent.mkdir(parents=True, exist_ok=True)
    (root / BUNDLE).write_text("".join(path.read_text() for path in authorities))
    (root / "tmp").chmod(0o1777)


def packages(archives: list[Archive], root: Path) -> Iterator[Package]:
    """What the unpacked root has, for the bill of materials."""
    for one in archives:
        control = (root / "var/lib/dpkg/status.d" / one.name).read_text()
        copied = root / "usr/share/doc" / one.name / "copyright"
        version = re.search(r"^Version: (.*)$", control, re.MULTILINE)
        assert version
        yield Package(one.name, version[1], one.sha256, control, copied.read_text("utf-8", "replace"))


def _prune(root: Path) -> None:
    for pattern in LEFT_OUT:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in list((root / "usr/share/doc").rglob("*")):
        if (
            path.name != "copyright" and not path.is_dir()
        ):  # a link to a folder: packages that share a copyright
            path.unlink()


def _said(*command: str, folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{' '.join(command[:3])} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
