"""`manage.py sandbox_fleet`: hardware for a simulated site that was added by hand."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gpuaas.core.rows import one_or_none
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.providers.sandbox.models import SandboxSite


class Command(BaseCommand):
    help = "Give a sandbox site the nodes and GPUs of the demo; nodes that are there keep their state."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("site", help="the site's slug")

    def handle(self, *_args: Any, site: str, **_options: Any) -> None:
        found = one_or_none(SandboxSite.objects.filter(slug=site))
        if found is None:
            raise CommandError(
                f"there is no sandbox site {site} that has been probed: add it under Sites first"
            )
        self.stdout.write(f"{site} has {fleet_seed(found.site_id).nodes.count()} nodes")
