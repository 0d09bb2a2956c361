"""An archive is a folder: the database in pg_dump's custom format, the sealed keys if asked for, and a manifest.

It is written under a name of its own (`.….partial`) and renamed when all of it is on disk, so that what has its name is
whole. Every file is readable by its owner alone.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from gpuaas.core.errors import Permanent
from gpuaas.core.files import PARTIAL, file_sum, folder_sync

FORMAT = 1
DATABASE, KEYS, MANIFEST, MANIFEST_SUM = (
    "database.dump",
    "keys.sealed",
    "manifest.json",
    "manifest.json.sha256",
)
NAME = re.compile(r"gpuaas-\d{8}T\d{6}\.\d{3}Z")
# what is left of archives that never had their name, that are being deleted, and that were wrong when they were read again
LEFT = re.compile(rf"\.(\d+-[0-9a-f]{{8}}|{NAME.pattern}){re.escape(PARTIAL)}")
WRONG = re.compile(rf"\.{NAME.pattern}\.wrong")


@dataclass(frozen=True)
class Manifest:
    """`taken_at`: the instant of all that is in it; `rows`: by table; `keys`: ids of the encryption keys that its sealed
    values need (`core/crypto.py`); `files`: SHA-256 by name; `server`: PostgreSQL's major version."""

    format: int
    portal: str
    taken_at: str
    server: int
    programs: int
    migrations: list[str]
    rows: dict[str, int]
    keys: list[str]
    files: dict[str, str]

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.taken_at)


@contextmanager
def private_file(path: Path) -> Iterator[IO[bytes]]:
    """A new file of the owner's alone; on disk when the block ends."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def archive_begin(folder: Path) -> Iterator[Path]:
    """A private folder to write to, removed unless `archive_finish` gave it its name; what killed processes have left is removed
    before."""
    work = folder / f".{os.getpid()}-{os.urandom(4).hex()}{PARTIAL}"
    with ExitStack() as held:
        try:
            with _locked(folder):  # nobody takes it for what was left before it is locked itself
                remains_delete(folder)
                work.mkdir(mode=0o700)
                held.enter_context(_locked(work))
        except OSError as error:
            raise Permanent(f"cannot write to {folder}: {error.strerror}") from error
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def remains_delete(folder: Path) -> None:
    """Of archives that were wrong the newest stays, to be looked at."""
    for path in sorted(path for path in folder.iterdir() if WRONG.fullmatch(path.name))[:-1]:
        shutil.rmtree(path, ignore_errors=True)
    for path in [path for path in folder.iterdir() if LEFT.fullmatch(path.name)]:
        with _locked(path, wait=False) as is_left:
            if is_left:
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Whether no other process has it now. The lock ends with the process; a disk that knows none lets nobody have it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def archive_finish(work: Path, manifest: Manifest) -> tuple[Path, str]:
    """The archive under its name, with its manifest; and the manifest's SHA-256."""
    content = json.dumps(asdict(manifest), indent=1, sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()
    with private_file(work / MANIFEST) as file:
        file.write(content)
    with private_file(work / MANIFEST_SUM) as file:
        file.write(f"{digest}  {MANIFEST}\n".encode())
    folder_sync(work)
    moment = manifest.moment
    target = work.parent / f"gpuaas-{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03}Z"
    if target.exists():
        raise Permanent(f"{target} exists already")
    work.rename(target)
    folder_sync(work.parent)
    return target, digest


def archives_delete(folder: Path, *, keep: int) -> list[Path]:
    """Deletes all but the newest archives in the folder, by the instant in their names, and nothing else; returns those.
    What is deleted loses its name first, so that no half of it has one. Raises OSError."""
    found = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name) and path.is_dir())
    old = found[: len(found) - keep] if keep < len(found) else []
    with _locked(folder):
        for path in old:
            going = path.rename(folder / f".{path.name}{PARTIAL}")
            shutil.rmtree(going)
    return old


def archive_read(path: Path) -> Manifest:
    """Its manifest, after every byte of the archive was compared with its sum. Raises Permanent."""
    manifest = manifest_read(path)
    for name, sum_ in manifest.files.items():
        if file_sum(path / name) != sum_:
            raise _damaged(path / name)
    return manifest


def manifest_read(path: Path) -> Manifest:
    """Raises Permanent."""
    try:
        content = (path / MANIFEST).read_bytes()
        recorded = (path / MANIFEST_SUM).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Permanent(f"{path} is no archive, or its backup was interrupted: {error.strerror}") from error
    if path.name.endswith(PARTIAL):
        raise Permanent(f"{path} is what an interrupted backup left: delete it")
    if recorded != f"{hashlib.sha256(content).hexdigest()}  {MANIFEST}\n":
        raise _damaged(path / MANIFEST)
    document: dict[str, Any] = json.loads(content)
    if document["format"] > FORMAT:
        raise Permanent(f"the archive was made by a newer portal ({document['portal']})")
    return Manifest(**document)


def size_of(path: Path) -> int:
    return sum(each.stat().st_size for each in path.iterdir())


def _damaged(path: Path) -> Permanent:
    return Permanent(f"{path} is damaged: its SHA-256 is not the one that was written down")
