"""`manage.py encryption_rotate`: run after a new key was put first in GPUAAS_ENCRYPTION_KEYS of every process, which all had it last
before, and before the old one is removed."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gpuaas.core.rotation import everything_rotate


class Command(BaseCommand):
    help = "Seal every stored secret with the newest encryption key. It may run beside the portal, and again after a kill."

    def handle(self, *_args: Any, **_options: Any) -> None:
        done = everything_rotate()
        for name, each in done.items():
            self.stdout.write(f"{name}: {each.sealed} sealed again")
        if lost := {name: each.lost for name, each in done.items() if each.lost}:
            listed = "; ".join(f"{name} {', '.join(rows)}" for name, rows in lost.items())
            raise CommandError(f"No configured key opens these rows: {listed}. Add the key that sealed them.")
        if left := sum(each.left for each in done.values()):
            raise CommandError(
                f"{left} rows were sealed with an older key meanwhile. Some process does not have the new key first: "
                "restart all of them, and run this again."
            )
        self.stdout.write("Everything is sealed with the newest key; the older ones can be removed.")
