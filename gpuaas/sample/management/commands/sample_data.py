"""`manage.py sample_data`: fill the database with made-up data of a large provider, for measurements."""

import time
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gpuaas.core.clock import now
from gpuaas.core.errors import GpuaasError
from gpuaas.sample.services import Size, sample_fill


class Command(BaseCommand):
    help = (
        "Fill an empty database with made-up projects, workspaces, sites and a year of usage, to measure how the portal "
        "behaves at that size. Start no meter on it: nothing runs at the simulated sites."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        size = Size()
        for name, what in (
            ("projects", "projects, ten in each organization"),
            ("holders", "workspaces"),
            ("sites", "sites"),
            ("pods", "pods that ran in each workspace"),
        ):
            parser.add_argument(
                f"--{name}", type=_positive, default=getattr(size, name), help=f"{what}; default: %(default)s"
            )
        parser.add_argument("--random-seed", type=int, default=1, help="another number makes other data")
        parser.add_argument(
            "--until", type=datetime.fromisoformat, help="end of the year, ISO 8601; default: now"
        )
        parser.add_argument("--beside", action="store_true", help="also if the database has tenants or sites")
        parser.add_argument("--in-production", action="store_true", help="also with production settings")

    def handle(self, *_args: Any, **options: Any) -> None:
        began = time.monotonic()

        def report(what: str) -> None:
            self.stdout.write(f"{time.monotonic() - began:7.1f} s  {what}")

        sizes = {name: options[name] for name in ("projects", "holders", "sites", "pods")}
        try:
            sample_fill(
                size=Size(**sizes),
                until=options["until"].astimezone(UTC) if options["until"] else now(),
                seed=options["random_seed"],
                beside=options["beside"],
                in_production=options["in_production"],
                report=report,
            )
        except GpuaasError as error:
            raise CommandError(error.message) from error
        report("done")


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number
