"""Files of a lab: where they are cached, and how they are written."""

import os
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def wait_limit() -> float:
    """For how many seconds each part of a start may take before it counts as failed."""
    return float(os.environ.get("GPUAAS_LAB_WAIT_S", "120"))


def write_private(path: Path, text: str) -> None:
    """Replaces the file as a whole; readable to its owner alone, since most of these files hold keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)
