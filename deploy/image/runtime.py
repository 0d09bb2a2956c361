"""The image's own Python, run from where its layer is unpacked: what it compiles and collects is as in the image, whatever
Python builds it. It needs no root for that: its program is started by the layer's own loader."""

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.image.errors import ImageError

LOADERS = {"x86_64": "lib64/ld-linux-x86-64.so.2", "aarch64": "lib/ld-linux-aarch64.so.1"}
PYTHON = "usr/bin/python3.11"
PACKAGES = "usr/local/lib/python3.11/dist-packages"  # where Debian's Python looks for what is not Debian's


@dataclass(frozen=True)
class Runtime:
    """root: the unpacked layer of Debian."""

    root: Path

    def run(self, *words: str, packages: tuple[Path, ...] = (), **environment: str) -> None:
        """Python with these words; `packages` are folders to import from. Raises ImageError with what it said."""
        triplet = f"{platform.machine()}-linux-gnu"
        libraries = f"{self.root}/lib/{triplet}:{self.root}/usr/lib/{triplet}"
        ours = {
            "PYTHONHOME": str(self.root / "usr"),
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
        }
        loader = self.root / LOADERS[platform.machine()]
        done = subprocess.run(
            [loader, "--library-path", libraries, self.root / PYTHON, "-s", *words],
            cwd="/",
            env={**ours, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ImageError(
                f"python {' '.join(words[:3])} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )

    def compile(self, root: Path, below: str) -> None:
        """Compiles what is below `root / below`, for a place that nobody writes to: neither times nor contents of the sources are
        asked when it is loaded. One process in the order of names, or the bytes would differ."""
        self.run(
            *("-m", "compileall", "-q", "-q", "--invalidation-mode", "unchecked-hash"),
            *("-s", str(root), "-p", "/", str(root / below)),
        )
