"""`manage.py cluster_seeds_rotate`: beside `credentials_rotate`, after a new key was put first in GPUAAS_ENCRYPTION_KEYS."""

from typing import Any

from django.core.management.base import BaseCommand

from gpuaas.clusters.services import seeds_rotate


class Command(BaseCommand):
    help = "Encrypt the seeds of all clusters with the newest encryption key."

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write(f"{seeds_rotate()} clusters encrypted again")
