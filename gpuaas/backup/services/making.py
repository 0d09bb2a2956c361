"""Archives are made and looked into here; nothing of the portal waits for it, and nothing is locked."""

import subprocess
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction

from gpuaas import __version__
from gpuaas.backup.archive import (
    DATABASE,
    FORMAT,
    KEYS,
    Manifest,
    archive_begin,
    archive_finish,
    archive_read,
    archives_delete,
    private_file,
    remains_delete,
    size_of,
)
from gpuaas.backup.contents import NOT_KEPT, migrations_applied, rows_count
from gpuaas.backup.models import Backup
from gpuaas.backup.programs import Programs, programs_find, server_version
from gpuaas.backup.seal import seal, unseal
from gpuaas.core import clock
from gpuaas.core.errors import Permanent
from gpuaas.core.files import file_sum
from gpuaas.core.outside import outside_transaction
from gpuaas.core.rotation import keys_used

ENCRYPTION_KEYS = "GPUAAS_ENCRYPTION_KEYS"


def backup_make(*, folder: Path, passphrase: str = "") -> Path:
    """A new archive in `folder`, of one instant; with the encryption keys if there is a passphrase to seal them.
    Raises Permanent, and then there is no archive of that name; one that was wrong when it was read again stays beside its name, to be
    looked at."""
    outside_transaction()
    programs = programs_find()
    with archive_begin(folder) as work:
        if passphrase:
            with private_file(work / KEYS) as file:
                file.write(seal({ENCRYPTION_KEYS: list(settings.ENCRYPTION_KEYS)}, passphrase))
        manifest = _dump(programs, work)
        size = size_of(work)
        path, digest = archive_finish(work, manifest)
    try:
        backup_check(path=path)
    except Permanent:
        # under a name that no archive has, so that it counts as none
        path.rename(path.with_name(f".{path.name}.wrong"))
        remains_delete(folder)
        raise
    Backup.objects.create(
        name=path.name,
        taken_at=manifest.moment,
        finished_at=clock.now(),
        size_bytes=size,
        digest=digest,
        with_keys=bool(passphrase),
    )
    return path


def backup_check(*, path: Path) -> Manifest:
    """Raises Permanent if a byte of it is wrong or if pg_restore cannot read it."""
    manifest = archive_read(path)
    listing = ("--list", str(path / DATABASE))
    with programs_find().running("pg_restore", *listing, connected=False, stdout=subprocess.DEVNULL):
        pass
    return manifest


def backups_keep(*, folder: Path, keep: int) -> list[Path]:
    """Deletes all but the newest `keep` archives in the folder; returns the names that they had. Raises Permanent."""
    try:
        return archives_delete(folder, keep=keep)
    except OSError as error:
        raise Permanent(f"cannot delete an old archive in {folder}: {error.strerror}") from error


def keys_write(*, path: Path, to: Path, passphrase: str) -> list[str]:
    """Writes the keys of the archive to a new private file, as GPUAAS_ENCRYPTION_KEYS_FILE reads them. Raises
    Permanent if the archive has none, or if the passphrase is another one."""
    if KEYS not in archive_read(path).files:
        raise Permanent(f"{path} was made without the encryption keys")
    keys: list[str] = unseal((path / KEYS).read_bytes(), passphrase)[ENCRYPTION_KEYS]
    try:
        with private_file(to) as file:
            file.write(",".join(keys).encode())
    except OSError as error:
        raise Permanent(f"cannot write {to}: {error.strerror}") from error
    return keys


def _dump(programs: Programs, work: Path) -> Manifest:
    """What is counted and what pg_dump writes are of the same snapshot."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # it waits while pg_dump reads
        cursor.execute("SELECT pg_export_snapshot(), now()")
        snapshot, taken_at = cursor.fetchone()
        words = ["--format=custom", "--no-large-objects", f"--snapshot={snapshot}"]
        words += [f"--exclude-table-data=public.{name}" for name in NOT_KEPT]
        with private_file(work / DATABASE) as file, programs.running("pg_dump", *words, stdout=file):
            rows, migrations, keys = rows_count(), migrations_applied(), keys_used()
    return Manifest(
        format=FORMAT,
        portal=__version__,
        taken_at=taken_at.isoformat(),
        server=server_version(),
        programs=programs.version,
        migrations=migrations,
        rows=rows,
        keys=keys,
        files={each.name: file_sum(each) for each in sorted(work.iterdir())},
    )
