"""What the checkout gives to a release: its files without those of work in progress beside them, its time, its wheel."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.embedded.environment import ROOT
from deploy.image.errors import ImageError

BUILT = "frontend/static/frontend"  # by `npm run build`; git does not have it
PACKAGES = ("gpuaas", "tenants", "quotas", "billing", "frontend")
NEEDED = ("pyproject.toml", "LICENSE", "requirements/base.in", *PACKAGES)


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def epoch() -> int:
    """The time of all files of a release, in seconds: SOURCE_DATE_EPOCH, else that of the last commit."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct"))


def revision() -> str:
    return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def wheel(folder: Path) -> Path:
    """Builds the wheel into `folder` from a clean copy, without network; the same bytes from the same files.

    Raises ImageError if the front end is not built.
    """
    if not (ROOT / BUILT / "manifest.json").exists():
        raise ImageError("the front end is not built: make frontend/static/frontend/.stamp")
    with tempfile.TemporaryDirectory() as work:
        source = Path(work, "source")
        names = git("ls-files", "--", *NEEDED).splitlines()
        for name in [
            *names,
            *(str(path.relative_to(ROOT)) for path in (ROOT / BUILT).rglob("*") if path.is_file()),
        ]:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
        ]
        done = subprocess.run(
            [*pip, "--no-cache-dir", "--wheel-dir", str(folder), str(source)],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch())},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise ImageError(f"the wheel cannot be built:\n{done.stdout}{done.stderr}")
    (built,) = folder.glob("gpuaas-*.whl")
    return built
