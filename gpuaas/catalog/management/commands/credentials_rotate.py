"""`manage.py credentials_rotate`: after a new key was put first in GPUAAS_ENCRYPTION_KEYS, before the old one goes."""

from typing import Any

from django.core.management.base import BaseCommand

from gpuaas.catalog.services import credentials_rotate


class Command(BaseCommand):
    help = "Seal all stored site credentials with the newest encryption key."

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write(f"{credentials_rotate()} sites sealed anew")
