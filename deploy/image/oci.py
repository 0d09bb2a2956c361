"""An OCI image as one archive, without registry or daemon: folders become layers, the same bytes from the same files.

Layers are not compressed: what compresses differs from machine to machine, and whatever pushes the image compresses.
"""

import hashlib
import json
import platform
import stat
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TYPES = "application/vnd.oci.image"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Layer:
    """What is in `root`, as of `time` (seconds since 1970). made_of: for people, in the image's history."""

    root: Path
    made_of: str = ""
    time: int = 0


@dataclass(frozen=True)
class Image:
    """name: with its tag, as containerd stores it. config: as OCI's image configuration names it (Entrypoint, Env …)."""

    name: str
    layers: Sequence[Layer]
    config: dict[str, Any]
    time: int = 0
    annotations: dict[str, str] = field(default_factory=dict)


def write(image: Image, archive: Path) -> str:
    """Writes the archive as a whole, or not at all: the digest of the image's manifest."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    new = archive.with_name(archive.name + ".new")
    with tempfile.TemporaryDirectory(dir=archive.parent) as work:
        digest = _layout(image, Path(work))
        with new.open("wb") as file:
            pack(Path(work), file)
    new.replace(archive)
    return digest


def pack(root: Path, file: Any, *, time: int = 0) -> None:
    """A tar in the order of names, all of it root's and of one time; of the modes only what a package decides is kept."""
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as out:

        def normal(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = time
            entry.mode = _mode(entry)
            return entry

        for path in sorted(root.rglob("*")):
            out.add(path, str(path.relative_to(root)), recursive=False, filter=normal)


def _mode(entry: tarfile.TarInfo) -> int:
    """The umask of who builds is not kept; a folder that all may write to stays one (/tmp)."""
    if entry.issym():
        return 0o777
    if entry.isdir():
        return 0o1777 if entry.mode & stat.S_ISVTX else 0o755
    return 0o755 if entry.mode & stat.S_IXUSR else 0o644


def _layout(image: Image, folder: Path) -> str:
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    layers = [_layer(layer, blobs) for layer in image.layers]
    created = datetime.fromtimestamp(image.time, UTC).isoformat().replace("+00:00", "Z")
    config = {
        "architecture": ARCHITECTURES[platform.machine()],
        "config": image.config,
        "created": created,
        "history": [{"created": created, "created_by": layer.made_of} for layer in image.layers],
        "os": "linux",
        "rootfs": {"diff_ids": [layer["digest"] for layer in layers], "type": "layers"},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{TYPES}.manifest.v1+json",
        "config": _json(f"{TYPES}.config.v1+json", config, blobs),
        "layers": layers,
        "annotations": image.annotations,
    }
    described = _json(f"{TYPES}.manifest.v1+json", manifest, blobs)
    tag = image.name.rpartition(":")[2]
    names = {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": tag}
    index = {
        "schemaVersion": 2,
        "mediaType": f"{TYPES}.index.v1+json",
        "manifests": [{**described, "annotations": names}],
    }
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(described["digest"])


def _layer(layer: Layer, blobs: Path) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile(dir=blobs, delete=False) as file:
        pack(layer.root, file, time=layer.time)
    return _named(f"{TYPES}.layer.v1.tar", Path(file.name))


def _json(kind: str, content: dict[str, Any], blobs: Path) -> dict[str, Any]:
    path = blobs / "new"
    path.write_text(json.dumps(content, sort_keys=True))
    return _named(kind, path)


def _named(kind: str, path: Path) -> dict[str, Any]:
    """Moves the file to the name that is its digest: its descriptor."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = path.stat().st_size
    path.replace(path.parent / digest)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}
