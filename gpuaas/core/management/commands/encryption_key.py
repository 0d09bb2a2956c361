"""`manage.py encryption_key`: a new key for GPUAAS_ENCRYPTION_KEYS."""

from typing import Any

from cryptography.fernet import Fernet
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = (
        "Print a new key. To rotate: add it last to GPUAAS_ENCRYPTION_KEYS of every process and restart them, then put it first and "
        "restart them again, then run encryption_rotate."
    )
    requires_system_checks = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write(Fernet.generate_key().decode())
