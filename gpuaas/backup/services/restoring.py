"""An archive becomes the portal's database again, in one transaction whose COMMIT this process writes last.

pg_restore turns the archive into SQL, which goes through this process to psql. If any of the three dies, psql reads the
end of its input without a COMMIT, and the database is as it was.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from psycopg import sql

from gpuaas import __version__
from gpuaas.backup.archive import DATABASE, KEYS, MANIFEST, Manifest, size_of
from gpuaas.backup.contents import rows_count, tables
from gpuaas.backup.models import Backup
from gpuaas.backup.programs import Programs, programs_find, server_version
from gpuaas.backup.services.closing import closing_sql, stopped_require
from gpuaas.backup.services.making import backup_check
from gpuaas.catalog.services import sites_unconfirm
from gpuaas.core import clock
from gpuaas.core.crypto import key_id
from gpuaas.core.errors import Conflict, Permanent
from gpuaas.core.files import file_sum
from gpuaas.core.outside import outside_transaction
from tenants.actors import SYSTEM
from tenants.audit import audit_record

# pg_restore 17 and newer set it for whatever server will read the statements; older servers refuse it.
UNKNOWN_TO_16 = b"SET transaction_timeout = 0;\n"

EMPTY = """
DROP SCHEMA public CASCADE;
CREATE SCHEMA public AUTHORIZATION pg_database_owner;
GRANT USAGE ON SCHEMA public TO PUBLIC;
"""


@dataclass(frozen=True)
class Restored:
    """`rows`: by table, as counted in the database afterwards; `pending`: migrations that it lacks."""

    manifest: Manifest
    rows: dict[str, int]
    pending: list[str]


def restore(
    *, path: Path, replace: bool = False, migrate: bool = False, revoke_tokens: bool = False
) -> Restored:
    """Raises Permanent or Conflict before anything is written, or Permanent with the database as it was.

    replace: a database that has tables is emptied in the same transaction. migrate: runs what is pending afterwards.
    revoke_tokens: a token that was revoked after the backup would be valid again, so all of them end.
    """
    outside_transaction()
    manifest = backup_check(path=path)
    programs = programs_find()
    _fits(manifest, with_keys=KEYS in manifest.files)
    _ready(replace=replace)
    _write(programs, path, manifest, replace=replace, revoke_tokens=revoke_tokens)
    if migrate:
        call_command("migrate", interactive=False, verbosity=0)
    pending = _pending()
    if not pending:
        sites_unconfirm()  # once more: a migration may only now have made the column, and pages show it
        _note(path, manifest)
    return Restored(manifest, rows_count(), pending)


def _fits(manifest: Manifest, *, with_keys: bool) -> None:
    """This release can read it, this server too, and the keys are here."""
    known = MigrationExecutor(connection).loader.disk_migrations
    names = {f"{app}.{name}" for app, name in known}
    names |= {f"{app}.{name}" for row in known.values() for app, name in row.replaces}
    newer = sorted(set(manifest.migrations) - names)
    if newer or _numbers(manifest.portal) > _numbers(__version__):
        raise Permanent(
            f"the archive was made by a newer portal ({manifest.portal}; this is {__version__})"
            + (f": migration {newer[0]} is unknown here" if newer else "")
        )
    if manifest.server > server_version():
        raise Permanent(
            f"the archive is of PostgreSQL {manifest.server}, the server is {server_version()}: use one of "
            f"{manifest.server} or newer"
        )
    missing = sorted(set(manifest.keys) - {key_id(key) for key in settings.ENCRYPTION_KEYS})
    if missing:
        have = (
            "`gpuaas-portal backup_keys` takes them out of this archive"
            if with_keys
            else "this archive has none"
        )
        raise Permanent(
            f"GPUAAS_ENCRYPTION_KEYS lacks the keys with the ids {', '.join(missing)}, without which sites cannot be "
            f"reached: {have}"
        )


def _ready(*, replace: bool) -> None:
    """The database is empty, or may be emptied and is used by no process of the portal."""
    found = tables()
    if not found:
        return
    if not replace:
        raise Conflict(
            f"the database has {len(found)} tables: restore into an empty one, or say --replace to delete all that is in it"
        )
    if "core_process" in found:
        stopped_require()


def _write(programs: Programs, path: Path, manifest: Manifest, *, replace: bool, revoke_tokens: bool) -> None:
    words = ("--no-psqlrc", "--quiet", "--output=/dev/null", "--set=ON_ERROR_STOP=1", "--file=-")
    reading = ("--no-owner", "--no-privileges", "--file=-", str(path / DATABASE))
    with programs.running("psql", *words, stdin=subprocess.PIPE) as writer:
        target = writer.stdin
        assert target is not None  # noqa: S101  a pipe was asked for
        target.write(b"BEGIN;\nSET LOCAL lock_timeout = '30s';\nSET LOCAL client_min_messages = warning;\n")
        if replace:
            target.write(EMPTY.encode())
        with programs.running("pg_restore", *reading, connected=False, stdout=subprocess.PIPE) as reader:
            assert reader.stdout is not None  # noqa: S101  likewise
            copy_sql(reader.stdout, target)
        closing = closing_sql(revoke_tokens=revoke_tokens)
        target.write(f"{_counted(manifest)}\n{closing}COMMIT;\n".encode())


def copy_sql(source: IO[bytes], target: IO[bytes]) -> None:
    """From pg_restore to psql, without what an older server does not know."""
    for line in source:
        if line != UNKNOWN_TO_16:
            target.write(line)
        if line.startswith(b"SET client_encoding"):
            break
    shutil.copyfileobj(source, target, 1 << 20)


def _counted(manifest: Manifest) -> str:
    """Refuses to go on if a table does not have the rows that were counted when the archive was made."""
    each = [
        sql.SQL("SELECT {}, {}::bigint, count(*) FROM public.{}").format(
            sql.Literal(name), sql.Literal(count), sql.Identifier(name)
        )
        for name, count in manifest.rows.items()
    ]
    check = sql.SQL(
        "DO $$ DECLARE wrong text; BEGIN SELECT string_agg(place, ', ') INTO wrong FROM ({}) t (place, told, counted) "
        "WHERE told <> counted; IF wrong IS NOT NULL THEN RAISE EXCEPTION 'rows are missing in %', wrong; END IF; END $$;"
    ).format(sql.SQL(" UNION ALL ").join(each))
    return check.as_string(None)


def _pending() -> list[str]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def _note(path: Path, manifest: Manifest) -> None:
    """The archive is known again, and the audit log says from when on its entries are missing."""
    row, _ = Backup.objects.get_or_create(
        digest=file_sum(path / MANIFEST),
        defaults={
            "name": path.name,
            "taken_at": manifest.moment,
            "finished_at": clock.now(),
            "size_bytes": size_of(path),
            "with_keys": KEYS in manifest.files,
        },
    )
    audit_record(actor=SYSTEM, action="backup.restore", target=row, after={"taken_at": manifest.taken_at})


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
