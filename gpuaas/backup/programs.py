"""PostgreSQL's own client programs: which are used, of which version, and how they reach the portal's database.

Passwords reach them by the environment of their process, never as an argument that other users of the machine could read.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.db import connection
from django.db.backends.postgresql.client import DatabaseClient

from gpuaas.core.errors import Permanent

NAMES = ("pg_dump", "pg_restore", "psql")
TOLD = 500  # characters of the words with which a program failed


@dataclass(frozen=True)
class Programs:
    """`paths` by name; `version`: PostgreSQL's major version of the oldest of them."""

    paths: dict[str, str]
    version: int

    @contextmanager
    def running(
        self, name: str, *arguments: str, connected: bool = True, **streams: Any
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The program, on the portal's database if `connected`; it has ended when the block has. Raises Permanent with
        its words if it failed. If the block fails, the program is killed."""
        words, secrets = _target() if connected else ([], {})
        environment = {**os.environ, "LC_ALL": "C", **secrets}
        with tempfile.TemporaryFile() as errors:
            command = [self.paths[name], *words, *arguments]
            process = subprocess.Popen(command, env=environment, stderr=errors, **streams)
            try:
                yield process
                if process.stdin is not None:
                    process.stdin.close()
            except BaseException as error:
                own = isinstance(error, BrokenPipeError) and process.stdin is not None
                if own:  # it ended before it had read everything: its words say why
                    _end(process, name, errors)
                process.kill()
                process.wait()
                raise
            _end(process, name, errors)


def programs_find() -> Programs:
    """Raises Permanent if one is missing, or if they are older than the server."""
    folder = settings.POSTGRES_PROGRAMS
    where = f"in {folder} (GPUAAS_POSTGRES_PROGRAMS)" if folder else "in PATH"
    wanted = server_version()
    paths = {name: shutil.which(name, path=folder or None) or "" for name in NAMES}
    if missing := [name for name in NAMES if not paths[name]]:
        raise Permanent(
            f"{', '.join(missing)} not found {where}: install the client programs of PostgreSQL {wanted} or newer"
        )
    version = min(_version(path) for path in paths.values())
    if version < wanted:
        raise Permanent(
            f"the client programs {where} are of PostgreSQL {version}, the server is {wanted}: "
            f"install those of {wanted} or newer and name their folder in GPUAAS_POSTGRES_PROGRAMS"
        )
    return Programs(paths, version)


def server_version() -> int:
    """PostgreSQL's major version."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        (number,) = cursor.fetchone()
    return int(number) // 10_000


def _target() -> tuple[list[str], dict[str, str]]:
    """Arguments and environment that lead to the portal's database."""
    connection.ensure_connection()
    words, secrets = DatabaseClient.settings_to_cmd_args_env(connection.settings_dict, [])
    *where, database = words[1:]
    return [*where, "--dbname", database], secrets or {}


def _end(process: subprocess.Popen[bytes], name: str, errors: IO[bytes]) -> None:
    if code := process.wait():
        errors.seek(0)
        words = errors.read().decode(errors="replace").strip()[:TOLD]
        why = f"it was ended by signal {-code}" if code < 0 else f"it ended with {code}"
        raise Permanent(f"{name} failed: {words or why}")


def _version(path: str) -> int:
    done = subprocess.run([path, "--version"], check=False, capture_output=True, text=True)
    found = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    if found is None:
        raise Permanent(f"{Path(path).name} does not report its version: {done.stderr.strip()[-TOLD:]}")
    return int(found[1])
