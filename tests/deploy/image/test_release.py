"""A release is signed, and whoever has the public key finds out what is not ours or not whole."""

import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.image.errors import ImageError
from deploy.image.release import NAMESPACE, SUMS, sign

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="OpenSSH is not installed")
WHO = "releases@example.org"


def key_make(folder: Path, name: str) -> Path:
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in ("gpuaas-0.2.0-py3-none-any.whl", "gpuaas-0.2.0.tar", "gpuaas-0.2.0.cdx.json"):
        (folder / name).write_text(f"content of {name}")
    return folder


def is_ours(dist: Path, key: Path) -> bool:
    """By the two commands of the README."""
    public = key.with_name(f"{key.name}.pub").read_text().rsplit(" ", 1)[0]
    signers = dist.parent / "signers"
    signers.write_text(f"{WHO} {public}\n")
    signed = ["-Y", "verify", "-f", str(signers), "-I", WHO, "-n", NAMESPACE, "-s", str(dist / f"{SUMS}.sig")]
    with (dist / SUMS).open("rb") as sums:
        verified = subprocess.run(["ssh-keygen", *signed], stdin=sums, capture_output=True, check=False)
    whole = ["sha256sum", "--check", "--strict", "--quiet", SUMS]
    checked = subprocess.run(whole, cwd=dist, capture_output=True, check=False)
    return verified.returncode == checked.returncode == 0


def test_the_signature_is_of_all_three_and_of_this_key(dist: Path, tmp_path: Path) -> None:
    ours, another = key_make(tmp_path, "ours"), key_make(tmp_path, "another")
    sign(dist, ours)
    assert len((dist / SUMS).read_text().splitlines()) == 3
    assert is_ours(dist, ours)
    assert not is_ours(dist, another)
    sign(dist, another)  # once more: what was signed before is gone
    assert not is_ours(dist, ours)


@pytest.mark.parametrize("name", ["gpuaas-0.2.0.tar", SUMS])
def test_another_byte_is_found(dist: Path, tmp_path: Path, name: str) -> None:
    key = key_make(tmp_path, "ours")
    sign(dist, key)
    text = (dist / name).read_text()
    (dist / name).write_text(text.replace("0.2.0", "0.2.1", 1))
    assert not is_ours(dist, key)


def test_what_is_missing_or_twice_is_named(dist: Path, tmp_path: Path) -> None:
    key = key_make(tmp_path, "ours")
    (dist / "gpuaas-0.0.9.tar").touch()
    with pytest.raises(ImageError, match=r"gpuaas-0\.0\.9\.tar, gpuaas-0\.2\.0\.tar"):
        sign(dist, key)
    for path in dist.glob("*.tar"):
        path.unlink()
    with pytest.raises(ImageError, match="has nothing: `make package image` first"):
        sign(dist, key)
    assert not (dist / SUMS).exists()


def test_a_key_that_is_none_is_said(dist: Path, tmp_path: Path) -> None:
    (tmp_path / "no-key").write_text("not a key")
    with pytest.raises(ImageError, match="the key does not sign"):
        sign(dist, tmp_path / "no-key")
    assert not (dist / f"{SUMS}.sig").exists()
