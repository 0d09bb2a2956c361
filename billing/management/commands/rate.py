"""`manage.py rate`: the cost of usage in a file by rates in a file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.core.management.base import BaseCommand, CommandError

from billing.files import Refused, files_rate
from billing.money import currency_parse
from billing.months import month_parse
from gpuaas.core.errors import Invalid


class Command(BaseCommand):
    help = (
        "Rate usage.csv by rates.csv for one month; neither reads nor writes the database. Formats: "
        "docs/operators/prices.md."
    )
    requires_system_checks: list[str] = []  # it says nothing of the portal

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--usage", type=Path, required=True)
        parser.add_argument("--rates", type=Path, required=True)
        parser.add_argument(
            "--timezone", required=True, help="of the bounds of the month, e.g. Europe/Berlin"
        )
        parser.add_argument("--currency", required=True, help="ISO 4217, e.g. EUR")
        parser.add_argument("--month", required=True, help="YYYY-MM")
        parser.add_argument("--out", type=Path, required=True)

    def handle(self, **options: Any) -> None:
        try:
            count = files_rate(
                usage=options["usage"],
                rates=options["rates"],
                zone=_zone(options["timezone"]),
                currency=currency_parse(options["currency"]),
                month=month_parse(options["month"]),
                out=options["out"],
            )
        except Refused as refused:
            for row in refused.rows:
                self.stderr.write(str(row))
            raise CommandError(f"{len(refused.rows)} rows cannot be rated; nothing was written") from refused
        except Invalid as error:
            raise CommandError(error.message) from error
        except OSError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{count} lines written to {options['out']}")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CommandError(f"unknown time zone {name!r}; write, for example, Europe/Berlin") from error
