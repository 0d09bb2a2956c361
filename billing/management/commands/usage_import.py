"""`manage.py usage_import`: imports usage that was metered elsewhere."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing.files import Refused, files_import
from tenants.actors import SYSTEM


class Command(BaseCommand):
    help = (
        "Import the intervals of usage.csv into the portal, all or none. Format: docs/operators/metering.md."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--usage", type=Path, required=True)
        parser.add_argument(
            "--check", action="store_true", help="show what would be imported, and write nothing"
        )

    def handle(self, **options: Any) -> None:
        try:
            done = files_import(actor=SYSTEM, usage=options["usage"], check=options["check"])
        except Refused as refused:
            for row in refused.rows:
                self.stderr.write(str(row))
            raise CommandError(f"{len(refused.rows)} rows are refused; nothing was imported") from refused
        except OSError as error:
            raise CommandError(str(error)) from error
        verb = "would be" if options["check"] else "were"
        same = done.rows - done.written
        self.stdout.write(
            f"{done.written} of {done.rows} rows {verb} imported; {same} are already known or empty"
        )
