"""Container images of one layer, made without a registry or a daemon: folders, packed by deploy/image/oci.py."""

import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.image import oci
from deploy.lab.node.settings import REGISTRY

PATHS = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """root: what its one layer has. config: as OCI's image configuration names it (Entrypoint, Cmd, User, …)."""

    name: str
    root: Path
    config: dict[str, Any] = field(default_factory=dict)


def reference(name: str) -> str:
    """By which pods name it. With this tag the kubelet takes the one that is there and asks no registry."""
    return f"{REGISTRY}/{name}:1"


def pack(image: Image, archive: Path) -> None:
    """Writes the archive as a whole, or not at all."""
    config = {"Env": [PATHS], **image.config}
    oci.write(oci.Image(reference(image.name), [oci.Layer(image.root)], config), archive)


def identity(archive: Path) -> tuple[str, str]:
    """The image's reference and the digest of its manifest."""
    with tarfile.open(archive) as packed:
        found = packed.extractfile("index.json")
        assert found is not None
        (manifest,) = json.load(found)["manifests"]
    return manifest["annotations"]["io.containerd.image.name"], manifest["digest"]


def busybox(program: Path, root: Path) -> Image:
    """A shell and what belongs to it, for pods that do something: httpd, nc, wget …"""
    for name in ("bin", "etc", "root", "tmp"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy(program, root / "bin/busybox")
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in set(listed) - {"busybox"}:
        (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nnobody:x:65534:\n")
    return Image("busybox", root, {"Cmd": ["sh"]})


def with_shell(program: Path, root: Path) -> Image:
    """A static program beside a shell, for a pod whose script calls it."""
    made = busybox(program.parent / "debian/bin/busybox", root)
    shutil.copy(program, root / "bin" / program.name)
    return Image(program.name, root, made.config)


def of_program(program: Path, root: Path) -> Image:
    """Nothing but one static program."""
    root.mkdir(parents=True)
    shutil.copy(program, root / program.name)
    return Image(program.name, root, {"Entrypoint": [f"/{program.name}"]})


Maker = Callable[[Path, Path], Image]


def make(maker: Maker, program: Path, archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as work:
        pack(maker(program, Path(work) / "root"), archive)
