"""The official FOCUS validator in an environment of its own: it needs Python 3.12 and an older NumPy than the portal's.

Made once where there is a Python 3.12, from requirements/focus.txt, and kept outside the repository, a lock file a folder.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from deploy.lab.files import CACHE

LOCK = Path(__file__).resolve().parents[1] / "requirements" / "focus.txt"
UV = Path(sys.executable).parent / "uv"


def program() -> Path | None:
    """The command; None where it is not installed."""
    found = _folder() / "bin" / "focus-validator"
    return found if (_folder() / ".complete").exists() else None


def python() -> str | None:
    """A Python 3.12 of this machine that runs: of the path, or of pyenv, whose shims may name one that they do not start."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    folders += sorted(pyenv.glob("versions/3.12*/bin"))
    found = (str(folder / "python3.12") for folder in folders)
    return next(filter(_runs, found), None)


def _runs(interpreter: str) -> bool:
    asked = [interpreter, "-c", "import venv, sys; sys.exit(sys.version_info[:2] != (3, 12))"]
    try:
        return subprocess.run(asked, capture_output=True, check=False, timeout=60).returncode == 0
    except OSError:
        return False


def missing() -> str | None:
    """Install it where it can run. A sentence where that failed; nothing where there is no Python 3.12."""
    interpreter = python()
    if program() is not None or interpreter is None:
        return None
    folder = _folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program() is None and not _installed(interpreter, folder):
            return "the FOCUS validator could not be installed; see above"
    return None


def _installed(interpreter: str, folder: Path) -> bool:
    print("Installing the FOCUS validator", flush=True)
    quiet = ["--quiet", "--python"]
    steps = (
        ["venv", "--clear", *quiet, interpreter, str(folder)],
        ["pip", "install", *quiet, str(folder / "bin" / "python"), "--require-hashes", "-r", str(LOCK)],
    )
    for words in steps:
        if subprocess.run([str(UV), *words], check=False).returncode:
            return False
    (folder / ".complete").touch()
    return True


def _folder() -> Path:
    return CACHE / "gpuaas" / f"focus-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
