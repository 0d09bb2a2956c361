"""`manage.py usage_check`: compares stored usage sums with their intervals."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing.services.keeping import kept_check


class Command(BaseCommand):
    help = (
        "Compare all usage sums with their intervals and compute those that differ again. Runs every "
        "night automatically."
    )

    def handle(self, **options: Any) -> None:
        del options
        wrong = kept_check()
        for row in wrong:
            self.stderr.write(
                f"{row.project.slug}, {row.month:%Y-%m}: differed from its intervals; computed again"
            )
        if wrong:
            raise CommandError(
                f"the sums of {len(wrong)} months of projects were wrong: please report this bug"
            )
        self.stdout.write("All sums agree with their intervals.")
