"""Helpers: the portal on another database, its programs as processes, and a site that a restore does not move."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

from deploy.embedded.postgres import PROGRAMS
from tests.metering.meters import ROOT, environment_here


@contextmanager
def elsewhere(name: str) -> Iterator[None]:
    """Inside, the portal's database is this one of the same server."""
    own = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = name
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = own


def manage(*words: str, **more: str) -> subprocess.Popen[str]:
    """`manage.py` as a process on the present database, in a group of its own."""
    connection.ensure_connection()
    environment = {**environment_here(), "GPUAAS_POSTGRES_PROGRAMS": PROGRAMS, **more}
    return subprocess.Popen(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def program(name: str, *words: str, database: str) -> None:
    given = connection.settings_dict
    where = ["-U", str(given["USER"]), "-h", str(given["HOST"]), "-d", database]
    if given["PORT"]:
        where += ["-p", str(given["PORT"])]
    environment = {**os.environ, "PGPASSWORD": str(given["PASSWORD"] or "")}
    command = [str(Path(PROGRAMS) / name), *where, *words]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def site_carry(source: str, target: str, file: Path) -> None:
    """The simulated site of `source` goes on beside the database `target`, as a real one does while a portal is restored."""
    program("pg_dump", "--data-only", "--table=public.sandbox_*", f"--file={file}", database=source)
    with elsewhere(target), connection.cursor() as cursor:
        cursor.execute(
            "SELECT string_agg(format('%I', tablename), ', ') FROM pg_tables WHERE tablename LIKE 'sandbox\\_%'"
        )
        (names,) = cursor.fetchone()
        cursor.execute(f"TRUNCATE {names} CASCADE")
    program("psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={file}", database=target)


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
