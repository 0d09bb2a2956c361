"""The embedded PostgreSQL of a checkout that is gone makes way: it cannot load what it needs any more."""

import shutil
import signal
import subprocess
import tempfile
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


def test_its_own_programs_are_copied_once_and_work(tmp_path: Path) -> None:
    kept = postgres.programs_kept(tmp_path)
    made = kept.stat().st_ino
    assert postgres.programs_kept(tmp_path).stat().st_ino == made
    assert len(list(tmp_path.iterdir())) == 1
    said = subprocess.run([kept / "postgres", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("postgres (PostgreSQL)")


def test_a_server_that_outlives_its_checkout_runs_by_them() -> None:
    """Not in pytest's own folder, which every session closes to other users again: root's PostgreSQL is one."""
    with tempfile.TemporaryDirectory(prefix="gpuaas-own-") as name:
        folder = Path(name) / "postgres"
        url = postgres.start(folder, postgres.TEST_OPTIONS, outlives_checkout=True)
        try:
            pid = (folder / "postmaster.pid").read_text().split()[0]
            program = Path(f"/proc/{pid}/exe").readlink()
            assert program == postgres.programs_kept(Path(name)) / "postgres"
            assert postgres.answers(url)
        finally:
            postgres.stop(folder)


def test_where_none_runs_nothing_is_ended(tmp_path: Path) -> None:
    postgres.end_without_programs(tmp_path)
    (tmp_path / "postmaster.pid").write_text("nonsense")
    postgres.end_without_programs(tmp_path)
