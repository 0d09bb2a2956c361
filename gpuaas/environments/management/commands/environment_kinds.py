"""`manage.py environment_kinds`: adds the kinds of environments that come with the portal."""

from typing import Any

from django.core.management.base import BaseCommand

from gpuaas.environments.shipped import kinds_ship
from tenants.actors import SYSTEM


class Command(BaseCommand):
    help = "Adds the kinds of environments that come with the portal and are not there yet."

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write(f"{kinds_ship(actor=SYSTEM)} kinds of environments added")
