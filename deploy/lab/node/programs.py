"""The node's programs and the images of its pods: built and fetched once, into a cache that needs Go and Debian no more."""

import hashlib
import inspect
import os
import shutil
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from deploy.image import oci
from deploy.lab import debian
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE
from deploy.lab.gobuild import BUILD_LIMIT_S, Report, run_build
from deploy.lab.kubernetes.programs import kubernetes_stamps
from deploy.lab.locks import locked
from deploy.lab.node import images, systems
from deploy.lab.node.settings import HERE

# What is not Go alone, or has no pins of ours. With the libraries of nft, which a small system lacks.
DEBIAN = (
    *("containerd", "runc", "containernetworking-plugins", "busybox-static", "nftables"),
    *("libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libedit2", "libbsd0", "libmd0", "libgmp10"),
    *("libxtables12", "libseccomp2"),
)
COMMAND = "k8s.io/kubernetes/cmd"


@dataclass(frozen=True)
class Module:
    """A folder with go.mod, and the packages that are built from it; a program is called as its package's last part."""

    folder: Path
    packages: tuple[str, ...]
    is_kubernetes: bool = False

    @property
    def stamps(self) -> str:
        return kubernetes_stamps(self.folder / "go.mod") if self.is_kubernetes else ""

    @property
    def names(self) -> list[str]:
        return [package.rpartition("/")[2] for package in self.packages]


MODULES = (
    Module(
        HERE / "build" / "kubernetes",
        (f"{COMMAND}/kubelet", f"{COMMAND}/kube-proxy", "./gpus", "./hold"),
        is_kubernetes=True,
    ),
    Module(HERE / "build" / "coredns", ("./coredns",)),
    Module(HERE / "build" / "rclone", ("./rclone",)),
)
IMAGES: dict[str, images.Maker] = {
    "hold": images.of_program,
    "gpus": images.of_program,
    "coredns": images.of_program,
    "busybox": images.busybox,
    "rclone": images.with_shell,
}


class Programs:
    def __init__(self, *, cache: Path | None = None) -> None:
        digest = hashlib.sha256(repr(DEBIAN).encode())
        for path in sorted((HERE / "build").rglob("*.*")):
            digest.update(path.read_bytes())
        self.folder = (cache or CACHE / "gpuaas-node-bin") / digest.hexdigest()[:16]
        packer = inspect.getsource(images) + inspect.getsource(oci)
        self.images = self.folder / f"images-{_short(packer)}"
        whole = packer + inspect.getsource(systems) + inspect.getsource(debian)
        self.systems = self.folder / f"systems-{_short(whole)}"

    @property
    def debian(self) -> Path:
        """Where Debian's packages are unpacked."""
        return self.folder / "debian"

    @property
    def search_path(self) -> str:
        own = (self.debian / "usr/sbin", self.debian / "usr/bin", self.folder)
        return ":".join([*map(str, own), os.environ.get("PATH", os.defpath)])

    @property
    def libraries(self) -> str:
        places = [*self.debian.glob("lib/*-linux-gnu"), *self.debian.glob("usr/lib/*-linux-gnu")]
        return ":".join(map(str, sorted(places)))

    def path(self, name: str) -> Path:
        return self.folder / name

    def archives(self) -> list[Path]:
        return [self.images / f"{name}.tar" for name in IMAGES]

    def missing(self) -> list[str]:
        wanted = [*(self.path(name) for one in MODULES for name in one.names), self.debian, *self.archives()]
        return [path.name for path in wanted if not path.exists()]

    def ensure(self, report: Report) -> None:
        """Makes what is missing. Of two first starts at once, one makes it and the other waits for it."""
        if not self.missing():
            return
        if lacking := [name for name in ("go", "apt-get", "dpkg-deb") if not shutil.which(name)]:
            raise LabError(f"the node's programs need {', '.join(lacking)}: Debian 12, and Go 1.26 or newer")
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._making(report):
            self._fetch_debian(report)
            for module in MODULES:
                self._build(module, report)
            for name, maker in IMAGES.items():
                self._make_image(name, maker)

    def ensure_system(self, name: str, report: Report) -> Path:
        """The archive of an image of `systems.py`, which nothing but the test of such an image needs."""
        archive = self.systems / f"{name}.tar"
        if archive.exists():
            return archive
        archive.parent.mkdir(parents=True, exist_ok=True)
        with self._making(report), tempfile.TemporaryDirectory(dir=self.systems) as work:
            if not archive.exists():
                report(f"making the image {name} of packages of Debian")
                images.pack(systems.image_of(name, Path(work) / "root"), archive)
        return archive

    def _making(self, report: Report) -> AbstractContextManager[None]:
        waiting = "another start makes the node's programs"
        return locked(self.folder / ".lock", limit=BUILD_LIMIT_S, waiting=lambda: report(waiting))

    def _fetch_debian(self, report: Report) -> None:
        if not self.debian.exists():
            report(f"fetching {len(DEBIAN)} packages of Debian for the node")
            debian.unpack(DEBIAN, self.debian)

    def _build(self, module: Module, report: Report) -> None:
        wanted = [
            package
            for package, name in zip(module.packages, module.names, strict=True)
            if not self.path(name).exists()
        ]
        if not wanted:
            return
        report(f"building {', '.join(module.names)} for the node: some minutes on 2 cores")
        with tempfile.TemporaryDirectory(dir=self.folder) as work:
            flags = ["-ldflags", f"-s -w {module.stamps}".strip(), "-o", f"{work}/"]
            run_build(flags, wanted, module.folder, report)
            for program in Path(work).iterdir():
                program.replace(self.path(program.name))

    def _make_image(self, name: str, maker: images.Maker) -> None:
        archive = self.images / f"{name}.tar"
        program = self.debian / "bin/busybox" if name == "busybox" else self.path(name)
        if not archive.exists():
            images.make(maker, program, archive)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
