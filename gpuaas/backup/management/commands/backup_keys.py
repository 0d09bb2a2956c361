"""`manage.py backup_keys ARCHIVE --to FILE`: the encryption keys that were sealed into an archive."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from gpuaas.backup.management.commands.backup import PASSPHRASE
from gpuaas.backup.services import keys_write
from gpuaas.core import env
from gpuaas.core.crypto import key_id
from gpuaas.core.errors import GpuaasError


class Command(BaseCommand):
    help = (
        f"Write the encryption keys of an archive to a new file for GPUAAS_ENCRYPTION_KEYS_FILE; {PASSPHRASE} or the "
        f"file {PASSPHRASE}_FILE has the passphrase."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("archive", type=Path)
        parser.add_argument("--to", type=Path, required=True, metavar="FILE")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            keys = keys_write(path=options["archive"], to=options["to"], passphrase=env.text(PASSPHRASE))
        except (GpuaasError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{options['to']}: keys with the ids {', '.join(key_id(key) for key in keys)}")
