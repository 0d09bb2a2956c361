"""`manage.py backup FOLDER`: a new archive of the database, and on demand of the encryption keys."""

import time
from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, InterfaceError, connection

from gpuaas.backup.archive import manifest_read
from gpuaas.backup.models import Backup
from gpuaas.backup.selectors import backup_last
from gpuaas.backup.services import backup_check, backup_make, backups_keep
from gpuaas.core import clock, env
from gpuaas.core.errors import GpuaasError

PASSPHRASE = "GPUAAS_BACKUP_PASSPHRASE"  # noqa: S105  the name of a variable
RETRY_SECONDS = 600


class Command(BaseCommand):
    help = "Back up the portal into a new archive in FOLDER, while it runs, or check an archive with --check."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="with --check: the archive")
        parser.add_argument(
            "--check",
            action="store_true",
            help="compare every byte of an archive with its sums; change nothing",
        )
        parser.add_argument(
            "--with-keys",
            action="store_true",
            help=f"add GPUAAS_ENCRYPTION_KEYS, sealed with the passphrase in {PASSPHRASE} or in the file {PASSPHRASE}_FILE",
        )

        parser.add_argument(
            "--keep",
            type=at_least_one,
            metavar="N",
            help="then delete all archives in FOLDER but the newest N; the new one, checked, is one of them",
        )
        parser.add_argument(
            "--every",
            type=at_least_one,
            metavar="HOURS",
            help="go on until SIGTERM: an archive whenever the newest is so old; one that failed is tried again in ten minutes",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if not options["every"] or options["check"]:
            return self._once(options)
        while True:
            try:
                wait = due_in(backup_last(), hours=options["every"])
                if wait <= 0:
                    self._once(options)
                    continue
            except (CommandError, DatabaseError, InterfaceError) as error:
                self.stderr.write(str(error))
                wait = RETRY_SECONDS
            connection.close()
            time.sleep(wait)

    def _once(self, options: dict[str, Any]) -> None:
        folder: Path = options["folder"]
        old: list[Path] = []
        try:
            if not options["check"]:
                folder = backup_make(
                    folder=folder,
                    #: Backups: seals the encryption keys in an archive; 16 characters or more
                    passphrase=env.text(PASSPHRASE) if options["with_keys"] else "",
                )
            manifest = backup_check(path=folder) if options["check"] else manifest_read(folder)
            if options["keep"] and not options["check"]:
                old = backups_keep(folder=folder.parent, keep=options["keep"])
        except (GpuaasError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error
        rows = sum(manifest.rows.values())
        self.stdout.write(
            f"{folder}: {rows:,} rows in {len(manifest.rows)} tables as of {manifest.moment:%Y-%m-%d %H:%M:%S} UTC, "
            f"portal {manifest.portal}, needs the keys {', '.join(manifest.keys) or '(none)'}; every sum is right"
        )
        for path in old:
            self.stdout.write(f"{path}: deleted")


def due_in(last: Backup | None, *, hours: int) -> float:
    """Seconds until the next archive; none are left if there was never one."""
    return (last.taken_at + timedelta(hours=hours) - clock.now()).total_seconds() if last is not None else 0


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ArgumentTypeError("at least 1")
    return number
