"""`manage.py site_attach`: make a cluster a site of the portal, or give a site new credentials, and look at it at once."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.catalog.selectors import site_checks
from gpuaas.catalog.services import pool_publish, site_create, site_look, site_preflight_look, site_update
from gpuaas.core.conditions import Status, conditions_read
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.registry import driver_names
from tenants.actors import SYSTEM


class Command(BaseCommand):
    help = "Attach a site, or update one of the same slug; --publish sells one default flavor for each GPU type found."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--slug", required=True)
        parser.add_argument("--name", default="")
        parser.add_argument("--driver", default="kubernetes", choices=driver_names())
        parser.add_argument("--kubeconfig", type=Path, help="a file whose credentials the portal shall use")
        parser.add_argument("--clouds-yaml", type=Path, help="the same for an OpenStack cloud")
        parser.add_argument("--cloud", default="", help="which of its clouds")
        parser.add_argument("--endpoint", default="")
        parser.add_argument("--publish", action="store_true")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            site = self._attached(options)
        except GpuaasError as error:
            raise CommandError(error.message) from error
        answered = site_look(site.pk)
        site.refresh_from_db()
        if not answered:
            bad = [row.message for row in conditions_read(site.conditions) if row.status != Status.TRUE]
            raise CommandError(f"{site.slug} is attached but does not answer: {' '.join(bad)}")
        self.stdout.write(f"{site.slug}: {site.server_version}, answered in {site.answer_ms} ms")
        for pool in GpuPool.objects.filter(site=site, capacity__gt=0).select_related("gpu_type", "site"):
            sold = pool_publish(actor=SYSTEM, pool=pool).slug if options["publish"] else "not published"
            self.stdout.write(f"  {pool.gpu_type.slug}: {pool.free} of {pool.capacity} free ({sold})")
        self._checks(site)

    def _checks(self, site: Site) -> None:
        """What is not as it should be, with what to do about it."""
        if not site_preflight_look(site.pk):
            self.stdout.write("The checks of the site could not be made now; a worker makes them.")
            return
        site.refresh_from_db()
        rows = site_checks(site=site)
        for row in rows:
            if row.status != Status.TRUE:
                self.stdout.write(
                    f"  {row.type}: {row.status} ({row.reason}). {row.message} {row.remedy}".rstrip()
                )
        well = sum(row.status == Status.TRUE for row in rows)
        self.stdout.write(
            f"{well} of {len(rows)} checks are well; {'fit' if site.fit else 'not fit'} to be sold."
        )

    def _attached(self, options: dict[str, Any]) -> Site:
        credentials: dict[str, Any] = {}
        for name in ("kubeconfig", "clouds_yaml"):
            if options[name]:
                try:
                    credentials[name] = options[name].read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError) as error:
                    raise CommandError(f"{options[name]} cannot be read") from error
        if options["cloud"]:
            credentials["cloud"] = options["cloud"]
        site = Site.objects.filter(slug=options["slug"]).first()
        if site is None:
            return site_create(
                actor=SYSTEM,
                slug=options["slug"],
                name=options["name"] or options["slug"],
                driver=options["driver"],
                endpoint=options["endpoint"],
                credentials=credentials,
            )
        changes = {key: options[key] for key in ("name", "endpoint") if options[key]}
        return site_update(actor=SYSTEM, site=site, credentials=credentials or None, enabled=True, **changes)
