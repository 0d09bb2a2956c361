"""`manage.py sandbox_pod`: run a pod at a simulated site, for the demo and for trying things out."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gpuaas.core.errors import GpuaasError
from gpuaas.core.rows import one_or_none
from gpuaas.providers.sandbox.models import SandboxSite
from gpuaas.providers.sandbox.pods import pod_create


class Command(BaseCommand):
    help = "Run a pod at a sandbox site, as a tenant would with kubectl."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("namespace", help="the workspace's namespace at the site")
        parser.add_argument("name", help="the pod's name")
        parser.add_argument("--site", required=True, help="the site's slug")
        parser.add_argument("--gpus", type=int, default=1)
        parser.add_argument(
            "--seconds", type=int, default=None, help="ends by itself after this many seconds"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        site = one_or_none(SandboxSite.objects.filter(slug=options["site"]))
        if site is None:
            raise CommandError(f"there is no sandbox site {options['site']}")
        try:
            pod = pod_create(
                site.site_id, options["namespace"], options["name"], options["gpus"], options["seconds"]
            )
        except GpuaasError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"pod {pod.name}: {pod.phase} {pod.node_name or pod.waiting_for}")
