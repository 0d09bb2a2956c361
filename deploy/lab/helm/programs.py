"""helm itself, built once into a cache that needs Go no more."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.files import CACHE
from deploy.lab.gobuild import BUILD_LIMIT_S, Report, run_build
from deploy.lab.locks import locked

SOURCE = Path(__file__).parent / "build"
PACKAGE = "helm.sh/helm/v4/cmd/helm"
NAME = "helm"


class Programs:
    """The program is in the cache whole or not at all, so that finding it needs no lock."""

    def __init__(self, *, cache: Path | None = None) -> None:
        pins = b"".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum"))
        self.folder = (cache or CACHE / "gpuaas-helm-bin") / hashlib.sha256(pins).hexdigest()[:16]

    @property
    def helm(self) -> Path:
        return self.folder / NAME

    def ensure(self, report: Report) -> None:
        """Builds it where it is missing. Of two first starts at once, one builds and the other waits for it."""
        if os.access(self.helm, os.X_OK):
            return
        if not shutil.which("go"):
            raise LabError("no Go toolchain to build helm: install Go 1.26 or newer (https://go.dev/dl)")
        self.folder.mkdir(parents=True, exist_ok=True)
        waiting = "another start is building helm"
        with locked(self.folder / ".lock", limit=BUILD_LIMIT_S, waiting=lambda: report(waiting)):
            if not os.access(self.helm, os.X_OK):
                self._build(report)

    def _build(self, report: Report) -> None:
        report("building helm: 2 to 6 minutes on 2 cores")
        with tempfile.TemporaryDirectory(dir=self.folder) as work:
            run_build(["-ldflags", "-s -w", "-o", f"{work}/"], [PACKAGE], SOURCE, report)
            Path(work, NAME).replace(self.helm)
