"""`manage.py credentials_rotate`: run after a new key was put first in GPUAAS_ENCRYPTION_KEYS, before removing the
old one."""

from typing import Any

from django.core.management.base import BaseCommand

from gpuaas.catalog.services import credentials_rotate


class Command(BaseCommand):
    help = "Encrypt all stored site credentials with the newest encryption key."

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write(f"{credentials_rotate()} sites encrypted again")
