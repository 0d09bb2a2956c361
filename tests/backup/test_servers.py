"""On PostgreSQL servers of the test's own: point in time, as the runbook tells it, and programs newer than the server."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.embedded.postgres import ALL_PROGRAMS
from gpuaas.backup.services.restoring import copy_sql
from tests.backup.servers import USER, asked, program, start


def archiving(home: Path) -> str:
    """A server that archives its WAL, and where its base backup is to lie; it has one row."""
    program(
        home, "initdb", f"--pgdata={home / 'data'}", "--username=postgres", "--auth=trust", "--encoding=UTF8"
    )
    wal = home / "wal"
    with (home / "data" / "postgresql.conf").open("a") as settings:
        settings.write(
            "archive_mode = on\n"
            f"archive_command = 'test ! -f {wal}/%f && cp %p {wal}/%f.tmp && mv {wal}/%f.tmp {wal}/%f'\n"
        )
    start(home, "data")
    asked(
        home,
        "CREATE TABLE written (what text)",
        "INSERT INTO written VALUES ('before the base') RETURNING what",
    )
    return str(home / "base" / "20261123")


def recovering(home: Path, base: str, instant: object) -> None:
    """A server from the base backup and the archived WAL, as it was at that instant."""
    restored = home / "restored"
    shutil.copytree(base, restored)
    (restored / "recovery.signal").touch()
    with (restored / "postgresql.auto.conf").open("a") as settings:
        settings.write(
            f"restore_command = 'cp {home}/wal/%f %p'\n"
            f"recovery_target_time = '{instant}'\n"
            "recovery_target_action = 'promote'\n"
        )
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", USER, str(restored)], check=True)
    restored.chmod(0o700)
    start(home, "restored")


def test_an_instant_between_two_writes(home: Path) -> None:
    base = archiving(home)
    reach = (f"--host={home}", "--username=postgres")
    program(home, "pg_basebackup", f"--pgdata={base}", "--checkpoint=fast", "--wal-method=none", *reach)
    asked(home, "INSERT INTO written VALUES ('wanted') RETURNING what")
    ((instant,),) = asked(home, "SELECT clock_timestamp()::text")
    asked(home, "INSERT INTO written VALUES ('a mistake') RETURNING what")
    asked(home, "DELETE FROM written WHERE what = 'wanted' RETURNING what")
    ((segment,),) = asked(home, "SELECT pg_walfile_name(pg_switch_wal())")
    program(home, "pg_ctl", f"--pgdata={home / 'data'}", "--mode=fast", "stop")  # archives what is left
    assert (home / "wal" / str(segment)).exists()
    shutil.rmtree(home / "data")
    recovering(home, base, instant)
    assert asked(home, "SELECT what FROM written ORDER BY 1") == [("before the base",), ("wanted",)]


def test_programs_newer_than_the_server(home: Path) -> None:
    """pg_restore 17 and newer sets what servers before do not know; what goes to psql is without it."""
    old = ALL_PROGRAMS[16]
    data, dump, plain = f"--pgdata={home / 'data'}", str(home / "base" / "dump"), home / "base" / "plain"
    program(home, "initdb", data, "--username=postgres", "--auth=trust", "--encoding=UTF8", programs=old)
    start(home, "data", programs=old)
    asked(home, "CREATE TABLE written (what text)", "INSERT INTO written VALUES ('kept') RETURNING what")
    reach = (f"--host={home}", "--username=postgres")
    program(home, "pg_dump", *reach, "--format=custom", f"--file={dump}", "postgres")
    program(home, "pg_restore", f"--file={plain}", dump)
    asked(home, "DROP TABLE written", "SELECT 1")
    onto = (*reach, "--dbname=postgres", "--set=ON_ERROR_STOP=1", "--single-transaction")
    with pytest.raises(subprocess.CalledProcessError):
        program(home, "psql", *onto, f"--file={plain}")
    with plain.open("rb") as source, (home / "filtered").open("wb") as target:
        copy_sql(source, target)
    program(home, "psql", *onto, f"--file={home / 'filtered'}")
    assert asked(home, "SELECT what FROM written") == [("kept",)]
