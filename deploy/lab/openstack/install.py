"""What the lab runs: Debian's MariaDB and RabbitMQ, and OpenStack from PyPI in an environment of its own, built once."""

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cached_property
from pathlib import Path

from deploy.lab.commands import output_of
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE
from deploy.lab.gobuild import Report
from deploy.lab.locks import locked
from deploy.lab.openstack.settings import HERE

INSTALL_LIMIT_S = 1800
BALANCING = "octavia.txt"
SEARCH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", "/usr/lib/rabbitmq/bin"])
POLICY = Path("/usr/sbin/policy-rc.d")
# program → Debian's package that brings it
PROGRAMS = {
    "mariadbd": "mariadb-server-core",
    "mariadb-install-db": "mariadb-server-core",
    "my_print_defaults": "mariadb-client-core",
    "epmd": "rabbitmq-server",
    "rabbitmq-server": "rabbitmq-server",
}


class Installation:
    """Shared by all labs of a user; a lab holds no lock on it once it is there."""

    def __init__(self, folder: Path = CACHE / "gpuaas-openstack-programs") -> None:
        self.folder = folder

    @cached_property
    def venv(self) -> Path:
        """One for each list of pins: a checkout with other ones takes nothing from under a lab that runs."""
        return self.folder / f"venv-{self.fingerprint()[:12]}"

    @property
    def python(self) -> str:
        return str(self.venv / "bin" / "python")

    def program(self, name: str) -> str:
        """One of OpenStack's commands, or of Debian's packages."""
        own = self.venv / "bin" / name
        if own.exists():
            return str(own)
        found = _rabbitmq() if name == "rabbitmq-server" else shutil.which(name, path=SEARCH)
        if found is None:
            raise LabError(f"{name} is missing (Debian: apt-get install {PROGRAMS.get(name, name)})")
        return found

    def ensure(self, report: Report) -> None:
        """Install what is missing. Raises LabError with the words that would mend it."""
        with locked(
            self.folder / ".lock", limit=INSTALL_LIMIT_S, waiting=lambda: report("another lab installs")
        ):
            self._packages(report)
            self._python(report)

    @cached_property
    def balancing(self) -> Path:
        """Octavia, beside the environment in which the rest of what it needs is."""
        pins = hashlib.sha256(self.fingerprint().encode() + (HERE / BALANCING).read_bytes())
        return self.folder / f"octavia-{pins.hexdigest()[:12]}"

    def ensure_balancing(self, report: Report) -> None:
        """After `ensure`."""
        with locked(self.folder / ".lock", limit=INSTALL_LIMIT_S):
            if self.balancing.exists():
                return
            report("installing Octavia from PyPI, once")
            half = self.balancing.with_name(f"{self.balancing.name}.half")
            shutil.rmtree(half, ignore_errors=True)
            self._pip("--no-deps", "--target", str(half), "-r", str(HERE / BALANCING))
            half.rename(self.balancing)

    def missing(self) -> list[str]:
        lacking = {
            package
            for program, package in PROGRAMS.items()
            if (_rabbitmq() if program == "rabbitmq-server" else shutil.which(program, path=SEARCH)) is None
        }
        return sorted(lacking)

    def fingerprint(self) -> str:
        """Of all that decides what is in the environment and in the databases' schemas."""
        made = hashlib.sha256(_base_python().encode())
        for name in ("requirements.txt", "constraints.txt"):
            made.update((HERE / name).read_bytes())
        return made.hexdigest()

    def _packages(self, report: Report) -> None:
        wanted = self.missing()
        if not wanted:
            return
        words = f"apt-get install --no-install-recommends {' '.join(wanted)}"
        if os.geteuid() or not shutil.which("apt-get"):
            raise LabError(f"Debian packages are missing, and only root can install them: {words}")
        report(f"installing {', '.join(wanted)}")
        ours = not POLICY.exists()
        if ours:  # no package may start a service of its own
            POLICY.write_text("#!/bin/sh\nexit 101\n")
            POLICY.chmod(0o755)
        try:
            lines = [
                _apt(*step) for step in (("update",), ("install", "-y", "--no-install-recommends", *wanted))
            ]
        finally:
            if ours:
                POLICY.unlink(missing_ok=True)
        if self.missing():
            raise LabError(f"{words} did not help:\n{lines[-1]}")

    def _python(self, report: Report) -> None:
        mark = self.venv / "installed"
        if mark.exists() and mark.read_text() == self.fingerprint():
            return
        report("installing OpenStack from PyPI, once: 1 to 3 minutes")
        shutil.rmtree(self.venv, ignore_errors=True)
        output_of(_base_python(), "-m", "venv", str(self.venv), limit=INSTALL_LIMIT_S)
        self._pip("-c", str(HERE / "constraints.txt"), "-r", str(HERE / "requirements.txt"))
        mark.write_text(self.fingerprint())

    def _pip(self, *words: str) -> None:
        quietly = ("--disable-pip-version-check", "--no-input", "--quiet")
        output_of(self.python, "-m", "pip", "install", *quietly, *words, limit=INSTALL_LIMIT_S)


def _apt(*words: str) -> str:
    """The end of what it said; whether it helped is seen by what is there then."""
    done = subprocess.run(
        ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", *words],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr)[-3000:]


def _rabbitmq() -> str | None:
    """The script itself: Debian's own in /usr/sbin insists on being root or rabbitmq."""
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return str(found[-1]) if found else None


def _base_python() -> str:
    """The pins are made for 3.11, whatever the portal runs on."""
    chosen = os.environ.get("GPUAAS_OPENSTACK_PYTHON")
    found = chosen or shutil.which("python3.11", path=f"/usr/bin{os.pathsep}{SEARCH}")
    return found or sys.executable
