"""The controllers and what they install: built from Go modules, once, into a cache that needs Go no more."""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import yaml

from deploy.lab.cluster_api.manifests import Manifest, manifests_of
from deploy.lab.cluster_api.settings import CONTROLLERS, HERE, Controller
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE, write_private
from deploy.lab.gobuild import BUILD_LIMIT_S, Report, go, run_build
from deploy.lab.locks import locked


@dataclass(frozen=True)
class Pins:
    """Controllers that are built from the modules that one folder pins. `foreign`: files of types, by their module, that they watch
    and that nobody of the lab would bring."""

    folder: Path
    controllers: tuple[Controller, ...]
    foreign: tuple[tuple[str, str], ...] = ()


CORE = Pins(HERE / "build", CONTROLLERS)


class Programs:
    """A program is in the cache after its manifests, so whoever finds it finds both."""

    def __init__(self, pins: Pins = CORE, *, cache: Path | None = None) -> None:
        self.pins = pins
        # other pins, or other ways to read the manifests, get a folder of their own
        digest = hashlib.sha256()
        read = (pins.folder / "go.mod", pins.folder / "go.sum", HERE / "manifests.py", HERE / "settings.py")
        for path in read:
            digest.update(path.read_bytes())
        self.folder = (cache or CACHE / "gpuaas-cluster-api-bin") / digest.hexdigest()[:16]

    def path(self, controller: Controller) -> Path:
        return self.folder / controller.name

    def manifests(self, controller: Controller) -> Path:
        return self.folder / f"{controller.name}.json"

    def missing(self) -> list[Controller]:
        return [one for one in self.pins.controllers if not os.access(self.path(one), os.X_OK)]

    def ensure(self, report: Report) -> None:
        """Builds what is missing. Of two first starts at once, one builds and the other waits for it."""
        if not self.missing():
            return
        if not shutil.which("go"):
            raise LabError(
                "no Go toolchain to build the controllers: install Go 1.26 or newer (https://go.dev/dl)"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(
            self.folder / ".lock",
            limit=BUILD_LIMIT_S,
            waiting=lambda: report("another start is building the controllers"),
        ):
            for controller in self.missing():
                self._build(controller, report)

    def _build(self, controller: Controller, report: Report) -> None:
        report(f"building {controller.name}; this takes some minutes on 2 cores")
        new = self.folder / f".{controller.name}.new"
        flags = ["-ldflags", "-s -w", *self.flags(controller), "-o", str(new)]
        run_build(flags, [controller.package], self.pins.folder, report)
        found = self.found(controller)
        for module, file in self.pins.foreign:
            found["types"] += list(yaml.safe_load_all((self.source_of(module) / file).read_text()))
        write_private(self.manifests(controller), json.dumps(found))
        new.replace(self.path(controller))
        report(f"built {controller.name}")

    def found(self, controller: Controller) -> dict[str, list[Manifest]]:
        """What it needs of an API server, as its module says."""
        return manifests_of(self.source_of(controller.module) / controller.config)

    def flags(self, controller: Controller) -> list[str]:
        """Of its build, besides those of all."""
        del controller
        return []

    def source_of(self, module: str) -> Path:
        """Its folder, into which it is downloaded where no build has done so yet."""
        found = json.loads(go("mod", "download", "-json", module, folder=self.pins.folder, limit=600))
        return Path(found["Dir"])


@dataclass(frozen=True)
class Change:
    """In one file of a controller's module."""

    controller: str
    file: str
    old: str
    new: str


class ChangedPrograms(Programs):
    """Built from copies of their modules in which some text is another, where a released program reads only places that root can
    write to. All else stays as it is pinned."""

    changes: ClassVar[tuple[Change, ...]] = ()

    def flags(self, controller: Controller) -> list[str]:
        changes = [one for one in self.changes if one.controller == controller.name]
        if not changes:
            return []
        copy = self.folder / "source" / controller.name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.source_of(controller.module), copy, copy_function=shutil.copyfile)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        for one in changes:
            text = (copy / one.file).read_text()
            if one.old not in text:
                raise LabError(f"{one.file} of {controller.name} has no {one.old!r} to be changed")
            (copy / one.file).write_text(text.replace(one.old, one.new))
        pins = (self.pins.folder / "go.mod").read_text()
        (self.folder / "go.mod").write_text(f"{pins}\nreplace {controller.module} => {copy}\n")
        shutil.copyfile(self.pins.folder / "go.sum", self.folder / "go.sum")
        return ["-modfile", str(self.folder / "go.mod")]
