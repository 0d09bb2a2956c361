"""An image as a container runtime would run it: its layers over each other, read-only but for /tmp, its user, its variables."""

import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.image.test_oci import documents

# Namespaces of its own; process 1 of them is the program, so that nothing outlives it.
INSIDE = """set -e
root=$1; shift
mount --bind "$root" "$root"; mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"; mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"
exec /usr/bin/env -i "$@"
"""


@dataclass(frozen=True)
class Rootfs:
    folder: Path
    config: dict[str, Any]

    @classmethod
    def unpack(cls, archive: Path, folder: Path) -> "Rootfs":
        _, manifest, config = documents(archive)
        with tarfile.open(archive) as packed:
            for layer in manifest["layers"]:
                file = packed.extractfile(f"blobs/{layer['digest'].replace(':', '/')}")
                with tarfile.open(fileobj=file) as entries:
                    if hasattr(
                        tarfile, "fully_trusted_filter"
                    ):  # Python 3.11.4; before it nothing else is done
                        entries.extraction_filter = tarfile.fully_trusted_filter
                    entries.extractall(folder)
        folder.chmod(0o755)
        return cls(folder, config["config"])

    def start(self, *words: str, **environment: str) -> "subprocess.Popen[str]":
        """The words as a runtime runs them; output and errors are one text."""
        user = self.config["User"]
        variables = [*self.config["Env"], *(f"{name}={value}" for name, value in environment.items())]
        isolated = [
            "unshare",
            "--mount",
            "--pid",
            "--ipc",
            "--uts",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            INSIDE,
        ]
        return subprocess.Popen(
            [
                *(*isolated, "sh", str(self.folder), *variables),
                *("/usr/sbin/chroot", f"--userspec={user}", str(self.folder), *words),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, **environment: str) -> str:
        """What it said; fails if it failed."""
        process = self.start(*words, **environment)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
        return said

    def libraries(self) -> list[Path]:
        """Every program and shared library in it."""
        found = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        return [path for path in found if path.open("rb").read(4) == b"\x7fELF"]
