"""`gpuaas-portal restore ARCHIVE`: the database of an archive, in place of an empty one; or `--recovered`, for a database that
PostgreSQL itself has brought back to an earlier moment."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gpuaas.backup.services import recovered, restore
from gpuaas.core.errors import GpuaasError

NEXT = "Before you start the processes: docs/operators/backup.md, After a restore."


class Command(BaseCommand):
    help = "Restore an archive into the database of GPUAAS_DATABASE_URL, which must be empty. All or nothing is written."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("archive", type=Path, nargs="?")
        what.add_argument(
            "--recovered",
            action="store_true",
            help="restore nothing: make a database safe that the server has recovered to an earlier moment",
        )
        parser.add_argument(
            "--replace",
            action="store_true",
            help="delete everything that is in the database, in the same transaction",
        )
        parser.add_argument("--migrate", action="store_true", help="then run the migrations of this release")
        parser.add_argument(
            "--revoke-tokens",
            action="store_true",
            help="end all API tokens and keys of environments: one that was revoked after the backup would be valid again",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            if options["recovered"]:
                self._recover(revoke_tokens=options["revoke_tokens"])
                return
            done = restore(
                path=options["archive"],
                replace=options["replace"],
                migrate=options["migrate"],
                revoke_tokens=options["revoke_tokens"],
            )
        except GpuaasError as error:
            raise CommandError(error.message) from error
        manifest = done.manifest
        rows = sum(manifest.rows.values())
        self.stdout.write(
            f"Restored {rows:,} rows in {len(manifest.rows)} tables as of {manifest.moment:%Y-%m-%d %H:%M:%S} UTC; the "
            "rows of each table are as many as were backed up."
        )
        if done.pending:
            self.stdout.write(
                f"{len(done.pending)} migrations are pending: run `gpuaas-portal migrate` and then `gpuaas-portal restore "
                "--recovered` before the start."
            )
        self.stdout.write(NEXT)

    def _recover(self, *, revoke_tokens: bool) -> None:
        sites = ", ".join(site.slug for site in recovered(revoke_tokens=revoke_tokens)) or "none"
        self.stdout.write(
            f"Claims have ended, leases are safe, everybody signs in again. Nothing is changed at these sites until an "
            f"operator confirms each: {sites}."
        )
        self.stdout.write(NEXT)
