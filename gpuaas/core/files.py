"""Files that have their name only when all of them is on disk."""

import hashlib
import os
from pathlib import Path

PARTIAL = ".partial"  # ends the name of what is still being written, or was left by who was killed


def file_sum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal; '' if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def folder_sync(folder: Path) -> None:
    """Names in the folder are on disk when it returns. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
