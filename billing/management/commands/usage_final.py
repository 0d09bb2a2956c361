"""`manage.py usage_final MONTH`: no usage of the month is compared, credited or taken in any more."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing.months import month_parse
from billing.services.retention import month_finish
from gpuaas.core.errors import GpuaasError
from tenants.actors import SYSTEM


class Command(BaseCommand):
    help = (
        "Make a closed month final, which cannot be undone: it is what its invoices say, and usage of it is not taken in "
        "any more. See docs/operators/retention.md."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("month", help="YYYY-MM; months become final in order")

    def handle(self, **options: Any) -> None:
        try:
            made = month_finish(actor=SYSTEM, month=month_parse(options["month"]))
        except GpuaasError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{made.month:%B %Y} is final since {made.marked_at:%Y-%m-%d %H:%M} UTC.")
