"""`manage.py usage_import`: imports usage that was metered elsewhere, lists imports, takes one back."""

from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing.files import Refused, files_import, import_take_back
from gpuaas.core.errors import GpuaasError
from gpuaas.metering.imports import Imported, Overlap
from gpuaas.metering.models import UsageImport, UsageImportSum
from gpuaas.metering.selectors import imports_for
from tenants.actors import SYSTEM

KINDS = [kind.value for kind in Overlap]


class Command(BaseCommand):
    help = (
        "Import the intervals of usage.csv into the portal, all or none. Format: docs/operators/metering.md."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        does = parser.add_mutually_exclusive_group(required=True)
        does.add_argument("--usage", type=Path, metavar="FILE", help="import this file")
        does.add_argument("--list", action="store_true", help="list imports, newest first")
        does.add_argument("--take-back", metavar="NAME", help="delete the usage of the import of this name")
        parser.add_argument("--name", default="", help="of the import; default: that of the file")
        parser.add_argument(
            "--check", action="store_true", help="show what would be imported, and write nothing"
        )
        parser.add_argument(
            "--allow-overlap",
            nargs="*",
            choices=KINDS,
            metavar="KIND",
            help="import rows although the same workspace, meter and GPUs are counted at the same time: by another row "
            "of the file, by other imports, or metered by the portal; without a kind, all of them",
        )
        parser.add_argument(
            "--reopen",
            action="store_true",
            help="import usage of months that are long closed or before all others",
        )

    def handle(self, **options: Any) -> None:
        try:
            if options["list"]:
                self._list()
            elif options["take_back"] is not None:
                self._take_back(options["take_back"])
            else:
                self._import(options)
        except Refused as refused:
            for row in refused.rows:
                self.stderr.write(str(row))
            raise CommandError(f"{len(refused.rows)} rows are refused; {_answers(refused)}") from refused
        except GpuaasError as error:
            raise CommandError(error.message) from error
        except OSError as error:
            raise CommandError(str(error)) from error

    def _import(self, options: dict[str, Any]) -> None:
        asked = options["allow_overlap"]
        done = files_import(
            actor=SYSTEM,
            usage=options["usage"],
            name=options["name"],
            overlaps=() if asked is None else [Overlap(kind) for kind in asked or KINDS],
            reopen=options["reopen"],
            check=options["check"],
        )
        self._sums(done.sums)
        verb = "would be" if options["check"] else "were"
        same = done.rows - done.written
        self.stdout.write(
            f"{done.written} of {done.rows} rows {verb} imported{_named(done)}; {same} are already known or empty"
        )

    def _sums(self, sums: Iterable[UsageImportSum]) -> None:
        for row in sums:
            brings, there = (
                f"{seconds / 3600:,.2f}" for seconds in (row.unit_seconds, row.besides_unit_seconds)
            )
            self.stdout.write(
                f"{row.month:%Y-%m}  {row.project.slug}  {row.meter}: {brings} unit-hours in {row.intervals} intervals, "
                f"beside {there} that are there"
            )

    def _list(self) -> None:
        for row in imports_for(actor=SYSTEM):
            state = f", taken back {row.taken_back_at:%Y-%m-%d %H:%M} UTC" if row.taken_back_at else ""
            self.stdout.write(
                f"{row.name}: {row.intervals} intervals from {row.starts_at:%Y-%m-%d %H:%M} to {row.ends_at:%Y-%m-%d %H:%M} UTC, "
                f"imported {row.imported_at:%Y-%m-%d %H:%M} UTC by {row.imported_by}{state}"
            )

    def _take_back(self, name: str) -> None:
        batch = UsageImport.objects.filter(name=name).first()
        if batch is None:
            raise CommandError(f"no import is called {name}; --list shows them")
        row = import_take_back(actor=SYSTEM, batch=batch)
        self.stdout.write(f"{row.name} was taken back: its {row.intervals} intervals are deleted")


def _named(done: Imported) -> str:
    return f" as {done.batch.name}" if done.batch else ""


def _answers(refused: Refused) -> str:
    """Which arguments take in what is only asked about."""
    answers = []
    if refused.overlaps:
        answers.append(f"--allow-overlap imports the {refused.overlaps} that would be counted twice")
    if refused.early:
        answers.append("--reopen imports the months that are asked about")
    return "; ".join(["nothing was imported", *answers])
