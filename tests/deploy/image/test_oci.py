"""Layers and the archive: the same bytes whoever built them, with nothing of who did."""

import json
import os
import tarfile
from pathlib import Path
from typing import Any

from deploy.image import oci


def tree(folder: Path, *, umask: int, when: int) -> Path:
    """The same files in another order, with other times and rights."""
    kept = os.umask(umask)
    try:
        names = ["usr/bin/program", "usr/share/text", "etc/conf"]
        for name in names if when % 2 else reversed(names):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
            os.utime(path, (when, when))
        (folder / "usr/bin/program").chmod(0o755 & ~umask)
        (folder / "usr/bin/link").symlink_to("program")
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
    finally:
        os.umask(kept)
    return folder


def image(*layers: oci.Layer) -> oci.Image:
    return oci.Image("example.org/tool:2", layers, {"User": "10001", "Cmd": ["tool"]}, 1_700_000_000)


def documents(archive: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(index, manifest, configuration)."""
    with tarfile.open(archive) as packed:

        def read(name: str) -> dict[str, Any]:
            found = packed.extractfile(name)
            assert found
            content: dict[str, Any] = json.load(found)
            return content

        def blob(descriptor: dict[str, Any]) -> dict[str, Any]:
            return read(f"blobs/{descriptor['digest'].replace(':', '/')}")

        index = read("index.json")
        manifest = blob(index["manifests"][0])
        return index, manifest, blob(manifest["config"])


def test_order_times_and_umask_of_who_builds_are_not_in_it(tmp_path: Path) -> None:
    made = []
    for number, umask in ((1, 0o022), (1_000_000_000, 0o077)):
        root = tree(tmp_path / str(number), umask=umask, when=number)
        archive = tmp_path / f"{number}.tar"
        made.append((oci.write(image(oci.Layer(root, time=1_600_000_000)), archive), archive.read_bytes()))
    assert made[0] == made[1]
    assert not list(tmp_path.glob("*.new"))


def test_a_layer_keeps_what_a_package_decides(tmp_path: Path) -> None:
    with (tmp_path / "layer.tar").open("wb") as file:
        oci.pack(tree(tmp_path / "root", umask=0o027, when=1), file, time=7)
    with tarfile.open(tmp_path / "layer.tar") as packed:
        entries = {entry.name: entry for entry in packed}
    assert list(entries) == sorted(entries)
    modes = {name: entry.mode for name, entry in entries.items()}
    assert (modes["usr/bin/program"], modes["etc/conf"], modes["usr"], modes["tmp"]) == (
        0o755,
        0o644,
        0o755,
        0o1777,
    )
    assert entries["usr/bin/link"].linkname == "program"
    assert {(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in entries.values()} == {
        (0, 0, "root", 7)
    }


def test_layers_stand_in_their_order_and_are_told_in_the_history(tmp_path: Path) -> None:
    lower, upper = tree(tmp_path / "lower", umask=0o022, when=1), tmp_path / "upper"
    (lower / "large").write_text("x" * 20_000)
    upper.mkdir()
    (upper / "more").write_text("")
    archive = tmp_path / "out" / "tool.tar"
    digest = oci.write(image(oci.Layer(lower, "base"), oci.Layer(upper, "ours")), archive)
    index, manifest, config = documents(archive)
    assert index["manifests"][0]["digest"] == digest
    assert index["manifests"][0]["annotations"] == {
        "io.containerd.image.name": "example.org/tool:2",
        "org.opencontainers.image.ref.name": "2",
    }
    assert [layer["digest"] for layer in manifest["layers"]] == config["rootfs"]["diff_ids"]
    assert manifest["layers"][0]["size"] > manifest["layers"][1]["size"]
    assert [step["created_by"] for step in config["history"]] == ["base", "ours"]
    assert (config["created"], config["config"]["User"]) == ("2023-11-14T22:13:20Z", "10001")
