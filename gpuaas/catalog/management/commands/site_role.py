"""`manage.py site_role`: what an administrator of a Kubernetes cluster applies so that the portal can work there."""

from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandParser

from gpuaas.providers.kubernetes.preflight.rights import site_role
from gpuaas.providers.vcluster.rights import RIGHTS


class Command(BaseCommand):
    help = (
        "Print the portal's service account for a Kubernetes site with exactly the rights that it needs, "
        "for kubectl apply."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--virtual-clusters", action="store_true", help="for a site with templates of the driver vcluster"
        )

    def handle(self, *_args: Any, virtual_clusters: bool = False, **_options: Any) -> None:
        beside = RIGHTS if virtual_clusters else ()
        self.stdout.write(yaml.safe_dump_all(site_role(beside), sort_keys=False))
