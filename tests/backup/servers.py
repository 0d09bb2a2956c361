"""PostgreSQL servers of a test's own, which it may stop, lose and recover."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from django.db import connection

from deploy.embedded.postgres import PROGRAMS

USER = "pgserver"  # of the embedded server, which made it where the suite runs as root


@contextmanager
def home_made() -> Iterator[Path]:
    """A folder that the server's user can enter and owns; short, since a socket lies in it."""
    folder = Path(tempfile.mkdtemp(prefix="gp-wal-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
    for name in ("wal", "base", "data"):
        (folder / name).mkdir()
        if os.geteuid() == 0:
            shutil.chown(folder / name, USER)
    yield folder
    for name in ("data", "restored", "first", "data/restored"):
        if (folder / name / "postmaster.pid").exists():
            program(folder, "pg_ctl", f"--pgdata={folder / name}", "--mode=immediate", "stop")
    shutil.rmtree(folder)


def program(home: Path, name: str, *words: str, programs: str = PROGRAMS) -> None:
    """As the server's user, who is never root."""
    user = USER if os.geteuid() == 0 else None
    group = pwd.getpwnam(USER).pw_gid if user else None
    with (home / "log").open("ab") as log:
        subprocess.run(
            [str(Path(programs) / name), *words],
            check=True,
            cwd=home,
            user=user,
            group=group,
            stdout=log,
            stderr=log,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )


def start(home: Path, data: str, *, programs: str = PROGRAMS) -> None:
    program(
        home,
        "pg_ctl",
        f"--pgdata={home / data}",
        "--wait",
        "--timeout=60",
        f"--log={home / 'server.log'}",
        f"--options=-c listen_addresses='' -c unix_socket_directories={home}",
        "start",
        programs=programs,
    )


def asked(home: Path, *statements: str) -> list[tuple[object, ...]]:
    """What the last statement answers."""
    with psycopg.connect(f"host={home} user=postgres dbname=postgres", autocommit=True) as there:
        for statement in statements[:-1]:
            there.execute(statement.encode())
        return there.execute(statements[-1].encode()).fetchall()


@contextmanager
def portal_on(home: Path, name: str) -> Iterator[None]:
    """Inside, the portal's database is this one of the server of `home`."""
    connection.close()
    own = dict(connection.settings_dict)
    there = {"NAME": name, "HOST": str(home), "PORT": "", "USER": "postgres", "PASSWORD": ""}
    connection.settings_dict.update(there)
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(own)
