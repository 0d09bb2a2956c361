"""The portal as somebody installs it: its wheel in an environment of its own, away from the checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

from cryptography.fernet import Fernet
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

SAFE = {
    "GPUAAS_SECRET_KEY": "a secret key of more than fifty characters, as Django wants it",
    "GPUAAS_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    "GPUAAS_ALLOWED_HOSTS": "gpu.example.org",
    "GPUAAS_PUBLIC_URL": "https://gpu.example.org",
    "GPUAAS_DATABASE_URL": "postgres://portal:secret-word@db.example.org/gpuaas",
    "GPUAAS_BROKER_URL": "redis://broker.example.org/0",
    "GPUAAS_MAIL_URL": "smtp://mail.example.org",
    "GPUAAS_TRUSTED_PROXIES": "127.0.0.1",
}


@dataclass(frozen=True)
class Installed:
    """folder: where the commands are run; it has nothing of the checkout."""

    program: Path
    folder: Path

    def start(self, *words: str, **environment: str) -> "subprocess.Popen[str]":
        """The program with these variables of ours only; output and errors are one text."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GPUAAS_", "DJANGO_", "PYTHON"))
        }
        return subprocess.Popen(
            [self.program, *words],
            cwd=self.folder,
            env={**kept, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, **environment: str) -> tuple[int, str]:
        """(its exit status, what it said)."""
        process = self.start(*words, **environment)
        said, _ = process.communicate(timeout=120)
        return process.returncode, said


def install(wheel: Path, folder: Path) -> Installed:
    """Without network: what the portal depends on is taken from the environment of the tests."""
    place = folder / "venv"
    venv.create(place, symlinks=True, with_pip=False)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "suite.pth").write_text(sysconfig.get_path("purelib"))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(place / "bin/python"),
        "install",
        "--quiet",
        "--no-index",
    ]
    subprocess.run([*pip, "--no-deps", "--no-compile", str(wheel)], check=True)
    (folder / "elsewhere").mkdir()
    return Installed(place / "bin/gpuaas-portal", folder / "elsewhere")


def taken_by_the_portal(words: list[str]) -> None:
    """Fails unless gpuaas-portal has the command and takes its arguments. Nothing is run."""
    name, *arguments = words
    found = load_command_class(get_commands()[name], name)
    assert isinstance(found, BaseCommand)
    found.create_parser("gpuaas-portal", name).parse_args(arguments)
