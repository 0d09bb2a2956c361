"""Images from folders: the same bytes from the same files, whatever hour it is and whoever owns them."""

import hashlib
import json
import os
import tarfile
from pathlib import Path

from deploy.lab.node import images
from deploy.lab.node.images import Image


def root(folder: Path, *, when: int) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "tool").write_text("#!/bin/sh\n")
    (folder / "bin" / "tool").chmod(0o755)
    (folder / "bin" / "link").symlink_to("tool")
    os.utime(folder / "bin" / "tool", (when, when))
    return folder


def test_the_same_files_are_the_same_image(tmp_path: Path) -> None:
    packed = []
    for when in (1, 2_000_000_000):
        archive = tmp_path / f"{when}.tar"
        made = Image("tool", root(tmp_path / str(when), when=when), {"Cmd": ["tool"]})
        images.pack(made, archive)
        packed.append(archive)
    first, second = (path.read_bytes() for path in packed)
    assert first == second
    assert images.identity(packed[0]) == images.identity(packed[1])
    assert not list(tmp_path.glob("*.new"))


def test_each_part_is_named_by_its_digest(tmp_path: Path) -> None:
    archive = tmp_path / "tool.tar"
    images.pack(Image("tool", root(tmp_path / "root", when=1), {"User": "65534"}), archive)
    with tarfile.open(archive) as packed:
        parts = {name: packed.extractfile(name) for name in packed.getnames()}
        content = {name: part.read() for name, part in parts.items() if part}
    blobs = {name.removeprefix("blobs/sha256/"): text for name, text in content.items() if "sha256" in name}
    assert all(hashlib.sha256(text).hexdigest() == name for name, text in blobs.items())
    reference, digest = images.identity(archive)
    assert reference == "lab.gpuaas.io/tool:1"
    manifest = json.loads(blobs[digest.removeprefix("sha256:")])
    config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    assert config["config"]["User"] == "65534"
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]


def test_a_layer_keeps_modes_and_links_and_is_roots(tmp_path: Path) -> None:
    archive = tmp_path / "tool.tar"
    images.pack(Image("tool", root(tmp_path / "root", when=1)), archive)
    with tarfile.open(archive) as packed:
        largest = max(packed, key=lambda entry: entry.size)  # the others are a few lines of JSON
        layer = packed.extractfile(largest)
        assert layer
        with tarfile.open(fileobj=layer) as found:
            entries = {one.name: one for one in found}
    assert sorted(entries) == ["bin", "bin/link", "bin/tool"]
    assert entries["bin/tool"].mode == 0o755
    assert entries["bin/link"].linkname == "tool"
    assert {(one.uid, one.gid, one.mtime) for one in entries.values()} == {(0, 0, 0)}
