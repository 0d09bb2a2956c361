"""An archive is whole or is not there; it is its owner's alone, says what is in it, and notices every wrong byte."""

import fcntl
import json
import os
import resource
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection

from gpuaas.backup import archive
from gpuaas.backup.archive import DATABASE, KEYS, MANIFEST, Manifest
from gpuaas.backup.management.commands.backup import due_in
from gpuaas.backup.models import Backup
from gpuaas.backup.selectors import backup_last
from gpuaas.backup.services import backup_check, backup_make, backups_keep, keys_write, making
from gpuaas.catalog.models import Site
from gpuaas.core.crypto import encrypt_json, key_id
from gpuaas.core.errors import Permanent
from gpuaas.core.files import file_sum
from tenants.models import Project, User
from tests.backup.conftest import PASSPHRASE
from tests.backup.stage import files_in, manage
from tests.frontend.away import away_from_here
from tests.lab.fixtures import until

pytestmark = pytest.mark.django_db(transaction=True)
KEY = "dGVzdC1vbmx5LWtleS10aGF0LWVuY3J5cHRzLW5vdGg="
LITTLE = 20_000  # bytes; the archive of an empty portal is larger


def test_it_holds_one_instant_and_is_private(folder: Path, alice: User, project: Project, site: Site) -> None:
    Site.objects.filter(pk=site.pk).update(credentials=encrypt_json({"token": "a secret of the site"}))
    path = backup_make(folder=folder, passphrase=PASSPHRASE)
    assert files_in(folder) == [path.name]
    assert files_in(path) == [DATABASE, KEYS, MANIFEST, f"{MANIFEST}.sha256"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.iterdir()} == {0o600}
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    manifest = backup_check(path=path)
    assert (manifest.rows["tenants_user"], manifest.rows["tenants_project"]) == (1, 1)
    assert not {"django_session", "core_cache", "core_process"} & manifest.rows.keys()
    # whose archive it is would else be somebody who is signed in
    with_sessions = [each._meta.db_table for each in apps.get_models() if hasattr(each, "session_key")]
    assert not {*with_sessions} & manifest.rows.keys()
    assert manifest.keys == [key_id(KEY)]
    assert "backup.0001_backup" in manifest.migrations
    row = backup_last()
    assert row is not None
    assert (row.name, row.taken_at, row.with_keys) == (path.name, manifest.moment, True)
    for each in path.iterdir():
        assert KEY.encode() not in each.read_bytes(), each.name
        assert PASSPHRASE.encode() not in each.read_bytes(), each.name


def test_one_that_goes_on_makes_the_next_when_the_newest_is_old_enough(
    folder: Path, transactional_db: None
) -> None:
    assert due_in(None, hours=24) == 0
    with going_on(folder):
        until(lambda: backup_last() is not None and len(files_in(folder)) == 1, "the first archive")
    row = backup_last()
    assert row is not None
    assert 86_000 < due_in(row, hours=24) <= 86_400
    row.taken_at -= timedelta(hours=25)
    assert due_in(row, hours=24) == pytest.approx(-3600, abs=120)
    row.save()
    with going_on(folder):  # it was not there when one was due
        until(lambda: Backup.objects.count() == len(files_in(folder)) == 2, "the second archive")


def test_one_that_goes_on_tells_what_failed_and_tries_again_later(
    tmp_path: Path, transactional_db: None
) -> None:
    with going_on(tmp_path / "is-not-there") as process:
        assert process.stderr is not None
        assert "is-not-there" in process.stderr.readline()
        assert process.poll() is None


@contextmanager
def going_on(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    process = manage("backup", str(folder), "--every", "24")
    try:
        yield process
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_it_goes_on_when_the_database_answers_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slept = list[float]()
    with ExitStack() as stack:
        stack.enter_context(away_from_here())

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            assert files_in(folder) == [] if len(slept) == 1 else len(files_in(folder)) == 1
            if len(slept) == 2:
                raise KeyboardInterrupt
            stack.close()

        monkeypatch.setattr("gpuaas.backup.management.commands.backup.time.sleep", sleep)
        with pytest.raises(KeyboardInterrupt):
            call_command("backup", str(folder), "--every", "24")
    assert slept[0] == 600
    assert "connection" in capsys.readouterr().err


def test_the_newest_are_kept_and_nothing_else_is_deleted(
    folder: Path, transactional_db: None, capsys: pytest.CaptureFixture[str]
) -> None:
    days = [f"gpuaas-202601{day:02}T020000.000Z" for day in (1, 2, 3)]
    others = ["gpuaas-of-last-year", ".1-ab.partial", "gpuaas-20260101T020000.000Z.copy"]
    for name in (*days, *others):
        (folder / name).mkdir()
        (folder / name / MANIFEST).write_text("{}")
    call_command("backup", str(folder), "--keep", "2")
    said = capsys.readouterr().out
    kept = set(files_in(folder))
    (made,) = kept - {*days, *others}
    assert kept == {made, days[2], *others}
    assert "every sum is right" in said
    assert [line for line in said.splitlines() if line.endswith(": deleted")] == [
        f"{folder / name}: deleted" for name in days[:2]
    ]
    assert backups_keep(folder=folder, keep=2) == []
    with pytest.raises(CommandError, match="at least 1"):
        call_command("backup", str(folder), "--keep", "0")


def test_keys_come_out_with_the_passphrase_alone(folder: Path, tmp_path: Path) -> None:
    path = backup_make(folder=folder, passphrase=PASSPHRASE)
    with pytest.raises(Permanent, match="passphrase is not the one"):
        keys_write(path=path, to=tmp_path / "keys", passphrase="another long passphrase")
    assert not (tmp_path / "keys").exists()
    assert keys_write(path=path, to=tmp_path / "keys", passphrase=PASSPHRASE) == [KEY]
    assert (tmp_path / "keys").read_text() == KEY
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o600
    with pytest.raises(Permanent, match="File exists"):
        keys_write(path=path, to=tmp_path / "keys", passphrase=PASSPHRASE)


def test_a_dump_may_take_longer_than_a_transaction_may_be_idle(folder: Path) -> None:
    """Production ends a session that does nothing in its transaction for a minute; the snapshot's own does just that."""
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '20ms'")
    try:
        assert backup_check(path=backup_make(folder=folder)).rows
    finally:
        connection.close()


@pytest.mark.parametrize("command", ["backup", "backup_keys"])
def test_a_missing_passphrase_is_named(command: str, folder: Path, tmp_path: Path) -> None:
    words = ["--with-keys"] if command == "backup" else ["--to", str(tmp_path / "keys")]
    with pytest.raises(CommandError, match=r"GPUAAS_BACKUP_PASSPHRASE .* is not set"):
        call_command(command, str(folder), *words)
    assert list(folder.iterdir()) == []


def test_a_short_passphrase_is_refused_and_none_means_no_keys(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="at least 16 characters"):
        backup_make(folder=folder, passphrase="short")
    assert files_in(folder) == []
    path = backup_make(folder=folder)
    assert KEYS not in files_in(path)
    with pytest.raises(Permanent, match="made without the encryption keys"):
        keys_write(path=path, to=tmp_path / "keys", passphrase=PASSPHRASE)


def test_each_wrong_or_missing_byte_is_noticed(folder: Path, tmp_path: Path) -> None:
    path = backup_make(folder=folder, passphrase=PASSPHRASE)
    for name in files_in(path):
        copy = tmp_path / f"flipped-{name}"
        shutil.copytree(path, copy)
        content = bytearray((copy / name).read_bytes())
        content[len(content) // 2] ^= 1
        (copy / name).write_bytes(content)
        with pytest.raises(Permanent, match="is damaged"):
            backup_check(path=copy)
        (copy / name).unlink()
        with pytest.raises(Permanent, match=r"is damaged|is no archive"):
            backup_check(path=copy)
    backup_check(path=path)
    left = path.rename(folder / f".1-ab{'.partial'}")
    with pytest.raises(Permanent, match="interrupted backup"):
        backup_check(path=left)


def test_what_killed_backups_left_is_removed_and_nothing_else(folder: Path, site: Site) -> None:
    whole = backup_make(folder=folder)
    left = [".4711-0123abcd.partial", ".gpuaas-20260101T020000.000Z.partial"]
    wrong = [f".gpuaas-202601{day:02}T020000.000Z.wrong" for day in (1, 2, 3)]
    others = [".4712-0123abcd.partial", ".mine.partial", ".mine.wrong"]
    for name in (*left, *wrong, *others):
        (folder / name).mkdir()
        (folder / name / DATABASE).write_text("half")
    alive = os.open(folder / others[0], os.O_RDONLY)
    fcntl.flock(alive, fcntl.LOCK_EX)  # as whoever writes to it does
    made = backup_make(folder=folder)
    assert set(files_in(folder)) == {whole.name, made.name, wrong[-1], *others}
    os.close(alive)
    last = backup_make(folder=folder)
    assert set(files_in(folder)) == {whole.name, made.name, last.name, wrong[-1], *others[1:]}


def test_one_that_is_wrong_takes_the_place_of_the_last(
    folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = folder / ".gpuaas-20260101T020000.000Z.wrong"
    before.mkdir()

    def damaged(work: Path, manifest: Manifest) -> tuple[Path, str]:
        with (work / DATABASE).open("r+b") as file:
            file.write(b"no")
        return archive.archive_finish(work, manifest)

    monkeypatch.setattr(making, "archive_finish", damaged)
    with pytest.raises(Permanent, match="is damaged"):
        backup_make(folder=folder)
    (name,) = files_in(folder)
    assert name.endswith(".wrong")
    assert name != before.name


def test_a_new_archive_is_read_once(
    folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read: list[str] = []

    def noted(path: Path) -> str:
        read.append(path.name)
        return file_sum(path)

    monkeypatch.setattr(archive, "file_sum", noted)
    call_command("backup", folder)
    assert read == [DATABASE]
    assert "every sum is right" in capsys.readouterr().out


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """No file of this process or its children grows beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_nothing(folder: Path, site: Site) -> None:
    with disk_of(LITTLE), pytest.raises(Permanent, match="pg_dump failed"):
        backup_make(folder=folder)
    assert files_in(folder) == []
    assert backup_last() is None
    assert (backup_make(folder=folder) / DATABASE).stat().st_size > LITTLE


def test_programs_that_are_missing_or_older_are_named(folder: Path, tmp_path: Path, settings: Any) -> None:
    settings.POSTGRES_PROGRAMS = str(tmp_path)
    with pytest.raises(Permanent, match=r"pg_dump, pg_restore, psql not found in .*GPUAAS_POSTGRES_PROGRAMS"):
        backup_make(folder=folder)
    connection.ensure_connection()
    for name in ("pg_dump", "pg_restore", "psql"):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) 14.2'\n")
        script.chmod(0o755)
    with pytest.raises(Permanent, match="are of PostgreSQL 14, the server is"):
        backup_make(folder=folder)
    assert files_in(folder) == []


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match=r"cannot write to .*No such file"):
        backup_make(folder=tmp_path / "nowhere")


def test_the_commands(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUAAS_BACKUP_PASSPHRASE", PASSPHRASE)
    call_command("backup", folder, "--with-keys")
    (name,) = files_in(folder)
    call_command("backup", folder / name, "--check")
    call_command("backup_keys", folder / name, "--to", tmp_path / "keys")
    said = capsys.readouterr().out
    assert said.count("every sum is right") == 2
    assert f"keys with the ids {key_id(KEY)}" in said
    assert KEY not in said
    with pytest.raises(CommandError, match="is no archive"):
        call_command("backup", tmp_path, "--check")
    assert Backup.objects.count() == 1
    assert json.loads((folder / name / MANIFEST).read_text())["format"] == 1
