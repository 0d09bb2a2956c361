"""`manage.py usage_archive FOLDER`: moves the usage intervals of final months into Parquet files."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing.services.retention import usage_archive
from gpuaas.core.errors import GpuaasError
from tenants.actors import SYSTEM


class Command(BaseCommand):
    help = (
        "Write the usage intervals of final months into Parquet files in FOLDER, read each back, and delete the intervals "
        "from the database. May be killed and run again. See docs/operators/retention.md."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path)

    def handle(self, **options: Any) -> None:
        try:
            gone = usage_archive(actor=SYSTEM, folder=options["folder"], tell=self.stdout.write)
        except GpuaasError as error:
            raise CommandError(error.message) from error
        except OSError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{gone:,} intervals were archived.")
