"""The controllers and what they install: built from Go modules, once, into a cache that needs Go no more."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from deploy.lab.cluster_api.manifests import manifests_of
from deploy.lab.cluster_api.settings import CONTROLLERS, HERE, Controller
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE, write_private
from deploy.lab.gobuild import BUILD_LIMIT_S, Report, environment, run_build
from deploy.lab.locks import locked

BUILD = HERE / "build"


class Programs:
    """A program is in the cache after its manifests, so whoever finds it finds both."""

    def __init__(self, *, cache: Path | None = None) -> None:
        # other pins, or other ways to read the manifests, get a folder of their own
        digest = hashlib.sha256()
        for path in (BUILD / "go.mod", BUILD / "go.sum", HERE / "manifests.py", HERE / "settings.py"):
            digest.update(path.read_bytes())
        self.folder = (cache or CACHE / "gpuaas-cluster-api-bin") / digest.hexdigest()[:16]

    def path(self, controller: Controller) -> Path:
        return self.folder / controller.name

    def manifests(self, controller: Controller) -> Path:
        return self.folder / f"{controller.name}.json"

    def missing(self) -> list[Controller]:
        return [one for one in CONTROLLERS if not os.access(self.path(one), os.X_OK)]

    def ensure(self, report: Report) -> None:
        """Builds what is missing. Of two first starts at once, one builds and the other waits for it."""
        if not self.missing():
            return
        if not shutil.which("go"):
            raise LabError(
                "no Go toolchain to build Cluster API: install Go 1.26 or newer (https://go.dev/dl)"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(
            self.folder / ".lock",
            limit=BUILD_LIMIT_S,
            waiting=lambda: report("another start is building Cluster API"),
        ):
            for controller in self.missing():
                self._build(controller, report)

    def _build(self, controller: Controller, report: Report) -> None:
        report(f"building Cluster API's {controller.name}; all of it takes 4 to 6 minutes on 2 cores")
        new = self.folder / f".{controller.name}.new"
        run_build(["-ldflags", "-s -w", "-o", str(new)], [controller.package], BUILD, report)
        found = manifests_of(_source(controller) / controller.config)
        write_private(self.manifests(controller), json.dumps(found))
        new.replace(self.path(controller))
        report(f"built {controller.name}")


def _source(controller: Controller) -> Path:
    asked = ["go", "list", "-m", "-f", "{{.Dir}}", controller.module]
    done = subprocess.run(
        asked, cwd=BUILD, env=environment(), text=True, capture_output=True, timeout=600, check=False
    )
    if done.returncode:
        raise LabError(f"the sources of {controller.module} are not to be had:\n{done.stderr[-2000:]}")
    return Path(done.stdout.strip())
