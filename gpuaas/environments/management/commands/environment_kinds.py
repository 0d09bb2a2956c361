"""`manage.py environment_kinds`: adds the kinds of environments that come with the portal."""

from typing import Any

from django.core.management.base import BaseCommand

from gpuaas.environments.shipped import kinds_ship
from tenants.actors import SYSTEM


class Command(BaseCommand):
    help = "Adds the kinds of environments, and versions of them, that come with the portal and are not there yet."

    def handle(self, *_args: Any, **_options: Any) -> None:
        kinds, versions = kinds_ship(actor=SYSTEM)
        self.stdout.write(f"{kinds} kinds of environments added, {versions} versions of others")
