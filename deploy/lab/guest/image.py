"""The root file system that all machines begin from: Debian with cloud-init, and what a cluster's machines install, in a list of its own
so that no machine needs a way out. Built once, for root."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from deploy.lab.commands import output_of
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE
from deploy.lab.locks import locked

SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
HERE = Path(__file__).parent / "image"
LIMIT_S = 1800
PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "nft": "nftables",
}
BASE = (
    *(
        "systemd",
        "systemd-sysv",
        "dbus",
        "cloud-init",
        "openssh-server",
        "iproute2",
        "curl",
        "python3",
        "procps",
    ),
    *("netbase", "sudo"),
    "wireguard-go",  # what wg-quick takes where the host's kernel has no WireGuard
)
LATER = (
    "slurmctld",
    "slurmdbd",
    "slurmd",
    "slurm-client",
    "munge",
    "mariadb-server",
    "nfs-kernel-server",
    "nfs-common",
    "libnss-extrausers",
    "openmpi-bin",
    "rclone",
    "environment-modules",
    "wireguard-tools",
)
BUILD = 1  # another one where it is built otherwise
LIST = "opt/packages"
# file of `image/` → where it is in a machine
FILES = {
    "nvidia-smi": "usr/bin/nvidia-smi",
    "nfs-server.service": "etc/systemd/system/nfs-server.service",
    "slurmctld.conf": "etc/systemd/system/slurmctld.service.d/lab.conf",
    "cloud.cfg": "etc/cloud/cloud.cfg.d/99-lab.cfg",
}
MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "fstrim.timer")


class Image:
    """Shared by all labs of a user."""

    def __init__(self, folder: Path = CACHE / "gpuaas-guest-image") -> None:
        self._folder = folder

    @property
    def root(self) -> Path:
        """One for each way to build it."""
        made = hashlib.sha256(repr((BUILD, SUITE, BASE, LATER, MASKED)).encode())
        for name in sorted(FILES):
            made.update((HERE / name).read_bytes())
        return self._folder / f"{SUITE}-{made.hexdigest()[:12]}"

    @property
    def is_there(self) -> bool:
        return self.root.exists()

    def ensure(self, report: Callable[[str], None]) -> None:
        """Raises LabError with what is missing, or what Debian's own programs said."""
        if os.geteuid():
            raise LabError("machines that boot need root: namespaces, mounts and a systemd of their own")
        with locked(self._folder / ".lock", limit=LIMIT_S, waiting=lambda: report("another lab builds it")):
            self._programs(report)
            if not self.is_there:
                report(f"building Debian {SUITE} for machines that boot, once: 2 to 4 minutes")
                self._build()

    def _programs(self, report: Callable[[str], None]) -> None:
        lacking = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
        if not lacking:
            return
        if shutil.which("apt-get") is None:
            raise LabError(f"machines that boot need {', '.join(lacking)}")
        report(f"installing {', '.join(lacking)}")
        _run("apt-get", "-qq", "update")
        _run("apt-get", "-qq", "install", "-y", "--no-install-recommends", *lacking)

    def _build(self) -> None:
        half, packages = self.root.with_name(f"{self.root.name}.half"), self._folder / "packages"
        shutil.rmtree(half, ignore_errors=True)
        packages.mkdir(parents=True, exist_ok=True)
        cached = f"--cache-dir={packages}"
        _run(
            "debootstrap", "--variant=minbase", cached, "--include=ca-certificates", SUITE, str(half), MIRROR
        )
        install = ("apt-get", "-qq", "install", "-y", "--no-install-recommends")
        _run("chroot", str(half), "apt-get", "-qq", "update")
        _run("chroot", str(half), *install, *BASE)
        _run("chroot", str(half), "apt-get", "clean")
        _run("chroot", str(half), *install, "--download-only", *LATER)
        _own_list(half)
        for name, place in FILES.items():
            path = half / place
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(HERE / name, path)
            path.chmod(0o755 if place.startswith("usr/bin/") else 0o644)
        # cards are set up from outside; with it cloud-init waits for an answer of its own for a minute
        (half / "sbin/dhclient").unlink(missing_ok=True)
        for unit in MASKED:
            (half / "etc/systemd/system" / unit).symlink_to("/dev/null")
        (half / "etc/machine-id").write_text("")
        half.rename(self.root)


def _own_list(root: Path) -> None:
    """What was downloaded, as the only source of packages."""
    there = root / LIST
    shutil.move(root / "var/cache/apt/archives", there)
    (root / "var/cache/apt/archives/partial").mkdir(parents=True)
    shutil.rmtree(root / "var/lib/apt/lists")
    rows = []
    for path in sorted(there.glob("*.deb")):
        fields = _run("dpkg-deb", "--field", str(path))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        rows.append(f"{fields}Filename: ./{path.name}\nSize: {path.stat().st_size}\nSHA256: {digest}\n")
    (there / "Packages").write_text("\n".join(rows))
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:/{LIST} ./\n")


def _run(*command: str) -> str:
    return output_of(*command, environment={"DEBIAN_FRONTEND": "noninteractive"}, limit=LIMIT_S)
