"""`manage.py site_role`: what an administrator of a Kubernetes cluster applies to it, so that the portal may work there."""

from typing import Any

import yaml
from django.core.management.base import BaseCommand

from gpuaas.providers.kubernetes.preflight.rights import site_role


class Command(BaseCommand):
    help = "Print the portal's own account for a Kubernetes site and exactly the rights that it needs, for kubectl apply."

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write(yaml.safe_dump_all(site_role(), sort_keys=False))
