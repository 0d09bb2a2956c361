"""The embedded PostgreSQL of a checkout that is gone makes way: it cannot load what it needs any more."""

import shutil
import signal
import subprocess
from pathlib import Path

from deploy.embedded import postgres


def test_a_server_whose_program_was_deleted_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "postgres"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as server:
        try:
            (tmp_path / "postmaster.pid").write_text(f"{server.pid}\n{tmp_path}\n")
            postgres.end_without_programs(tmp_path)
            assert server.poll() is None, "its program is still there"
            program.unlink()
            postgres.end_without_programs(tmp_path)
            assert server.wait(timeout=5) == -signal.SIGINT
        finally:
            server.kill()


def test_where_none_runs_nothing_is_ended(tmp_path: Path) -> None:
    postgres.end_without_programs(tmp_path)
    (tmp_path / "postmaster.pid").write_text("nonsense")
    postgres.end_without_programs(tmp_path)
