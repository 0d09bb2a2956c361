"""The programs of the control plane: found where they are, built from Go modules where they are not."""

import hashlib
import os
import re
import shutil
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.files import CACHE
from deploy.lab.gobuild import BUILD_LIMIT_S, Report, run_build
from deploy.lab.kubernetes.settings import HERE
from deploy.lab.locks import locked

KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NAMES = ("etcd", *KUBERNETES, "kwok")
TO_INSTALL = (
    "no Go toolchain to build them: install Go 1.26 or newer (https://go.dev/dl) so that `go` is on the PATH, "
    "or point KUBEBUILDER_ASSETS at a folder with " + ", ".join(NAMES)
)


class Programs:
    """Paths by name. A program is in the cache whole or not at all, so that finding it needs no lock."""

    def __init__(self, *, cache: Path | None = None, build_dir: Path = HERE / "build") -> None:
        self._build_dir = build_dir
        self.folder = (cache or CACHE / "gpuaas-kubernetes-bin") / self._digest()

    def _digest(self) -> str:
        """Names the cache by what is built, so that other pins get a folder of their own."""
        digest = hashlib.sha256()
        for module in ("kubernetes", "kwok"):
            for name in ("go.mod", "go.sum"):
                digest.update((self._build_dir / module / name).read_bytes())
        return digest.hexdigest()[:16]

    def path(self, name: str) -> Path:
        """KUBEBUILDER_ASSETS wins for each program that it has; the folder often lacks some of them."""
        given = os.environ.get("KUBEBUILDER_ASSETS")
        if given and os.access(Path(given) / name, os.X_OK):
            return Path(given).absolute() / name
        return self.folder / name

    def missing(self) -> list[str]:
        return [name for name in NAMES if not os.access(self.path(name), os.X_OK)]

    def ensure(self, report: Report) -> None:
        """Builds what is missing. Of two first starts at once, one builds and the other waits for it."""
        if not self.missing():
            return
        if not shutil.which("go"):
            raise LabError(f"{', '.join(self.missing())} not found, and {TO_INSTALL}")
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = self.folder / ".lock"
        with locked(
            lock, limit=BUILD_LIMIT_S, waiting=lambda: report("another start is building the programs")
        ):
            missing = self.missing()
            for module, names in (("kubernetes", ("etcd", *KUBERNETES)), ("kwok", ("kwok",))):
                wanted = [name for name in names if name in missing]
                if wanted:
                    self._build(module, wanted, report)

    def _build(self, module: str, names: list[str], report: Report) -> None:
        source = self._build_dir / module
        packages = [_package(name) for name in names]
        report(f"fetching the Go modules of {', '.join(names)}")
        report(f"building {', '.join(names)}: 4 to 6 minutes on 2 cores")
        temporary = self.folder / ".building"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        stamps = {"kubernetes": kubernetes_stamps, "kwok": _kwok_stamps}[module](source / "go.mod")
        flags = ["-ldflags", f"-s -w {stamps}", "-o", f"{temporary}/"]
        run_build(flags, packages, source, report)
        for name in names:
            # go names a program after the last element of its package
            (temporary / ("server" if name == "etcd" else name)).replace(self.folder / name)
        shutil.rmtree(temporary)
        report(f"built {', '.join(names)}")


def kubernetes_stamps(go_mod: Path) -> str:
    """For the linker: a plain `go build` leaves the version empty, and kubectl, nodes and the discovery API show it."""
    version = _required(go_mod, "k8s.io/kubernetes")
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())


def _kwok_stamps(go_mod: Path) -> str:
    return f"-X sigs.k8s.io/kwok/pkg/consts.Version={_required(go_mod, 'sigs.k8s.io/kwok')}"


def _required(go_mod: Path, module: str) -> str:
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise LabError(f"{go_mod} does not require {module}")
    return found.group(1)


def _package(name: str) -> str:
    other = {"etcd": "go.etcd.io/etcd/server/v3", "kwok": "sigs.k8s.io/kwok/cmd/kwok"}
    return other.get(name, f"k8s.io/kubernetes/cmd/{name}")
